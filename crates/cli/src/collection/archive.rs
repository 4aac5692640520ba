//! Writes a collection as an archive: a directory, or a compressed tar file (AU-20). The same collection gives the same bytes.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use portcullis_server::state::TarWriter;
use portcullis_server::state::manifest::{MANIFEST, file_of};

use super::cluster::Collection;
use crate::failure::Failure;

/// Writes an archive to a path that does not exist yet, or to an empty directory. A name that ends in `.tar.gz` or `.tgz` is a
/// file; every other one is a directory.
///
/// # Errors
/// There is something already, or the archive cannot be written.
pub(crate) fn write(collection: &Collection, path: &Path) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::unreachable(format_args!("--output {}: {error}", path.display()));
    let files = files(collection).map_err(failed)?;
    if is_file(path) { tar(&files, path).map_err(failed) } else { directory(&files, path).map_err(failed) }
}

/// Refuses a path at which something is already.
///
/// # Errors
/// See above.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let is_taken = match fs::read_dir(path) {
        Ok(mut entries) => is_file(path) || entries.next().is_some(),
        Err(_) => path.symlink_metadata().is_ok(),
    };
    if !is_taken {
        return Ok(());
    }
    Err(Failure::input(format_args!(
        "--output {}: there is something already: name another path, or remove it",
        path.display()
    )))
}

fn is_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".tar.gz") || name.ends_with(b".tgz")
}

/// The files of the archive with their names. The manifest is the last: a directory without one is not complete.
fn files(collection: &Collection) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for (entry, objects) in collection.manifest.resources.iter().zip(&collection.objects) {
        if !entry.has_file() {
            continue;
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        for object in objects {
            encoder.write_all(object.json.as_bytes())?;
            encoder.write_all(b"\n")?;
        }
        files.push((file_of(&entry.group, &entry.resource), encoder.finish()?));
    }
    if let Some(version) = &collection.version {
        files.push(("version.json".to_owned(), format!("{version}\n").into_bytes()));
    }
    for (node, config) in &collection.kubelets {
        files.push((format!("kubelets/{node}.json"), format!("{config}\n").into_bytes()));
    }
    files.sort();
    let manifest = serde_json::to_string_pretty(&collection.manifest).map_err(io::Error::other)?;
    files.push((MANIFEST.to_owned(), format!("{manifest}\n").into_bytes()));
    Ok(files)
}

fn directory(files: &[(String, Vec<u8>)], path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for (name, content) in files {
        if let Some(folder) = path.join(name).parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join(name))?;
        file.write_all(content)?;
        file.sync_all()?;
    }
    Ok(())
}

/// Writes a file beside the wanted one, and moves it there when it is complete.
fn tar(files: &[(String, Vec<u8>)], path: &Path) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let write = || {
        let mut archive = TarWriter::new(GzEncoder::new(file, Compression::default()));
        for (name, content) in files {
            archive.file(name, content)?;
        }
        archive.finish()?.finish()?.sync_all()?;
        fs::rename(&new, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&new)))
}
