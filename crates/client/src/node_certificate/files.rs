//! Secret files: written atomically and durably, readable only by the owner, and never through a symbolic link of
//! another user.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::error::{CredentialError, FileError};

/// The maximum size of a file that is read. In bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

pub(crate) fn failed<'a>(verb: &'static str, path: &'a Path) -> impl Fn(io::Error) -> FileError + 'a {
    move |source| FileError { verb, path: path.to_owned(), source }
}

/// Creates a directory that others may read, and checks that others cannot create files in it (CS-110).
pub(crate) fn make_dir(dir: &Path) -> Result<(), FileError> {
    DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(failed("make", dir))?;
    let mode = fs::metadata(dir).map_err(failed("read", dir))?.mode();
    if mode & 0o002 != 0 {
        let why =
            io::Error::other("everybody may write to this directory: chmod o-w it, and check what is in it");
        return Err(failed("use", dir)(why));
    }
    Ok(())
}

/// Replaces a file, readable only by its owner. A symbolic link is replaced, not followed.
pub(crate) fn write_private(path: &Path, text: &[u8]) -> Result<(), FileError> {
    write_private_by(path, &path.with_added_extension("new"), text)
}

/// Like [`write_private`], with a temporary file of this name, which a killed process may have left behind. Only one
/// process may write at a time.
pub(crate) fn write_private_by(path: &Path, temporary: &Path, text: &[u8]) -> Result<(), FileError> {
    write_by(path, temporary, text, 0o600)
}

/// Replaces a file that others may read.
pub(crate) fn write_public(path: &Path, text: &[u8]) -> Result<(), FileError> {
    write_by(path, &path.with_added_extension("new"), text, 0o644)
}

fn write_by(path: &Path, temporary: &Path, text: &[u8], mode: u32) -> Result<(), FileError> {
    let attempt = || {
        remove_if_there(temporary)?;
        // Independently of the umask: first not more than this, then exactly this.
        let mut file = OpenOptions::new().create_new(true).write(true).mode(mode & 0o700).open(temporary)?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(temporary, path)?;
        sync_dir(path)
    };
    attempt().map_err(|source| {
        // It contains a secret and must not be left behind. A failure to remove it does not change the reported error.
        let _ = fs::remove_file(temporary);
        FileError { verb: "write", path: path.to_owned(), source }
    })
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes a file durably, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    remove_if_there(path).and_then(|()| sync_dir(path)).map_err(failed("remove", path))
}

/// Makes a rename, link or removal in a directory durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    match path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        Some(dir) => File::open(dir)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

/// Reads a file up to a maximum size. None if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let attempt = || {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(io::Error::other(format!("it is larger than {MAX_BYTES} bytes")));
        }
        Ok(Some(text))
    };
    attempt().map_err(failed("read", path))
}

/// Reads a secret file: it must be a regular file, not a link, and readable only by its owner. None if it does not exist.
///
/// # Errors
/// It cannot be read, is not a regular file, or others can read it.
pub fn read_private(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    };
    if !metadata.is_file() {
        let why = io::Error::other("it is not a regular file and may be an attack: remove it");
        return Err(failed("use", path)(why));
    }
    if metadata.mode() & 0o077 != 0 {
        let why = io::Error::other(
            "others may read or write it, so it is no secret any more: remove it, and a new one is made",
        );
        return Err(failed("use", path)(why));
    }
    read(path)
}

/// The lock that a process holds while it requests certificates for a directory.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Acquires the lock, or returns who holds it.
    pub(crate) fn take(dir: &Path, name: &str) -> Result<Self, CredentialError> {
        let path = dir.join(name);
        let open = || {
            let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).read(true).write(true).mode(0o600).custom_flags(no_link);
            options.open(&path)
        };
        let mut file = open().map_err(failed("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut id = String::new();
                let holder = match (&file).take(20).read_to_string(&mut id) {
                    Ok(_) if !id.trim().is_empty() => format!("process {}", id.trim()),
                    _ => "another process".to_owned(),
                };
                return Err(CredentialError::Held { dir: dir.to_owned(), path, holder });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source).into()),
        }
        // For information only, so a full disk does not prevent locking.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child that was just forked may have the file open, too. If unlocking fails, closing must do.
        let _ = self.file.unlock();
    }
}
