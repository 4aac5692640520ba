//! The database file: the newest state, with one transaction and one flush for each batch of commits.
//!
//! The format is that of `redb`, with a checksum for every page; all of them are verified when the file is opened, so damage
//! is an error and never another value. The history is written when the
//! store is closed, see [`past`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read};
use std::mem;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageBackend, TableDefinition,
    WriteTransaction,
};

use super::past;
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

/// Why a file cannot be read or written.
pub(super) enum FileError {
    File(redb::Error),
    Value(TransformError),
}

impl<E: Into<redb::Error>> From<E> for FileError {
    fn from(error: E) -> Self {
        Self::File(error.into())
    }
}

impl FileError {
    fn explain(self, path: &Path) -> StoreError {
        match self {
            Self::File(error) => explain(path, error),
            Self::Value(error) => unsealed(path, &error),
        }
    }

    /// As [`FileError::explain`], for a file that was being written.
    pub(super) fn explain_write(self, path: &Path) -> StoreError {
        match self {
            Self::File(error) => broken(path, "cannot be written", error, "make room or mend the disk"),
            Self::Value(error) => unsealed(path, &error),
        }
    }
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
    let file = make(path)?;
    let filled = fill(file, listing, transformer).and_then(|()| Ok(sync_folder(path)?));
    filled.map_err(|error| {
        // The error above is more useful than one from here.
        let _ = fs::remove_file(path);
        error.explain_write(path)
    })
}

/// Makes a file that does not exist, for its owner alone.
pub(super) fn make(path: &Path) -> Result<File, StoreError> {
    let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| broken(path, "cannot be made", error, "name a file that is not there yet"))
}

/// Writes a file beside another and replaces it atomically.
fn write_over(path: &Path, listing: &Listing, transformer: &dyn Transformer) -> Result<(), StoreError> {
    let new = free_beside(path)?;
    write_copy(&new, listing, transformer)?;
    put_in_place(&new, path)
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

/// Flushes a folder, so that a new name in it is durable as well.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The advice about a lost file, for error messages.
const RESTORE: &str = "put a backup in its place, or remove it and its .lock file to begin with nothing";

pub(super) fn broken(path: &Path, what: &str, problem: impl Display, remedy: &str) -> StoreError {
    StoreError::Broken(format!("store {}: {what}: {problem}; {remedy}", path.display()))
}

/// The error for a value that the transformer cannot convert.
fn unsealed(path: &Path, error: &TransformError) -> StoreError {
    StoreError::Broken(format!("store {}: {error}", path.display()))
}

/// Why a file cannot be opened.
pub(super) fn explain(path: &Path, error: redb::Error) -> StoreError {
    match error {
        redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch => {
            broken(path, "is in use", "another process has it open", "stop that process")
        }
        redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            broken(path, "is not a store", error, RESTORE)
        }
        redb::Error::Io(error) => broken(path, "cannot be read", error, "check permissions and disk"),
        redb::Error::TableDoesNotExist(_) | redb::Error::TableTypeMismatch { .. } => {
            broken(path, "is not a store", "another program's database", "name another file")
        }
        error => broken(path, "is damaged", error, RESTORE),
    }
}

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

/// The file that redb writes to, noting failed flushes.
#[derive(Debug)]
struct Backend {
    file: FileBackend,
    unflushed: Arc<AtomicBool>,
    #[cfg(test)]
    faults: Faults,
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        #[cfg(test)]
        self.faults.strike(Step::Grow)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        #[cfg(test)]
        let flushed = self.faults.strike(Step::Flush).and_then(|()| self.file.sync_data());
        #[cfg(not(test))]
        let flushed = self.file.sync_data();
        if flushed.is_err() {
            self.unflushed.store(true, Ordering::Release);
        }
        flushed
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        self.faults.strike(Step::Write)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// The steps that a test can let fail.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Grow,
    Write,
    Flush,
}

/// Failures that a test orders. Holding the lock also blocks the disk.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
pub(super) struct Faults(pub(super) Arc<std::sync::Mutex<Orders>>);

#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The step that fails, after so many more successes.
    pub(super) fails: Option<(Step, usize)>,
    /// How many flushes there have been.
    pub(super) flushes: usize,
}

#[cfg(test)]
impl Faults {
    /// Lets a step fail after so many more successes.
    pub(super) fn order(&self, step: Step, after: usize) {
        self.0.lock().unwrap().fails = Some((step, after));
    }

    /// Ends all failures, and returns whether there was one.
    pub(super) fn lift(&self) -> bool {
        self.0.lock().unwrap().fails.take().is_some_and(|(_, left)| left == 0)
    }

    fn strike(&self, step: Step) -> io::Result<()> {
        let mut orders = self.0.lock().unwrap();
        orders.flushes += usize::from(step == Step::Flush);
        match &mut orders.fails {
            Some((fails, left)) if *fails == step => match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => return Err(io::ErrorKind::StorageFull.into()),
            },
            _ => {}
        }
        Ok(())
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
        let childs = disk.lock.0.try_clone().unwrap();
        let problem = open().err().unwrap().to_string();
        assert!(problem.contains("another process has it open"), "{problem}");
        drop(disk);
        open().map(drop).unwrap();
        drop(childs);
    }
}
