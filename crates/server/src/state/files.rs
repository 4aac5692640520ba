//! Finds and reads state files in the order of their names: plain ones, compressed ones, and archives of them. Never writes,
//! and unpacks nothing to disk.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use portcullis_apimachinery::json;

use super::error::StateError;
use super::tar::{self, describe};

/// The maximum size of a file in bytes, after it is decompressed.
pub const MAX_FILE_BYTES: u64 = 2 << 30;

/// The maximum size of a YAML file in bytes. Parsing YAML takes many times its size in memory.
pub const MAX_YAML_BYTES: u64 = 256 << 20;

/// The maximum size of all files of an archive in bytes, as they are in it.
pub const MAX_ARCHIVE_BYTES: u64 = 4 << 30;

/// With these bytes files of gzip begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON: one value, several concatenated values, or one per line.
    Json,
    /// YAML: any number of documents.
    Yaml,
}

impl Format {
    /// Returns the format by the extension of a file name, which may be compressed. Lines of JSON are objects only in archives,
    /// where they are compressed: elsewhere they are reviews and logs.
    fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            "gz" => {
                let inner = Path::new(path.file_stem()?);
                let is_of_lines = inner.extension().is_some_and(|extension| extension == "jsonl");
                if is_of_lines { Some(Self::Json) } else { Self::of_name(inner) }
            }
            _ => None,
        }
    }

    /// Guesses the format of a text, for files without a known extension.
    fn of_text(text: &str) -> Self {
        if text.trim_start().starts_with(['{', '[']) { Self::Json } else { Self::Yaml }
    }
}

/// Whether the name of a file is that of a compressed archive.
fn is_archive(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".tar.gz") || name.ends_with(b".tgz")
}

/// The directory with the configuration of kubelets (AU-14).
const KUBELETS: &str = "kubelets";

/// Whether a file is in a directory with the configuration of kubelets.
pub(super) fn is_of_kubelets(path: &Path) -> bool {
    path.parent().and_then(Path::file_name).is_some_and(|folder| folder == KUBELETS)
}

/// Whether a file is the command line of a kubelet.
pub(super) fn is_flags(path: &Path) -> bool {
    is_of_kubelets(path) && path.extension().is_some_and(|extension| extension == "flags")
}

/// Whether files of this name are read where a directory or an archive is named.
fn is_named(path: &Path) -> bool {
    Format::of_name(path).is_some() || is_flags(path)
}

/// Lists the files of the paths in reading order: a file itself, and for a directory every `.json`, `.yaml` and `.yml` file below
/// it, compressed or not, and every `.jsonl.gz`, sorted by name.
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
        let named = is_named(&path);
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

/// Receives a file: its path, its format and its text.
pub type TakeFile<'t> = dyn FnMut(&Path, Format, String) -> Result<(), StateError> + 't;

/// Reads a file and determines its format by its name or its text. Of an archive every file is passed on.
///
/// # Errors
/// A file cannot be read, is too large or damaged, is empty, or is not UTF-8; or what `take` returns.
pub(super) fn read(path: &Path, take: &mut TakeFile<'_>) -> Result<(), StateError> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    if is_archive(path) {
        return read_archive(path, MultiGzDecoder::new(BufReader::new(file)), take);
    }
    let size = file.metadata().map_err(|error| unreadable(path, &error))?.len();
    let (format, text) = read_text(path, &mut BufReader::new(file), size)?;
    take(path, format, text)
}

/// Passes on every state file of a tar archive.
///
/// # Errors
/// As [`read`].
pub(super) fn read_archive(
    path: &Path,
    archive: impl Read,
    take: &mut TakeFile<'_>,
) -> Result<(), StateError> {
    let damaged = |why: String| StateError::whole(path, why);
    // One byte more, so that a larger archive is told from one that ends there.
    let mut content = archive.take(MAX_ARCHIVE_BYTES.saturating_add(1));
    let mut found = false;
    let read = tar::each(&mut content, damaged, &mut |name, entry, size| {
        let inner = path.join(name.trim_start_matches("./").trim_start_matches('/'));
        let is_hidden = name.split('/').any(|part| part.starts_with(".."));
        if is_hidden || !is_named(&inner) {
            return Ok(());
        }
        found = true;
        let (format, text) = read_text(&inner, &mut BufReader::new(entry), size)?;
        take(&inner, format, text)
    });
    // What follows the end mark proves that nothing is missing.
    let read = read.and_then(|()| {
        let end = io::copy(&mut content, &mut io::sink());
        end.map(drop).map_err(|error| damaged(describe(&error)))
    });
    if content.limit() == 0 {
        return Err(too_large(path, MAX_ARCHIVE_BYTES));
    }
    read?;
    if found { Ok(()) } else { Err(StateError::whole(path, "the archive holds no state file")) }
}

fn read_text(path: &Path, reader: &mut dyn io::BufRead, size: u64) -> Result<(Format, String), StateError> {
    let named = Format::of_name(path);
    let limit = if named == Some(Format::Yaml) { MAX_YAML_BYTES } else { MAX_FILE_BYTES };
    let start = reader.fill_buf().map_err(|error| unreadable(path, &error))?;
    let is_compressed = start.starts_with(&GZIP);
    if !is_compressed && path.extension().is_some_and(|extension| extension == "gz") {
        return Err(StateError::whole(path, "not compressed with gzip, though its name says so"));
    }
    let bytes = match is_compressed {
        true => read_up_to(path, limit, 0, &mut MultiGzDecoder::new(reader))?,
        false => read_up_to(path, limit, size, reader)?,
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let fault = json::utf8(error.as_bytes()).err();
        fault.map_or_else(|| StateError::whole(path, "not UTF-8"), |fault| StateError::of(path, fault))
    })?;
    if text.starts_with('\u{feff}') {
        let reason = "the file starts with a byte order mark: save it as UTF-8 without one";
        return Err(StateError::whole(path, reason));
    }
    if text.trim_ascii().is_empty() && !may_be_empty(path) {
        let reason = "the file is empty, as a failed kubectl get leaves it: write it again";
        return Err(StateError::whole(path, reason));
    }
    let format = named.unwrap_or_else(|| Format::of_text(&text));
    if format == Format::Yaml && text.len() as u64 > MAX_YAML_BYTES {
        return Err(too_large(path, MAX_YAML_BYTES));
    }
    Ok((format, text))
}

/// Whether a file without lines has no objects: one of an archive, whose manifest says how many there are.
fn may_be_empty(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".jsonl") || name.ends_with(b".jsonl.gz") || is_flags(path)
}

fn read_up_to(path: &Path, limit: u64, size: u64, reader: &mut dyn Read) -> Result<Vec<u8>, StateError> {
    if size > limit {
        return Err(too_large(path, limit));
    }
    let mut bytes = Vec::new();
    // One byte more than the size of the file, so that reading finds the end without growing the buffer.
    bytes.reserve_exact(usize::try_from(size).unwrap_or(0).saturating_add(1));
    let read = reader.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    let read = read.map_err(|error| StateError::whole(path, describe(&error)))? as u64;
    if read > limit {
        return Err(too_large(path, limit));
    }
    Ok(bytes)
}

fn too_large(path: &Path, limit: u64) -> StateError {
    let reason = format!("larger than {} MiB: split it, or write it as JSON", limit >> 20);
    StateError::whole(path, reason)
}

fn unreadable(path: &Path, error: &io::Error) -> StateError {
    StateError::whole(path, format!("cannot be read: {error}"))
}
