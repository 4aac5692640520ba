//! Finds and reads state files in the order of their names. Never writes.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use portcullis_apimachinery::json;

use super::error::StateError;

/// The maximum size of a file in bytes.
pub const MAX_FILE_BYTES: u64 = 2 << 30;

/// The maximum size of a YAML file in bytes. Parsing YAML takes many times its size in memory.
pub const MAX_YAML_BYTES: u64 = 256 << 20;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON: one value, several concatenated values, or one per line.
    Json,
    /// YAML: any number of documents.
    Yaml,
}

impl Format {
    /// Returns the format by the extension of a file name.
    fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// Guesses the format of a text, for files without a known extension.
    fn of_text(text: &str) -> Self {
        if text.trim_start().starts_with(['{', '[']) { Self::Json } else { Self::Yaml }
    }
}

/// Lists the files of the paths in reading order: a file itself, and for a directory every `.json`, `.yaml` and `.yml`
/// file below it, sorted by name.
///
/// Symbolic links are followed, except back to a directory that is being read. Names that begin with two dots are
/// skipped: a mounted volume keeps its versions there, and shows the current one under plain names.
///
/// # Errors
/// A path cannot be read, or a directory contains no such file.
pub(super) fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, StateError> {
    let mut files = Vec::new();
    for path in paths {
        let metadata = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        if !metadata.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        walk(path, &mut Vec::new(), &mut files)?;
        if files.len() == before {
            let reason =
                "the directory holds no .json, .yaml or .yml file: name the one that holds the state";
            return Err(StateError::whole(path, reason));
        }
    }
    Ok(files)
}

/// Adds the files below a directory. `open` contains the canonical paths of the directories being read.
fn walk(directory: &Path, open: &mut Vec<PathBuf>, files: &mut Vec<PathBuf>) -> Result<(), StateError> {
    let real = fs::canonicalize(directory).map_err(|error| unreadable(directory, &error))?;
    if open.contains(&real) {
        return Ok(());
    }
    open.push(real);
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| entry.map(|e| e.path())).collect())
        .map_err(|error| unreadable(directory, &error))?;
    entries.sort();
    for path in entries {
        if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"..")) {
            continue;
        }
        let named = Format::of_name(&path).is_some();
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if named => return Err(unreadable(&path, &error)),
            Err(_) => continue,
        };
        if metadata.is_dir() {
            walk(&path, open, files)?;
        } else if named && metadata.is_file() {
            files.push(path);
        } else if named {
            return Err(StateError::whole(&path, "neither a file nor a directory: remove it"));
        }
    }
    open.pop();
    Ok(())
}

/// Reads a file and determines its format by its name or its text.
///
/// # Errors
/// The file cannot be read, is too large, is empty, or is not UTF-8.
pub(super) fn read(path: &Path) -> Result<(Format, String), StateError> {
    let named = Format::of_name(path);
    let mut bytes = Vec::new();
    let limit = if named == Some(Format::Yaml) { MAX_YAML_BYTES } else { MAX_FILE_BYTES };
    read_up_to(path, limit, &mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let fault = json::utf8(error.as_bytes()).err();
        fault.map_or_else(|| StateError::whole(path, "not UTF-8"), |fault| StateError::of(path, fault))
    })?;
    if text.starts_with('\u{feff}') {
        let reason = "the file starts with a byte order mark: save it as UTF-8 without one";
        return Err(StateError::whole(path, reason));
    }
    if text.trim_ascii().is_empty() {
        let reason = "the file is empty, as a failed kubectl get leaves it: write it again";
        return Err(StateError::whole(path, reason));
    }
    let format = named.unwrap_or_else(|| Format::of_text(&text));
    if format == Format::Yaml && text.len() as u64 > MAX_YAML_BYTES {
        return Err(too_large(path, MAX_YAML_BYTES));
    }
    Ok((format, text))
}

fn read_up_to(path: &Path, limit: u64, bytes: &mut Vec<u8>) -> Result<(), StateError> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let size = file.metadata().map_err(|error| unreadable(path, &error))?.len();
    if size > limit {
        return Err(too_large(path, limit));
    }
    // One byte more than the size of the file, so that reading finds the end without growing the buffer.
    bytes.reserve_exact(usize::try_from(size).unwrap_or(0).saturating_add(1));
    let read = file.take(limit.saturating_add(1)).read_to_end(bytes);
    let read = read.map_err(|error| unreadable(path, &error))? as u64;
    if read > limit {
        return Err(too_large(path, limit));
    }
    Ok(())
}

fn too_large(path: &Path, limit: u64) -> StateError {
    let reason = format!("larger than {} MiB: split it, or write it as JSON", limit >> 20);
    StateError::whole(path, reason)
}

fn unreadable(path: &Path, error: &std::io::Error) -> StateError {
    StateError::whole(path, format!("cannot be read: {error}"))
}
