//! The database file: the newest state, with one transaction and one flush for each batch of commits.
//!
//! The format is that of `redb`, with a checksum for every page; all of them are verified when the file is opened, so damage
//! is an error and never another value. The history is written when the
//! store is closed, see [`past`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::mem;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction,
};

use super::backend::Backend;
#[cfg(test)]
use super::backend::Faults;
use super::files::{create_file, free_beside, is_there, make_folder, put_in_place, sync_folder};
use super::lock::Lock;
use super::past;
use super::problem::{FileError, broken, explain, unsealed};
use crate::memory::{FIRST, Memory};
use crate::{Entry, Event, Listing, PartOf, Revision, StoreError, TransformError, Transformer};

/// The entries, [`encode`]d, by key.
pub(super) const ENTRIES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("portcullis.entries");

/// Metadata of the store.
const ABOUT: TableDefinition<&str, u64> = TableDefinition::new("portcullis.about");
const FORMAT: &str = "format";
const REVISION: &str = "revision";

/// The version of the format. No other version is read.
const THIS_FORMAT: u64 = 1;

/// The size of redb's page cache. Bytes. Entries are never read from the file while it is open, so little is enough.
pub(super) const CACHE: usize = 64 << 20;

/// The content of a file.
pub(super) struct Contents {
    /// The entries in key order.
    pub(super) entries: Vec<Arc<Entry>>,
    /// The newest revision.
    pub(super) revision: Revision,
    /// The newest commits.
    pub(super) past: Vec<(Revision, Vec<Event>)>,
}

/// An open file.
pub(super) struct Disk {
    path: PathBuf,
    /// `None` after a failure, until the file is opened again.
    database: Option<Database>,
    /// Held open for its lock; also holds the last acknowledged revision (see [`Lock::acknowledge`]). Dropped after the
    /// database, so that the next owner of the lock finds the file closed.
    lock: Lock,
    /// Converts values to their form in the file.
    transformer: Arc<dyn Transformer>,
    /// Set when a flush has failed: from then on the file may lack data that it seems to have.
    unflushed: Arc<AtomicBool>,
    #[cfg(test)]
    faults: Faults,
}

impl Disk {
    /// Opens or creates the file of a store.
    pub(super) fn open(
        path: &Path,
        transformer: Arc<dyn Transformer>,
        part_of: Option<&PartOf>,
        #[cfg(test)] faults: Faults,
    ) -> Result<(Self, Contents), StoreError> {
        make_folder(path)?;
        let lock = Lock::take(path)?;
        if !is_there(path)? {
            let nothing = Listing { revision: FIRST, entries: Vec::new(), remaining: 0 };
            lock.expect(path, None)?;
            write_over(path, &nothing, &*transformer)?;
        }
        let mut disk = Self {
            path: path.to_owned(),
            lock,
            transformer,
            database: None,
            unflushed: Arc::default(),
            #[cfg(test)]
            faults,
        };
        let database = disk.database(true).map_err(|error| explain(path, error))?;
        let Loaded { entries, revision, is_stale } =
            load(&database, &*disk.transformer, part_of).map_err(|error| error.explain(path))?;
        let past = past::read(&database, revision, &*disk.transformer, part_of)
            .map_err(|error| explain(path, error))?;
        disk.lock.expect(path, Some(revision))?;
        disk.lock.acknowledge(revision);
        let contents = Contents { entries, revision, past: past.commits };
        disk.database = match is_stale || past.is_stale {
            false => Some(database),
            true => {
                drop(database);
                Some(disk.rewritten(&contents)?)
            }
        };
        Ok((disk, contents))
    }

    /// Writes the newest commits, oldest first, before the store is closed. If that fails, watches begin anew after the
    /// restart.
    pub(super) fn keep_past<'c>(&self, commits: impl DoubleEndedIterator<Item = (Revision, &'c [Event])>) {
        if let Some(database) = &self.database {
            let _ = past::write(database, commits, &*self.transformer);
        }
    }

    /// Whether a value of this key can be written now.
    pub(super) fn check(&self, key: &str) -> Result<(), StoreError> {
        self.transformer.check(key).map_err(|error| unsealed(&self.path, &error))
    }

    /// Replaces the file by a new one from memory. After a failure the old file stays in use.
    pub(super) fn rewrite(&mut self, memory: &Memory) -> Result<(), StoreError> {
        write_over(&self.path, &memory.all()?, &*self.transformer)?;
        // The open file is the old one, which has no name any more.
        self.database = None;
        self.unflushed.store(false, Ordering::Release);
        let opened = self.database(false);
        self.database = Some(opened.map_err(|error| explain(&self.path, error))?);
        Ok(())
    }

    /// Replaces the file by a new one with the same entries.
    fn rewritten(&self, contents: &Contents) -> Result<Database, StoreError> {
        let listing =
            Listing { revision: contents.revision, entries: contents.entries.clone(), remaining: 0 };
        write_over(&self.path, &listing, &*self.transformer)?;
        self.database(false).map_err(|error| explain(&self.path, error))
    }

    /// Opens the file. A file that was not closed is always checked.
    fn database(&self, check: bool) -> Result<Database, redb::Error> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let backend = Backend {
            file: FileBackend::new(file)?,
            unflushed: Arc::clone(&self.unflushed),
            #[cfg(test)]
            faults: self.faults.clone(),
        };
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE).set_check_integrity_on_open(check);
        Ok(builder.create_with_backend(backend)?)
    }

    /// Writes the result of a batch of commits, and returns when it is durable. After a failure nothing of it is stored, and
    /// the next call tries to continue from the state in memory.
    pub(super) fn write(
        &mut self,
        changes: &BTreeMap<Box<str>, Option<Arc<Entry>>>,
        revision: Revision,
        memory: &Memory,
    ) -> Result<(), StoreError> {
        let sealed = sealed(changes, &*self.transformer).map_err(|error| unsealed(&self.path, &error))?;
        let database = match self.database.take() {
            Some(database) => database,
            None => self.recover(memory)?,
        };
        // A failed database is closed here and not used again.
        write(&database, &sealed, revision).map_err(|error| {
            let remedy = "make room or mend the disk; writes go on by themselves then";
            broken(&self.path, "cannot be written", error, remedy)
        })?;
        self.database = Some(database);
        self.lock.acknowledge(revision);
        Ok(())
    }

    /// Opens the file again after a failure.
    fn recover(&self, memory: &Memory) -> Result<Database, StoreError> {
        let failed = |error: redb::Error| {
            broken(&self.path, "cannot be opened again after a failure", error, "make room or mend the disk")
        };
        if !self.unflushed.load(Ordering::Acquire) {
            let database = self.database(false).map_err(failed)?;
            if revision(&database).is_ok_and(|revision| revision == memory.revision()) {
                return Ok(database);
            }
        }
        write_over(&self.path, &memory.all()?, &*self.transformer)?;
        self.unflushed.store(false, Ordering::Release);
        self.database(false).map_err(failed)
    }
}

/// A change of a key: the new entry, and its value in the form of the file.
type Change<'c> = (&'c str, Option<(&'c Entry, Cow<'c, [u8]>)>);

/// Converts the values of the changes to their form in the file.
fn sealed<'c>(
    changes: &'c BTreeMap<Box<str>, Option<Arc<Entry>>>,
    transformer: &dyn Transformer,
) -> Result<Vec<Change<'c>>, TransformError> {
    let sealed = changes.iter().map(|(key, change)| {
        let Some(entry) = change else { return Ok((&**key, None)) };
        Ok((&**key, Some((&**entry, transformer.seal(key, &entry.value)?))))
    });
    sealed.collect()
}

/// One transaction with one flush.
fn write(database: &Database, changes: &[Change<'_>], revision: Revision) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut entries = transaction.open_table(ENTRIES)?;
        for (key, change) in changes {
            match change {
                Some((entry, value)) => put(&mut entries, entry, value)?,
                None => drop(entries.remove(key.as_bytes())?),
            }
        }
        let mut about = transaction.open_table(ABOUT)?;
        about.insert(REVISION, revision.0)?;
    }
    Ok(transaction.commit()?)
}

/// The bytes before a value: the revisions that created and wrote it.
const HEAD: usize = 16;

/// Writes an entry, with its value in the form of the file.
fn put(entries: &mut redb::Table<'_, &[u8], &[u8]>, entry: &Entry, sealed: &[u8]) -> Result<(), redb::Error> {
    let mut room = entries.insert_reserve(entry.key.as_bytes(), HEAD.saturating_add(sealed.len()))?;
    let (head, value) = room.as_mut().split_at_mut(HEAD);
    let (created, modified) = head.split_at_mut(HEAD / 2);
    created.copy_from_slice(&entry.created.0.to_le_bytes());
    modified.copy_from_slice(&entry.modified.0.to_le_bytes());
    value.copy_from_slice(sealed);
    Ok(())
}

/// The reverse of [`put`], in a file at revision `newest`: the entry without its value, and the value in the form of the file.
///
/// # Errors
/// The record is damaged.
pub(super) fn entry<'r>(
    key: &[u8],
    record: &'r [u8],
    newest: Revision,
) -> Result<(Entry, &'r [u8]), redb::Error> {
    let read = || {
        let (created, rest) = record.split_first_chunk()?;
        let (modified, sealed) = rest.split_first_chunk()?;
        let [created, modified] = [created, modified].map(|bytes| Revision(u64::from_le_bytes(*bytes)));
        let entry = Entry::new(std::str::from_utf8(key).ok()?, Bytes::new(), created, modified);
        Some((entry, sealed)).filter(|(entry, _)| entry.modified <= newest)
    };
    read().ok_or_else(|| redb::Error::Corrupted(format!("the entry {:?}", String::from_utf8_lossy(key))))
}

/// The revision of a file, after checking that it is a store.
pub(super) fn revision(database: &Database) -> Result<Revision, redb::Error> {
    let transaction = database.begin_read()?;
    let about = transaction.open_table(ABOUT)?;
    let number = |name: &str| {
        let number = about.get(name)?.map(|number| number.value());
        number.ok_or_else(|| redb::Error::Corrupted(format!("it does not say its {name}")))
    };
    let format = number(FORMAT)?;
    if format != THIS_FORMAT {
        let problem = format!("it has format {format}, and this version knows format {THIS_FORMAT}");
        return Err(redb::Error::Corrupted(problem));
    }
    Ok(Revision(number(REVISION)?))
}

/// The entries of a file.
struct Loaded {
    entries: Vec<Arc<Entry>>,
    revision: Revision,
    /// Whether a value would now be written differently.
    is_stale: bool,
}

/// How many entries go from the thread that reads to the one that converts at a time, and how often before the first waits.
const BATCH: usize = 512;
const BATCHES: usize = 8;

/// Entries without their values, and the values in the form of the file.
type Batch = Vec<(Entry, Vec<u8>)>;

/// Reads all entries. Another thread converts the values, and looks for the part of each entry.
fn load(
    database: &Database,
    transformer: &dyn Transformer,
    part_of: Option<&PartOf>,
) -> Result<Loaded, FileError> {
    let newest = revision(database)?;
    let table = database.begin_read()?.open_table(ENTRIES)?;
    let due = table.len()?;
    let (give, batches) = sync_channel(BATCHES);
    let (read, loaded) = thread::scope(|scope| {
        let convert = move || convert(batches, newest, transformer, part_of);
        let converting =
            thread::Builder::new().name("store-loader".to_owned()).spawn_scoped(scope, convert)?;
        let read = read(&table, newest, &give);
        drop(give);
        Ok::<_, redb::Error>((read, converting.join().unwrap_or_else(|panic| resume_unwind(panic))))
    })?;
    read?;
    let loaded = loaded.map_err(FileError::Value)?;
    if loaded.entries.len() as u64 != due {
        let problem = format!("it has {} entries where {due} are due", loaded.entries.len());
        return Err(redb::Error::Corrupted(problem).into());
    }
    Ok(loaded)
}

/// Reads the entries of a table in batches. Stops early if the receiver is gone, which has its own error.
fn read(
    table: &redb::ReadOnlyTable<&[u8], &[u8]>,
    newest: Revision,
    give: &SyncSender<Batch>,
) -> Result<(), redb::Error> {
    let mut batch = Batch::with_capacity(BATCH);
    for record in table.iter()? {
        let (key, record) = record?;
        let (entry, sealed) = entry(key.value(), record.value(), newest)?;
        batch.push((entry, sealed.to_vec()));
        if batch.len() == BATCH {
            let full = mem::replace(&mut batch, Batch::with_capacity(BATCH));
            if give.send(full).is_err() {
                return Ok(());
            }
        }
    }
    // Nobody receives it only after an error of the converting thread, which is reported instead.
    let _ = give.send(batch);
    Ok(())
}

/// Makes entries of what was read, in the same order.
fn convert(
    batches: Receiver<Batch>,
    revision: Revision,
    transformer: &dyn Transformer,
    part_of: Option<&PartOf>,
) -> Result<Loaded, TransformError> {
    let mut loaded = Loaded { entries: Vec::new(), revision, is_stale: false };
    for (mut entry, sealed) in batches.into_iter().flatten() {
        let opened = transformer.open(&entry.key, &sealed)?;
        loaded.is_stale |= opened.is_stale;
        let converted = match opened.value {
            // It is what was read.
            Cow::Borrowed(value) if value.len() == sealed.len() => None,
            value => Some(value.into_owned()),
        };
        entry.value = Bytes::from(converted.unwrap_or(sealed));
        loaded.entries.push(Arc::new(entry.in_part(part_of)));
    }
    Ok(loaded)
}

/// Writes a new file, which must not exist. A failure leaves no file behind.
pub(super) fn write_copy(
    path: &Path,
    listing: &Listing,
    transformer: &dyn Transformer,
) -> Result<(), StoreError> {
    let file = create_file(path)?;
    let filled = fill(file, listing, transformer).and_then(|()| Ok(sync_folder(path)?));
    filled.map_err(|error| {
        // The error above is more useful than one from here.
        let _ = fs::remove_file(path);
        error.explain_write(path)
    })
}

/// Writes a file beside another and replaces it atomically.
fn write_over(path: &Path, listing: &Listing, transformer: &dyn Transformer) -> Result<(), StoreError> {
    let new = free_beside(path)?;
    write_copy(&new, listing, transformer)?;
    put_in_place(&new, path)
}

fn fill(file: File, listing: &Listing, transformer: &dyn Transformer) -> Result<(), FileError> {
    let mut filling = Filling::begin(file)?;
    for entry in &listing.entries {
        filling.add(entry, transformer)?;
    }
    filling.finish(listing.revision)
}

/// A new file that is being written, all of it in one transaction.
pub(super) struct Filling {
    database: Database,
    transaction: WriteTransaction,
}

impl Filling {
    /// Begins with nothing in an empty file.
    pub(super) fn begin(file: File) -> Result<Self, FileError> {
        let database =
            Database::builder().set_cache_size(CACHE).create_with_backend(FileBackend::new(file)?)?;
        let transaction = database.begin_write()?;
        // The table is there also if nothing is added.
        transaction.open_table(ENTRIES)?;
        Ok(Self { database, transaction })
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, entry: &Entry, transformer: &dyn Transformer) -> Result<(), FileError> {
        let sealed = transformer.seal(&entry.key, &entry.value).map_err(FileError::Value)?;
        Ok(put(&mut self.transaction.open_table(ENTRIES)?, entry, &sealed)?)
    }

    /// Makes everything durable, at a revision.
    pub(super) fn finish(self, revision: Revision) -> Result<(), FileError> {
        {
            let mut about = self.transaction.open_table(ABOUT)?;
            about.insert(FORMAT, THIS_FORMAT)?;
            about.insert(REVISION, revision.0)?;
        }
        self.transaction.commit()?;
        Ok(self.database.close()?)
    }
}

#[cfg(test)]
mod tests {
    use portcullis_testkit::scratch::Scratch;

    use super::*;
    use crate::transform::Plain;

    #[test]
    fn a_store_is_free_at_once_although_a_child_still_has_its_lock_file_open() {
        let dir = Scratch::new();
        let path = dir.path().join("store");
        let open = || Disk::open(&path, Arc::new(Plain), None, Faults::default());
        let (disk, ..) = open().unwrap();
        // As in a child between fork and exec: the same open file.
        let childs = disk.lock.file().try_clone().unwrap();
        let problem = open().err().unwrap().to_string();
        assert!(problem.contains("another process has it open"), "{problem}");
        drop(disk);
        open().map(drop).unwrap();
        drop(childs);
    }
}
