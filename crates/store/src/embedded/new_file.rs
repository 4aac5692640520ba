//! Writes the file of a store from entries (ET-60).
//!
//! The file appears under its name when it is complete and durable, and never before. It replaces no file that has entries.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::disk::Filling;
use super::files::{create_file, free_beside, is_there, make_folder, put_in_place, sync_folder};
use super::lock::Lock;
use super::reader::Reader;
use crate::memory::FIRST;
use crate::{Entry, Revision, StoreError, Transformer};

/// A file that is being written. It vanishes if it is not finished.
pub struct NewFile {
    path: PathBuf,
    new: PathBuf,
    /// None once it is finished.
    filling: Option<Filling>,
    revision: Revision,
    transformer: Arc<dyn Transformer>,
    lock: Lock,
}

impl std::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl NewFile {
    /// Begins a file. Its folder is made if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if there is a store with entries; [`StoreError::Broken`] if another process has the store open,
    /// or the file cannot be made.
    pub fn begin(path: &Path, transformer: Arc<dyn Transformer>) -> Result<Self, StoreError> {
        make_folder(path)?;
        let mut lock = Lock::take(path)?;
        let mut newest = FIRST;
        if is_there(path)? {
            let reader = Reader::locked(path, lock)?;
            let (revision, count) = (reader.revision(), reader.count());
            if count > 0 {
                return Err(StoreError::Refused(format!(
                    "store {}: it has {count} entries, and is not replaced",
                    path.display()
                )));
            }
            (newest, lock) = (revision, reader.into_lock());
        } else {
            lock.expect(path, None)?;
        }
        let new = free_beside(path)?;
        let filling = Filling::begin(create_file(&new)?).map_err(|error| error.explain_write(&new))?;
        let revision = Revision(newest.0.saturating_add(1));
        Ok(Self { path: path.to_owned(), new, filling: Some(filling), revision, transformer, lock })
    }

    /// The revision that creates all entries.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Adds an entry. Its key must not have been added before.
    ///
    /// # Errors
    /// [`StoreError::Broken`] if the file cannot be written, or the value cannot be converted.
    pub fn add(&mut self, key: &str, value: Bytes) -> Result<(), StoreError> {
        let Some(filling) = &mut self.filling else { return Ok(()) };
        let entry = Entry::new(key, value, self.revision, self.revision);
        filling.add(&entry, &*self.transformer).map_err(|error| error.explain_write(&self.new))
    }

    /// Makes the file durable, and gives it its name.
    ///
    /// # Errors
    /// [`StoreError::Broken`] if the file cannot be written.
    pub fn finish(mut self) -> Result<Revision, StoreError> {
        if let Some(filling) = self.filling.take() {
            let filled = filling.finish(self.revision).and_then(|()| Ok(sync_folder(&self.new)?));
            filled.map_err(|error| {
                let failed = error.explain_write(&self.new);
                // The error above is more useful than one from here.
                let _ = fs::remove_file(&self.new);
                failed
            })?;
            put_in_place(&self.new, &self.path)?;
            self.lock.acknowledge(self.revision);
        }
        Ok(self.revision)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.filling.take().is_some() {
            // The next one removes it as well.
            let _ = fs::remove_file(&self.new);
        }
    }
}
