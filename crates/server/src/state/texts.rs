//! Finds the texts with objects among the files of a state. Never reads an object.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::beside::Beside;
use super::error::StateError;
use super::files::{self, Format};
use super::manifest::Manifest;

/// Receives the text of a file with objects, and returns how many there are.
pub(super) type TakeText<'t> = dyn FnMut(&Path, Format, &str) -> Result<u64, StateError> + 't;

/// Passes the text of every file with objects to `take`, in order. Returns how many they are, and what there is beside them.
pub(super) fn each_text(paths: &[PathBuf], take: &mut TakeText<'_>) -> Result<(usize, Beside), StateError> {
    let mut beside = Beside::default();
    let mut counts = BTreeMap::new();
    let mut manifests = Vec::new();
    for file in files::find(paths)? {
        files::read(&file, &mut |path, format, text| {
            let known = beside.manifests.len();
            if let Some(text) = beside.take(path, format, text)? {
                counts.insert(path.to_owned(), take(path, format, &text)?);
            } else if beside.manifests.len() > known {
                manifests.push(path.to_owned());
            }
            Ok(())
        })?;
    }
    for (path, manifest) in manifests.iter().zip(&beside.manifests) {
        complete(path, manifest, &counts)?;
    }
    Ok((counts.len(), beside))
}

/// Checks that an archive has what its manifest says: a file that is missing must not be taken for a kind without objects.
fn complete(path: &Path, manifest: &Manifest, counts: &BTreeMap<PathBuf, u64>) -> Result<(), StateError> {
    for (name, count) in manifest.files() {
        let file = path.with_file_name(name);
        let reason = match counts.get(&file) {
            Some(found) if *found == count => continue,
            Some(found) => format!("has {found} objects, and {count} by its manifest"),
            None => format!("is missing, and has {count} objects by its manifest"),
        };
        return Err(StateError::whole(&file, format!("{reason}: the archive is damaged, collect it again")));
    }
    Ok(())
}
