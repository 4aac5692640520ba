//! The files of a store: its folder, and how a new file takes the place of another.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::problem::{RESTORE, broken};
use crate::StoreError;

/// Makes the folder of a store.
pub(super) fn make_folder(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| broken(path, "cannot make its folder", error, "check the path"))
}

/// Whether there is a file that may be a store. Its permissions are tightened.
pub(super) fn is_there(path: &Path) -> Result<bool, StoreError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(broken(path, "cannot be read", error, "check path and permissions")),
        Ok(found) if !found.is_file() => Err(broken(path, "is not a store", "not a file", "name a file")),
        Ok(found) if found.len() == 0 => {
            let problem = "the file is empty, so it has lost what it held";
            Err(broken(path, "is not a store", problem, RESTORE))
        }
        Ok(_) => {
            let tightened = fs::set_permissions(path, Permissions::from_mode(0o600));
            tightened
                .map_err(|error| broken(path, "cannot be kept from others", error, "check its owner"))?;
            Ok(true)
        }
    }
}

/// Creates a file that does not exist, for its owner alone.
pub(super) fn create_file(path: &Path) -> Result<File, StoreError> {
    let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| broken(path, "cannot be made", error, "name a file that is not there yet"))
}

/// The name of the file that replaces a store, which does not exist: one that was not finished is removed.
pub(super) fn free_beside(path: &Path) -> Result<PathBuf, StoreError> {
    let new = beside(path, ".new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(broken(&new, "cannot be replaced", error, "remove it"))
        }
        _ => Ok(new),
    }
}

/// Replaces a store by a new file.
pub(super) fn put_in_place(new: &Path, path: &Path) -> Result<(), StoreError> {
    let moved = fs::rename(new, path).and_then(|()| sync_folder(path));
    moved
        .map_err(|error| broken(path, "cannot be put in place", error, "check the permissions of its folder"))
}

/// Flushes a folder, so that a new name in it is durable as well.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The path with something after its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
