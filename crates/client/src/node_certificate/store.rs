//! The certificate directory of a node, with the file names of a kubelet (CS-110 to CS-114).
//!
//! `<prefix>-current.pem` is a symbolic link to the newest `<prefix>-DATE.pem`. Old ones are never deleted. Even if the
//! process is killed, the link always refers to a complete pair.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf, absolute};
use std::time::SystemTime;

use jiff::Timestamp;
use portcullis_pki::{KeyPair, Pair};

use super::error::{CredentialError, FileError};
use super::files::{Lock, failed, make_dir, read, read_private, remove, write_private, write_private_by};

/// The certificates of one purpose in a directory.
#[derive(Clone, Debug)]
pub struct Store {
    /// An absolute path, because links contain it.
    dir: PathBuf,
    prefix: &'static str,
}

impl Store {
    /// Opens the store in a directory. Completes what an earlier process began (CS-112).
    ///
    /// # Errors
    /// The directory does not exist and cannot be created, or others may write to it; or there is a file in the place
    /// of a link.
    pub fn open(dir: &Path, prefix: &'static str) -> Result<Self, CredentialError> {
        let dir = absolute(dir).map_err(failed("find", dir))?;
        make_dir(&dir)?;
        let store = Self { dir, prefix };
        let (current, updated) = (store.current_path(), store.updated_path());
        if kind(&current)? == Kind::Nothing {
            match kind(&updated)? {
                Kind::Nothing => {}
                Kind::Link => fs::rename(&updated, &current).map_err(failed("rename", &updated))?,
                Kind::File => return Err(CredentialError::NotLink(updated)),
            }
        }
        Ok(store)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of the link to the current pair.
    pub fn current_path(&self) -> PathBuf {
        self.dir.join(format!("{}-current.pem", self.prefix))
    }

    fn updated_path(&self) -> PathBuf {
        self.dir.join(format!("{}-updated.pem", self.prefix))
    }

    /// Returns the path of the key of a pending request (CS-131).
    pub fn pending_key_path(&self) -> PathBuf {
        self.dir.join(format!("{}.key.tmp", self.prefix))
    }

    /// Prevents other processes from requesting certificates for this store.
    ///
    /// # Errors
    /// Another process holds the lock, or the file cannot be created.
    pub fn lock(&self) -> Result<Lock, CredentialError> {
        Lock::take(&self.dir, &format!("{}.lock", self.prefix))
    }

    /// Returns the current pair (CS-113), or that of older kubelets in two files. None if it does not exist.
    ///
    /// # Errors
    /// It cannot be read, or is not a pair.
    pub fn current(&self) -> Result<Option<Pair>, CredentialError> {
        let path = self.current_path();
        if let Some(text) = read(&path)? {
            return pair(&path, &text, &text).map(Some);
        }
        let (certificate, key) =
            (self.dir.join(format!("{}.crt", self.prefix)), self.dir.join(format!("{}.key", self.prefix)));
        match (read(&certificate)?, read(&key)?) {
            (Some(text), Some(key)) => pair(&certificate, &text, &key).map(Some),
            _ => Ok(None),
        }
    }

    /// Checks that a new pair could be installed (CS-111), before one is requested.
    ///
    /// # Errors
    /// There is a file in the place of a link.
    pub fn check_links(&self) -> Result<(), CredentialError> {
        for path in [self.current_path(), self.updated_path()] {
            if kind(&path)? == Kind::File {
                return Err(CredentialError::NotLink(path));
            }
        }
        Ok(())
    }

    /// Returns the key of a pending request, or a new one that is written to disk first (CS-131).
    ///
    /// # Errors
    /// The file exists and is not a key, or it cannot be written.
    pub fn pending_key(&self) -> Result<KeyPair, CredentialError> {
        let path = self.pending_key_path();
        if let Some(text) = read_private(&path)? {
            return KeyPair::from_pem(&text).map_err(|e| CredentialError::Key { path, why: e.to_string() });
        }
        let key = KeyPair::generate()
            .map_err(|e| CredentialError::Key { path: path.clone(), why: e.to_string() })?;
        write_private(&path, key.to_pem().as_bytes())?;
        Ok(key)
    }

    /// Deletes the pending key if it is that of the current pair: an earlier process was stopped just before it would
    /// have done so. The next request uses another key (CS-100).
    ///
    /// # Errors
    /// It cannot be read.
    pub fn forget_answered_key(&self, current: &Pair) -> Result<(), CredentialError> {
        let path = self.pending_key_path();
        let Some(text) = read_private(&path)? else { return Ok(()) };
        let is_in_use =
            KeyPair::from_pem(&text).is_ok_and(|key| key.public_der() == current.key().public_der());
        if is_in_use { self.forget_pending_key() } else { Ok(()) }
    }

    /// Deletes the pending key, whether its request was answered or not.
    ///
    /// # Errors
    /// The key cannot be removed.
    pub fn forget_pending_key(&self) -> Result<(), CredentialError> {
        Ok(remove(&self.pending_key_path())?)
    }

    /// Writes a pair to a file with the date in its name (CS-110), not yet as the current one. Two pairs in the same
    /// second have the same name (CS-114).
    ///
    /// DIVERGES: the date is in UTC, not in the node's time zone, so that names stay in order when daylight saving time
    /// ends. The file is written atomically; a kubelet writes to it in place.
    ///
    /// # Errors
    /// The pair cannot be written, or not be read back.
    pub fn write(&self, new: &Pair, now: SystemTime) -> Result<PathBuf, CredentialError> {
        let date = Timestamp::try_from(now).unwrap_or_default().strftime("%Y-%m-%d-%H-%M-%S").to_string();
        let path = self.dir.join(format!("{}-{date}.pem", self.prefix));
        let text = format!("{}{}", new.certificates_pem(), new.key().to_pem());
        // Always the same temporary name, so that incomplete files do not accumulate.
        let temporary = self.dir.join(format!("{}.pem.new", self.prefix));
        write_private_by(&path, &temporary, text.as_bytes())?;
        let back = read(&path)?.unwrap_or_default();
        pair(&path, &back, &back)?;
        Ok(path)
    }

    /// Makes a written pair the current one (CS-110).
    ///
    /// # Errors
    /// There is a file in the place of a link (CS-111), or the link cannot be created.
    pub fn switch_to(&self, path: &Path) -> Result<(), CredentialError> {
        self.check_links()?;
        let (current, updated) = (self.current_path(), self.updated_path());
        remove(&updated)?;
        symlink(path, &updated).map_err(failed("make the link", &updated))?;
        fs::rename(&updated, &current).map_err(failed("make the link", &current))?;
        super::files::sync_dir(&current).map_err(failed("make the link", &current))?;
        Ok(())
    }
}

fn pair(path: &Path, certificate: &[u8], key: &[u8]) -> Result<Pair, CredentialError> {
    Pair::from_pem(certificate, key).map_err(|source| CredentialError::Pair { path: path.to_owned(), source })
}

/// The type of a directory entry.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Link,
    File,
}

fn kind(path: &Path) -> Result<Kind, FileError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => Ok(Kind::Link),
        Ok(_) => Ok(Kind::File),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kind::Nothing),
        Err(error) => Err(failed("read", path)(error)),
    }
}
