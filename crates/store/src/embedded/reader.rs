//! Reads the file of a store in pages, with its values as they lie there (ET-60, ET-61).
//!
//! Never changes an entry, and does not convert values: whoever reads can go on behind a value that cannot be read. A file
//! that was not closed is repaired first, as when a store is opened.

use std::fs::OpenOptions;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, ReadableTableMetadata};

use super::disk::{self, CACHE, ENTRIES};
use super::files::is_there;
use super::lock::Lock;
use super::problem::{broken, explain};
use crate::{Revision, StoreError};

/// The number of entries that are read at once.
const PAGE: usize = 500;

/// The file of a store that no process has open. See the module.
pub struct Reader {
    path: PathBuf,
    // Dropped before the lock.
    database: Database,
    revision: Revision,
    count: u64,
    lock: Lock,
}

/// An entry of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Box<str>,
    /// The value in the form of the file, which [`crate::Transformer::open`] reads.
    pub sealed: Bytes,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens a file. Blocks while it is checked.
    ///
    /// # Errors
    /// [`StoreError::Broken`], as when a store is opened; also if there is no file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        // Before the lock, which would be made beside it.
        if !is_there(path)? {
            return Err(broken(
                path,
                "cannot be read",
                "there is no such file",
                "name the data directory of a server",
            ));
        }
        Self::locked(path, Lock::take(path)?)
    }

    /// As [`Reader::open`], for a file that is there and locked.
    pub(super) fn locked(path: &Path, lock: Lock) -> Result<Self, StoreError> {
        let opened = || -> Result<_, redb::Error> {
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            let mut builder = Database::builder();
            builder.set_cache_size(CACHE).set_check_integrity_on_open(true);
            let database = builder.create_with_backend(FileBackend::new(file)?)?;
            let revision = disk::revision(&database)?;
            let count = database.begin_read()?.open_table(ENTRIES)?.len()?;
            Ok((database, revision, count))
        };
        let (database, revision, count) = opened().map_err(|error| explain(path, error))?;
        lock.expect(path, Some(revision))?;
        Ok(Self { path: path.to_owned(), database, revision, count, lock })
    }

    /// Closes the file, which stays locked.
    pub(super) fn into_lock(self) -> Lock {
        self.lock
    }

    /// The revision of the file.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The number of entries.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The next entries after a key, in the order of keys; an empty page is the end.
    ///
    /// # Errors
    /// [`StoreError::Broken`] if the file cannot be read or is damaged.
    pub fn page(&self, after: Option<&str>) -> Result<Vec<Record>, StoreError> {
        let read = || -> Result<_, redb::Error> {
            let table = self.database.begin_read()?.open_table(ENTRIES)?;
            let start = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.as_bytes()));
            let mut page = Vec::new();
            for found in table.range::<&[u8]>((start, Bound::Unbounded))?.take(PAGE) {
                let (key, record) = found?;
                let (entry, sealed) = disk::entry(key.value(), record.value(), self.revision)?;
                page.push(Record { key: entry.key, sealed: Bytes::copy_from_slice(sealed) });
            }
            Ok(page)
        };
        read().map_err(|error| explain(&self.path, error))
    }
}
