//! Files that hold secrets: written whole or not at all, durably, readable for nobody else, and never through a link that
//! somebody else has put there.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// More than a file that is read here can hold. Bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {}: {source}{}", path.display(), advice(source))]
pub struct FileError {
    /// What was to be done.
    pub verb: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Why it cannot be done.
    pub source: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; make room on the disk, and it goes on where it was"
        }
        io::ErrorKind::PermissionDenied => "; run it as the owner of the files, usually root",
        io::ErrorKind::ReadOnlyFilesystem => "; name a directory that can be written to",
        _ => "",
    }
}

pub(super) fn failed<'a>(verb: &'static str, path: &'a Path) -> impl Fn(io::Error) -> FileError + 'a {
    move |source| FileError { verb, path: path.to_owned(), source }
}

/// Makes a directory that others may look into, and checks that others cannot put files there (CS-110).
pub(super) fn make_dir(dir: &Path) -> Result<(), FileError> {
    DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(failed("make", dir))?;
    let mode = fs::metadata(dir).map_err(failed("read", dir))?.mode();
    if mode & 0o002 != 0 {
        let why =
            io::Error::other("everybody may write to this directory: chmod o-w it, and check what is in it");
        return Err(failed("use", dir)(why));
    }
    Ok(())
}

/// Writes a file in the place of what was there, for its owner alone. A link there is replaced, not followed.
pub(super) fn write_private(path: &Path, text: &[u8]) -> Result<(), FileError> {
    write_private_by(path, &path.with_added_extension("new"), text)
}

/// The same by way of a file beside it, which a process that was killed may have left there. One process writes at a time.
pub(super) fn write_private_by(path: &Path, temporary: &Path, text: &[u8]) -> Result<(), FileError> {
    let attempt = || {
        remove_if_there(temporary)?;
        // Whatever the umask is: not more than this, and then exactly this.
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(temporary)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(temporary, path)?;
        sync_dir(path)
    };
    attempt().map_err(|source| {
        // It holds a secret, and nobody will look for it. Failing to remove it changes nothing about the failure.
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

/// Removes a file for good, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), FileError> {
    remove_if_there(path).and_then(|()| sync_dir(path)).map_err(failed("remove", path))
}

/// Makes what was renamed, linked or removed beside a file last.
pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    match path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        Some(dir) => File::open(dir)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

/// Reads a file of reasonable size. Nothing if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
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

/// Reads a file that holds a secret of ours: a file of its own, no link, and for nobody else.
pub(super) fn read_private(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    };
    if !metadata.is_file() {
        let why = io::Error::other("it is no file; whoever put it there did not mean well: remove it");
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

/// The lock that one process holds while it asks for certificates into a directory.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// A lock that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The lock file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another process has it.
    #[error(
        "{holder} is asking for a certificate into {}: wait until it is done, or stop it ({} is locked)",
        dir.display(), path.display()
    )]
    Held {
        /// The directory.
        dir: PathBuf,
        /// The lock file.
        path: PathBuf,
        /// Who has it.
        holder: String,
    },
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub(super) fn take(dir: &Path, name: &str) -> Result<Self, LockError> {
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
                return Err(LockError::Held { dir: dir.to_owned(), path, holder });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source).into()),
        }
        // For people only: a disk that is full does not keep anybody from the lock.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child that was forked just now may have the file open, too. A failure leaves it to the close.
        let _ = self.file.unlock();
    }
}
