//! Remembers: keys and values under one growing revision, as etcd does. Compare-and-swap, lists as of a revision, watches
//! that miss and repeat nothing, and no acknowledgement before a write is safe.
//!
//! What the values mean is not known here.
//!
//! The trait is shaped so that etcd fits behind it: a [`Revision`] is etcd's revision of the whole key space,
//! [`Entry::created`] and [`Entry::modified`] are its `create_revision` and `mod_revision`, a [`Store::commit`] is one
//! transaction of compares on `mod_revision` and of puts and deletes, a [`Watch`] is a watch with the previous values.
//! etcd does not tell a revision before the transaction is through; a backend for it keeps the value and
//! [`Value::revision_at`] apart and writes the revision in when it reads.
//!
//! [`Embedded`] keeps everything in this process and one file. Every backend passes `conformance` (feature
//! `conformance`).

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod embedded;
pub mod watch;

pub use embedded::{Embedded, History, Options};

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;

/// The number of a change. A new store is at revision 1, as with etcd, so that 0 is free to mean "any"; each commit has
/// one more than the commit before. Revisions never go back and none is given twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A key with its value, as of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key: `/core/pods/default/web`.
    pub key: Box<str>,
    /// The value, with the revision written in (see [`Value`]).
    pub value: Bytes,
    /// When the key was made. A key that was removed and made again has a new one.
    pub created: Revision,
    /// When the value was written.
    pub modified: Revision,
}

/// A value to be written. It may hold its own revision, which nobody knows before it is committed: the store writes
/// the decimal digits of the revision in at a place that the writer names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The value without the revision.
    pub bytes: Bytes,
    /// Before which byte the revision is written in; nothing if nowhere. At most the length of `bytes`.
    pub revision_at: Option<usize>,
}

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing under this key.
    Absent,
    /// Whatever is there, or nothing.
    Anything,
    /// The value that was written at this revision.
    Modified(Revision),
}

/// One write of a commit.
#[derive(Clone, Debug)]
pub struct Write {
    /// The key.
    pub key: Box<str>,
    /// What must be there.
    pub expect: Expect,
    /// The new value; nothing to remove the key.
    pub value: Option<Value>,
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The keys that begin with this.
    pub prefix: Box<str>,
    /// Only keys after this one. It need not be there.
    pub after: Option<Box<str>>,
    /// At most so many; zero for all.
    pub limit: usize,
    /// As of this revision; the newest if nothing.
    pub at: Option<Revision>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The revision that the listing shows.
    pub revision: Revision,
    /// The entries in key order.
    pub entries: Vec<Arc<Entry>>,
    /// How many more there are after the last.
    pub remaining: usize,
}

/// A change of one key.
#[derive(Clone, Debug)]
pub struct Event {
    /// The commit.
    pub revision: Revision,
    /// What was there before; nothing for a new key.
    pub previous: Option<Arc<Entry>>,
    /// What is there now; nothing for a removed key.
    pub entry: Option<Arc<Entry>>,
}

impl Event {
    /// The key that changed.
    #[must_use]
    pub fn key(&self) -> &str {
        self.entry.as_ref().or(self.previous.as_ref()).map_or("", |entry| &entry.key)
    }
}

/// Told of every commit, in order, before it is acknowledged. Must be quick: all writers wait for it.
pub trait Observer: Send + Sync {
    /// The changes of one commit.
    fn committed(&self, events: &[Event]);
}

/// What is under a key, as a commit finds it.
pub type Current<'a> = &'a dyn Fn(&str) -> Option<Arc<Entry>>;

/// Asked for every commit that finds what it expects, before it is carried out: what else is to be written with it, all
/// or nothing. Must be quick: all writers wait for it.
pub trait Amender: Send + Sync {
    /// The further writes. They must name no key that the commit names, and find what they expect.
    fn amend(&self, writes: &[Write], current: Current<'_>) -> Vec<Write>;
}

/// Tells which part of its collection an entry belongs to, if to any: of the pods, those of one node. Watches of one part
/// are then told of that part alone, which counts where thousands of them watch a collection, each a part of its own.
/// Must depend on the entry alone and be quick: all writers wait for it.
pub type PartOf = fn(&Entry) -> Option<Box<str>>;

/// A backend.
pub trait Store: Send + Sync + 'static {
    /// The changes of the keys under a prefix, in order, each once.
    type Watch: Watch;

    /// The newest revision that is safe on disk and can be read.
    fn revision(&self) -> Revision;

    /// The entry of a key.
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<Arc<Entry>>, StoreError>> + Send;

    /// The entries under a prefix, all as of one revision.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] and [`StoreError::Future`] for a revision that is not held.
    fn list(&self, list: &List) -> impl Future<Output = Result<Listing, StoreError>> + Send;

    /// Writes all or nothing, and returns when that is safe on disk: the new revision and the entries as written (in
    /// the order of the writes; for a removed key what was removed). A commit that changes nothing, because what it
    /// removes is not there, takes no revision: the answer has the newest. A commit goes on when its future is
    /// dropped.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for the first write that did not find what it expected; [`StoreError::Refused`] for a
    /// commit that names a key twice, or a value whose `revision_at` lies outside; [`StoreError::Broken`].
    fn commit(&self, writes: Vec<Write>) -> impl Future<Output = Result<Committed, StoreError>> + Send;

    /// The changes after a revision of the keys under a prefix.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] and [`StoreError::Future`] for a revision that is not held.
    fn watch(
        &self,
        prefix: &str,
        after: Revision,
    ) -> impl Future<Output = Result<Self::Watch, StoreError>> + Send;

    /// As [`Store::watch`], of those keys whose entry was in a part before or is in it now. A backend that knows no parts
    /// may tell of other keys as well.
    ///
    /// # Errors
    /// As [`Store::watch`].
    fn watch_part(
        &self,
        prefix: &str,
        part: &str,
        after: Revision,
    ) -> impl Future<Output = Result<Self::Watch, StoreError>> + Send {
        let _ = part;
        self.watch(prefix, after)
    }

    /// Forgets what was before a revision: lists and watches from before it fail with [`StoreError::Compacted`], those
    /// from the revision itself do not. Forgetting again what is forgotten does nothing.
    ///
    /// # Errors
    /// [`StoreError::Future`] for a revision that is not there yet.
    fn compact(&self, before: Revision) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A watch under way.
pub trait Watch: Send + 'static {
    /// The next changes, those of whole commits together; never an empty list. Also says how far the watch has come
    /// when nothing under the prefix has changed: see [`Watch::revision`]. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] when the reader was too slow and changes were lost to it; the store's end.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Event>, StoreError>> + Send;

    /// Every change up to this revision has been returned.
    fn revision(&self) -> Revision;
}

/// A commit that is safe.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its revision.
    pub revision: Revision,
    /// For each write the entry as written, or as removed; nothing where there was nothing to remove.
    pub entries: Vec<Option<Arc<Entry>>>,
}

/// What a store could not do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// A write did not find what it expected. Nothing was written.
    #[error("the key {key:?} has changed")]
    Conflict {
        /// The key.
        key: Box<str>,
        /// What is there.
        current: Option<Arc<Entry>>,
    },
    /// The revision is older than what is still held.
    #[error("revision {asked:?} is too old: the oldest that is held is {oldest:?}")]
    Compacted {
        /// What was asked for.
        asked: Revision,
        /// What is held.
        oldest: Revision,
    },
    /// The revision has not been reached yet.
    #[error("revision {asked:?} is in the future: the newest is {newest:?}")]
    Future {
        /// What was asked for.
        asked: Revision,
        /// What there is.
        newest: Revision,
    },
    /// No store can carry this commit out; the reason says why. Nothing was written. A fault of the caller.
    #[error("{0}")]
    Refused(String),
    /// The store cannot be read or written. What was not acknowledged may or may not be there afterwards.
    #[error("{0}")]
    Broken(String),
}
