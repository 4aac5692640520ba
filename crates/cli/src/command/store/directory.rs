//! The directory of an export: one YAML file for each object, and a manifest.
//!
//! A file lies where its key says: `core/pods/default/web.yaml`, `apps/deployments/default/web.yaml`, `core/nodes/n1.yaml`. So
//! the path and the key follow from each other, and two files can never be one object. The manifest is written last: a
//! directory without one is not complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use portcullis_server::registry::content::{key_of, path_of, resource};
use portcullis_server::state::yaml_to_json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;
use crate::program_name;
use crate::yaml;

/// The name of the manifest.
pub(super) const MANIFEST: &str = "manifest.yaml";
/// The `apiVersion` of manifests, which names the format of the directory. No other version is read.
const API_VERSION: &str = "portcullis.dev/v1";
const KIND: &str = "StoreExport";
/// The largest file that is read, in bytes: a value of etcd has at most 10 MiB, and YAML may need six bytes for one.
const MOST_BYTES: u64 = 64 << 20;

/// The manifest of an export, with the fields of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Manifest {
    api_version: String,
    kind: String,
    /// `embedded` or `etcd`.
    pub(super) source: String,
    /// The revision of the source.
    pub(super) revision: u64,
    /// The number of files for each resource, as at the start of their paths.
    pub(super) resources: BTreeMap<String, u64>,
    /// The keys of values that could not be read, and are not in the directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left_out: Vec<String>,
}

impl Manifest {
    /// The number of objects.
    pub(super) fn objects(&self) -> u64 {
        self.resources.values().sum()
    }
}

/// A document in YAML that reads as the same document.
fn in_yaml(document: &Value) -> Option<String> {
    let reads_so = |text: &String| {
        let json = yaml_to_json(text).ok();
        json.and_then(|json| serde_json::from_str::<Value>(&json).ok()).as_ref() == Some(document)
    };
    // The first is easier to read; the second knows no case in which it would be read as something else.
    serde_saphyr::to_string(document)
        .ok()
        .filter(reads_so)
        .or_else(|| Some(yaml::block(document)).filter(reads_so))
}

/// An export that is being written.
pub(super) struct Writer {
    root: PathBuf,
    /// The folders that were made.
    made: BTreeSet<PathBuf>,
    resources: BTreeMap<String, u64>,
}

impl Writer {
    /// Makes the directory, which must be missing or empty.
    ///
    /// # Errors
    /// It has files, or cannot be made.
    pub(super) fn new(root: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::unreachable(format_args!("{}: {error}", root.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(failed)?;
        if fs::read_dir(root).map_err(failed)?.next().is_some() {
            return Err(Failure::input(format_args!(
                "--to {}: the directory is not empty: name another one, or remove what is in it",
                root.display()
            )));
        }
        fs::set_permissions(root, Permissions::from_mode(0o700)).map_err(failed)?;
        Ok(Self { root: root.to_owned(), made: BTreeSet::new(), resources: BTreeMap::new() })
    }

    /// Writes the file of an object.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(super) fn write(&mut self, key: &str, json: &[u8]) -> Result<(), Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::unreachable(format_args!(
                "{}: the object {key} cannot be written: {why}",
                self.root.display()
            ))
        };
        let document: Value = serde_json::from_slice(json).map_err(|error| failed(&error))?;
        let path = path_of(key).ok_or_else(|| failed(&"its key has an empty part"))?;
        let text =
            in_yaml(&document).ok_or_else(|| failed(&"it has no form in YAML that reads as the same"))?;
        let path = self.root.join(path);
        let folder = path.parent().unwrap_or(&self.root);
        if !self.made.contains(folder) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| failed(&error))?;
            self.made.insert(folder.to_owned());
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| failed(&error))?;
        let count = self.resources.entry(resource(key).to_owned()).or_default();
        *count = count.saturating_add(1);
        Ok(())
    }

    /// Writes the manifest, which makes the export complete.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(
        self,
        source: &str,
        revision: u64,
        left_out: Vec<String>,
    ) -> Result<Manifest, Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::unreachable(format_args!("{}: {why}", self.root.join(MANIFEST).display()))
        };
        let manifest = Manifest {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            source: source.to_owned(),
            revision,
            resources: self.resources,
            left_out,
        };
        let document = serde_json::to_value(&manifest).map_err(|error| failed(&error))?;
        let new = self.root.join(".manifest.new");
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(yaml::block(&document).as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, self.root.join(MANIFEST))?;
            File::open(&self.root)?.sync_all()
        };
        write().map_err(|error| failed(&error))?;
        Ok(manifest)
    }
}

/// Takes the path of a file, and the key that has this path, if one has.
type Take<'t> = dyn FnMut(&str, Option<String>) -> Result<(), Failure> + 't;

/// A complete export.
pub(super) struct Reader {
    root: PathBuf,
    /// Its manifest.
    pub(super) manifest: Manifest,
}

impl Reader {
    /// Opens an export.
    ///
    /// # Errors
    /// There is no manifest, or it cannot be read.
    pub(super) fn open(root: &Path) -> Result<Self, Failure> {
        let path = root.join(MANIFEST);
        let failed =
            |why: &dyn std::fmt::Display| Failure::input(format_args!("--from {}: {why}", path.display()));
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && root.is_dir() => {
                return Err(Failure::input(format_args!(
                    "--from {}: there is no {MANIFEST}, so this is not a complete export: run `{} store export` \
                     again, into another directory",
                    root.display(),
                    program_name::of_this_process()
                )));
            }
            read => read.map_err(|error| failed(&error))?,
        };
        let json = yaml_to_json(&text).map_err(|error| failed(&error))?;
        let manifest: Manifest = serde_json::from_str(&json).map_err(|error| failed(&error))?;
        if manifest.api_version != API_VERSION || manifest.kind != KIND {
            return Err(failed(&format_args!(
                "has the apiVersion {:?} and the kind {:?}: this version reads {KIND} of {API_VERSION}",
                manifest.api_version, manifest.kind
            )));
        }
        Ok(Self { root: root.to_owned(), manifest })
    }

    /// The document of a key, as JSON text on the same lines; none if it is not in the export.
    ///
    /// # Errors
    /// The file cannot be read, or is not YAML: where, and why.
    pub(super) fn document(&self, key: &str) -> Result<Option<String>, String> {
        let Some(path) = path_of(key) else { return Ok(None) };
        match read(&self.root.join(&path)) {
            Ok(text) => text.map(|text| to_json(&text)).transpose().map_err(|why| format!("{path}: {why}")),
            Err(error) => Err(format!("{path}: {error}")),
        }
    }

    /// Passes the paths and the keys of all files, in the order of their names. A path without a key is none of an export.
    ///
    /// # Errors
    /// A folder cannot be read; or what `take` returns.
    pub(super) fn each(&self, take: &mut Take<'_>) -> Result<(), Failure> {
        self.walk("", take)
    }

    fn walk(&self, below: &str, take: &mut Take<'_>) -> Result<(), Failure> {
        let folder = self.root.join(below);
        let failed = |error: io::Error| Failure::input(format_args!("{}: {error}", folder.display()));
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Links are not followed: they are no files of an export.
            names.push((entry.file_name(), entry.file_type().map_err(failed)?));
        }
        names.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, kind) in names {
            let shown = name.to_string_lossy();
            let path = if below.is_empty() { shown.to_string() } else { format!("{below}/{shown}") };
            match (kind.is_dir(), name.to_str()) {
                (true, Some(_)) => self.walk(&path, take)?,
                (false, Some(_)) if path == MANIFEST => {}
                (false, Some(_)) => take(&path, key_of(&path).filter(|_| kind.is_file()))?,
                (_, None) => take(&path, None)?,
            }
        }
        Ok(())
    }
}

/// The text of a file; none if it does not exist.
fn read(path: &Path) -> io::Result<Option<String>> {
    let size = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?.len(),
    };
    if size > MOST_BYTES {
        return Err(io::Error::other(format!("has {size} bytes; at most {MOST_BYTES} are read")));
    }
    fs::read_to_string(path).map(Some)
}

fn to_json(text: &str) -> Result<String, String> {
    if text.trim_ascii().is_empty() {
        return Err("the file is empty: export again, or restore the file".to_owned());
    }
    yaml_to_json(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_reads_as_it_was_written() {
        let texts = [
            "yes",
            "no",
            "on",
            "~",
            "null",
            "0755",
            "0x1F",
            "1e3",
            "1_000",
            "12:30:45",
            ".5",
            "-",
            "- a",
            "a: b",
            "#c",
            "'",
            "\"",
            "",
            " ",
            "a\nb",
            "a\n",
            "\n",
            "a\n\n b\n",
            "\ttab",
            "trailing \n",
            "é",
            "\u{1F600}",
            "\u{85}",
            "\u{2028}",
            "\u{feff}",
            "\u{7f}",
            "\u{1}",
            "!tag",
            "&a",
            "*a",
            "%a",
            "@a",
            "`a",
            "{a}",
            "[a]",
            "a,b",
            "2001-01-01",
            "=",
            "<<",
            "...",
            "---",
            "\r\n",
            "x\r",
            "|",
            ">",
            "? a",
            "NaN",
            ".inf",
            "0o7",
            "0b1",
            "+1",
        ];
        let whole: Vec<Value> = texts
            .iter()
            .map(|text| json!({*text: *text, "list": [*text, [*text]], "n": {"m": *text}}))
            .collect();
        for document in whole.iter().chain([
            &json!(whole),
            &json!({"a": 1.0, "b": -0.0, "c": u64::MAX, "d": 1e300, "e": [], "f": {}}),
        ]) {
            assert!(in_yaml(document).is_some(), "{document}");
        }
    }
}
