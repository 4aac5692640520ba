//! The lock file of a store: one process at a time, and what it has acknowledged.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::files::beside;
use super::problem::broken;
use crate::{Revision, StoreError};

/// The lock file, which excludes other processes and holds the last acknowledged revision.
///
/// That revision is not flushed: after a power failure it may be an older one, but never one that the store should lack. So
/// a store at a lower revision has lost data, even where `redb` takes a damaged last transaction for an unfinished one.
pub(super) struct Lock(File);

impl Lock {
    pub(super) fn take(path: &Path) -> Result<Self, StoreError> {
        let name = beside(path, ".lock");
        let opened =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&name);
        let file =
            opened.map_err(|error| broken(&name, "cannot be opened", error, "check path and permissions"))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                Err(broken(path, "is in use", "another process has it open", "stop that process"))
            }
            Err(TryLockError::Error(error)) => {
                Err(broken(&name, "cannot be locked", error, "put the store on a disk that can lock files"))
            }
        }
    }

    /// Refuses a store at a lower revision than was acknowledged, or without any.
    pub(super) fn expect(&self, path: &Path, shown: Option<Revision>) -> Result<(), StoreError> {
        let mut text = String::new();
        // An unreadable revision was not written completely, and says nothing.
        let Some(acknowledged) =
            (&self.0).read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok())
        else {
            return Ok(());
        };
        if shown.unwrap_or_default() >= Revision(acknowledged) {
            return Ok(());
        }
        let what = if shown.is_some() { "is damaged, or an older copy" } else { "is gone" };
        let problem = match shown {
            Some(Revision(shown)) => {
                format!("it ends at revision {shown}, but {acknowledged} was acknowledged")
            }
            None => format!("it had revision {acknowledged}"),
        };
        let name = beside(path, ".lock");
        let remedy = format!(
            "put the newest backup in its place; to go on with less, on purpose, remove {} first",
            name.display()
        );
        Err(broken(path, what, problem, &remedy))
    }

    /// The open lock file.
    #[cfg(test)]
    pub(super) fn file(&self) -> &File {
        &self.0
    }

    /// Records that a revision was acknowledged.
    pub(super) fn acknowledge(&self, revision: Revision) {
        // The writes are durable without it; only less damage would be noticed.
        let _ = self.0.write_all_at(format!("{:020}\n", revision.0).as_bytes(), 0);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that was just forked also holds the lock until it executes another
        // program. If unlocking fails, closing has to do.
        let _ = self.0.unlock();
    }
}
