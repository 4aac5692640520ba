//! Where a node keeps its certificates: the files of a kubelet, under its names (CS-110 to CS-114).
//!
//! `<prefix>-current.pem` is a link to the newest `<prefix>-DATE.pem`. Old ones are never deleted. Whenever the process
//! is killed, the link leads to a whole pair, or to the one before.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf, absolute};
use std::time::SystemTime;

use jiff::Timestamp;
use portcullis_pki::pair::PairError;
use portcullis_pki::{KeyPair, Pair};

use super::files::{
    FileError, Lock, LockError, failed, make_dir, read, read_private, remove, write_private, write_private_by,
};

/// A store that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file that is there and holds no key (CS-131).
    #[error("{}: {why}; remove it, and a new key is made", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file where a link belongs (CS-111).
    #[error(
        "{} is a file, and a link belongs there: move it away, or to the name that the link should lead to",
        .0.display()
    )]
    NotLink(PathBuf),
    /// A file that holds no certificate with its key.
    #[error("{}: {source}", path.display())]
    Pair {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PairError,
    },
}

/// The certificates of one purpose in a directory.
#[derive(Clone, Debug)]
pub struct Store {
    /// Absolute: links lead to it.
    dir: PathBuf,
    prefix: &'static str,
}

impl Store {
    /// The store in a directory. Finishes what an earlier process began (CS-112).
    ///
    /// # Errors
    /// The directory is not there and cannot be made, or others may write to it; a file where a link belongs.
    pub fn open(dir: &Path, prefix: &'static str) -> Result<Self, StoreError> {
        let dir = absolute(dir).map_err(failed("find", dir))?;
        make_dir(&dir)?;
        let store = Self { dir, prefix };
        let (current, updated) = (store.current_path(), store.updated_path());
        if kind(&current)? == Kind::Nothing {
            match kind(&updated)? {
                Kind::Nothing => {}
                Kind::Link => fs::rename(&updated, &current).map_err(failed("rename", &updated))?,
                Kind::File => return Err(StoreError::NotLink(updated)),
            }
        }
        Ok(store)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The link to the current pair.
    pub fn current_path(&self) -> PathBuf {
        self.dir.join(format!("{}-current.pem", self.prefix))
    }

    fn updated_path(&self) -> PathBuf {
        self.dir.join(format!("{}-updated.pem", self.prefix))
    }

    /// The key of a request that has not been answered (CS-131).
    pub fn pending_key_path(&self) -> PathBuf {
        self.dir.join(format!("{}.key.tmp", self.prefix))
    }

    /// Keeps other processes from asking for certificates into this store.
    ///
    /// # Errors
    /// Another process does so now, or the file cannot be made.
    pub fn lock(&self) -> Result<Lock, LockError> {
        Lock::take(&self.dir, &format!("{}.lock", self.prefix))
    }

    /// The pair in use (CS-113): the current one, else the one of older kubelets in two files. Nothing if there is none.
    ///
    /// # Errors
    /// It cannot be read, or is no pair.
    pub fn current(&self) -> Result<Option<Pair>, StoreError> {
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

    /// Checks that a new pair could be put in its place (CS-111), before anybody is asked for one.
    ///
    /// # Errors
    /// A file where a link belongs.
    pub fn check_links(&self) -> Result<(), StoreError> {
        for path in [self.current_path(), self.updated_path()] {
            if kind(&path)? == Kind::File {
                return Err(StoreError::NotLink(path));
            }
        }
        Ok(())
    }

    /// The key of a request that has not been answered, or a new one, which is on disk before anybody hears of it
    /// (CS-131).
    ///
    /// # Errors
    /// The file is there and holds no key, or it cannot be written.
    pub fn pending_key(&self) -> Result<KeyPair, StoreError> {
        let path = self.pending_key_path();
        if let Some(text) = read_private(&path)? {
            return KeyPair::from_pem(&text).map_err(|e| StoreError::Key { path, why: e.to_string() });
        }
        let key =
            KeyPair::generate().map_err(|e| StoreError::Key { path: path.clone(), why: e.to_string() })?;
        write_private(&path, key.to_pem().as_bytes())?;
        Ok(key)
    }

    /// Forgets the key of a request if it is that of the pair in use: an earlier process was stopped just before it
    /// would have done so. The next request is for another key (CS-100).
    ///
    /// # Errors
    /// It cannot be read.
    pub fn forget_answered_key(&self, current: &Pair) -> Result<(), StoreError> {
        let path = self.pending_key_path();
        let Some(text) = read_private(&path)? else { return Ok(()) };
        let is_in_use =
            KeyPair::from_pem(&text).is_ok_and(|key| key.public_der() == current.key().public_der());
        if is_in_use { self.forget_pending_key() } else { Ok(()) }
    }

    /// Forgets the key of a request, whether it was answered or not.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget_pending_key(&self) -> Result<(), StoreError> {
        Ok(remove(&self.pending_key_path())?)
    }

    /// Writes a pair under a name with the date (CS-110), not yet in use. Two in one second have the same name (CS-114).
    ///
    /// DIVERGES: the date is that of UTC, not of the node's time zone: names stay in order when clocks are set back in
    /// autumn. The file is put in place whole; a kubelet writes into it.
    ///
    /// # Errors
    /// It cannot be written, or what was written cannot be read back.
    pub fn write(&self, new: &Pair, now: SystemTime) -> Result<PathBuf, StoreError> {
        let date = Timestamp::try_from(now).unwrap_or_default().strftime("%Y-%m-%d-%H-%M-%S").to_string();
        let path = self.dir.join(format!("{}-{date}.pem", self.prefix));
        let text = format!("{}{}", new.certificates_pem(), new.key().to_pem());
        // Always the same name beside it: keys that were half written do not gather.
        let temporary = self.dir.join(format!("{}.pem.new", self.prefix));
        write_private_by(&path, &temporary, text.as_bytes())?;
        let back = read(&path)?.unwrap_or_default();
        pair(&path, &back, &back)?;
        Ok(path)
    }

    /// Makes a pair that was written the current one (CS-110).
    ///
    /// # Errors
    /// A file where a link belongs (CS-111), or the link cannot be made.
    pub fn switch_to(&self, path: &Path) -> Result<(), StoreError> {
        self.check_links()?;
        let (current, updated) = (self.current_path(), self.updated_path());
        remove(&updated)?;
        symlink(path, &updated).map_err(failed("make the link", &updated))?;
        fs::rename(&updated, &current).map_err(failed("make the link", &current))?;
        super::files::sync_dir(&current).map_err(failed("make the link", &current))?;
        Ok(())
    }
}

fn pair(path: &Path, certificate: &[u8], key: &[u8]) -> Result<Pair, StoreError> {
    Pair::from_pem(certificate, key).map_err(|source| StoreError::Pair { path: path.to_owned(), source })
}

/// What lies under a name.
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
