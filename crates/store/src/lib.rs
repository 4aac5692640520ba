//! Stores keys and values under one growing revision, as etcd does: compare-and-swap, lists at a revision, watches that miss
//! and repeat nothing, and no acknowledgement before a write is durable.
//!
//! The store never interprets values.
//!
//! The terms are those of etcd: a [`Revision`] is the revision of the whole key space, [`Entry::created`] and
//! [`Entry::modified`] are `create_revision` and `mod_revision`, a [`Store::commit`] is one transaction of compares on
//! `mod_revision` and of puts and deletes, a [`Watch`] is a watch with the previous values.
//!
//! [`Embedded`] keeps everything in this process and one file; [`Etcd`] keeps it in etcd, which several servers share. Both
//! answer reads and watches from memory. Every backend passes `conformance` (feature `conformance`).

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod embedded;
pub mod encryption;
pub mod etcd;
mod history;
mod memory;
mod readers;
mod transform;
pub mod watch;
mod write;

pub use embedded::{Embedded, History, Options};
pub use etcd::Etcd;
pub use transform::{Opened, TransformError, Transformer};

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;

/// The number of a commit. A new store is at revision 1, as with etcd, so that 0 can mean "any"; each commit has a larger one
/// than all before it. The embedded store leaves none out; in etcd others write too. Revisions never go back, and none is used
/// twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A key with its value, as written by one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key: `/core/pods/default/web`.
    pub key: Box<str>,
    /// The value, with the revision written in (see [`Value`]).
    pub value: Bytes,
    /// The revision that created the key. A key that was removed and created again has a new one.
    pub created: Revision,
    /// The revision that wrote the value.
    pub modified: Revision,
    /// The part of its collection that it belongs to, as the [`PartOf`] of the store says; `None` in a store without one.
    pub part: Option<Box<str>>,
}

/// A value to write. It may contain its own revision, which is unknown before the commit: the store inserts its decimal
/// digits at an offset that the writer gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The value without the revision.
    pub bytes: Bytes,
    /// The offset at which the revision is inserted, if at all. At most the length of `bytes`.
    pub revision_at: Option<usize>,
    /// Another key on whose value the writer relied, and the revision that wrote it. If it has another value, the commit conflicts
    /// about that key.
    pub relies_on: Option<(Box<str>, Revision)>,
}

/// The expected state of a key before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No value.
    Absent,
    /// Any value, or none.
    Anything,
    /// The value that was written at this revision.
    Modified(Revision),
}

/// One write of a commit.
#[derive(Clone, Debug)]
pub struct Write {
    /// The key.
    pub key: Box<str>,
    /// The expectation.
    pub expect: Expect,
    /// The new value; `None` removes the key.
    pub value: Option<Value>,
}

/// A list request.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The prefix of the keys.
    pub prefix: Box<str>,
    /// Only entries of this part of the collection, see [`PartOf`]. In a store without parts there are none.
    pub part: Option<Box<str>>,
    /// Only keys after this one, which need not exist.
    pub after: Option<Box<str>>,
    /// The most entries to return; zero for all.
    pub limit: usize,
    /// The revision to list at; the newest if `None`.
    pub at: Option<Revision>,
}

/// The result of a list.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The revision that the listing shows.
    pub revision: Revision,
    /// The entries in key order.
    pub entries: Vec<Arc<Entry>>,
    /// How many more entries follow the last.
    pub remaining: usize,
}

/// A change of one key.
#[derive(Clone, Debug)]
pub struct Event {
    /// The commit.
    pub revision: Revision,
    /// The previous entry; `None` for a new key.
    pub previous: Option<Arc<Entry>>,
    /// The new entry; `None` for a removed key.
    pub entry: Option<Arc<Entry>>,
}

impl Entry {
    /// An entry that belongs to no part.
    #[must_use]
    pub fn new(key: impl Into<Box<str>>, value: Bytes, created: Revision, modified: Revision) -> Self {
        Self { key: key.into(), value, created, modified, part: None }
    }

    /// The entry with its part. Reading it from the value takes long, so each entry is asked once, when it is made.
    pub(crate) fn in_part(mut self, part_of: Option<&PartOf>) -> Self {
        self.part = part_of.and_then(|of| of(&self));
        self
    }

    /// The size of the key and the value. In bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        (self.key.len() as u64).saturating_add(self.value.len() as u64)
    }
}

impl Event {
    /// The key that changed.
    #[must_use]
    pub fn key(&self) -> &str {
        self.entry.as_ref().or(self.previous.as_ref()).map_or("", |entry| &entry.key)
    }
}

/// The state of an entry in the store. See [`Store::standing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the newest of its key, and stored as it would be written today.
    Current,
    /// It is the newest of its key, but would be written differently today: encrypted with another key, or in another form.
    Stale,
    /// Its key has changed or was removed.
    Replaced,
}

/// Is called for every durable commit, in order, before it is acknowledged. Must be fast: all writers wait for it.
pub trait Observer: Send + Sync {
    /// The changes of one commit, before anybody can read them.
    fn committed(&self, events: &[Event]) {
        let _ = events;
    }

    /// The changes of the same commit, once they can be read.
    fn readable(&self, events: &[Event]) {
        let _ = events;
    }
}

/// Reads the entry of a key, as a commit finds it.
pub type Current<'a> = &'a dyn Fn(&str) -> Option<Arc<Entry>>;

/// Is called for every commit whose expectations hold, before it is written, and may add writes to it. Must be fast: all
/// writers wait for it.
pub trait Amender: Send + Sync {
    /// The additional writes. Their keys must not be in the commit, and their expectations must hold.
    fn amend(&self, writes: &[Write], current: Current<'_>) -> Vec<Write>;
}

/// Returns the part of its collection that an entry belongs to, if any, such as the pods of one node. A list or watch of
/// one part reads that part alone, which matters when thousands of clients each want a part of a collection.
/// Must depend on the key and the value alone and be fast: all writers wait for it. Its answer is kept in [`Entry::part`].
pub type PartOf = Arc<dyn Fn(&Entry) -> Option<Box<str>> + Send + Sync>;

/// A backend.
pub trait Store: Send + Sync + 'static {
    /// The changes of the keys under a prefix, in order, each once.
    type Watch: Watch;

    /// The newest revision that can be read here. Other servers may have committed later ones: see [`Store::fresh`].
    fn revision(&self) -> Revision;

    /// Waits until everything that was acknowledged before this call, by any server that shares the store, can be read here and
    /// was shown to the observers. Returns the revision that is reached (ET-22).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if that takes too long.
    fn fresh(&self) -> impl Future<Output = Result<Revision, StoreError>> + Send {
        std::future::ready(Ok(self.revision()))
    }

    /// Whether what can be read here was current a few seconds ago at the latest. If not, nothing may be allowed on it before
    /// [`Store::fresh`] (ET-35). Cheap.
    fn is_current(&self) -> bool {
        true
    }

    /// Whether other servers write to the store too, so that what is not found here may exist nevertheless (ET-34).
    fn is_shared(&self) -> bool {
        false
    }

    /// The most writes of one commit.
    fn most_writes(&self) -> usize {
        usize::MAX
    }

    /// The entry of a key, as it can be read here.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`].
    fn get(&self, key: &str) -> impl Future<Output = Result<Option<Arc<Entry>>, StoreError>> + Send;

    /// The entry of a key at a revision, as it can be read here.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] and [`StoreError::Future`] for a revision that is not held here.
    fn get_at(
        &self,
        key: &str,
        at: Revision,
    ) -> impl Future<Output = Result<Option<Arc<Entry>>, StoreError>> + Send;

    /// The state of an entry that was read here. Asks the store itself, so that a request may succeed without a write
    /// (ET-21).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store does not answer in time.
    fn standing(&self, entry: &Entry) -> impl Future<Output = Result<Standing, StoreError>> + Send {
        let _ = entry;
        std::future::ready(Ok(Standing::Current))
    }

    /// Removes a key whose value cannot be read, and nothing else. Returns whether there was such a value (ET-12).
    ///
    /// # Errors
    /// As [`Store::commit`].
    fn remove_unreadable(&self, key: &str) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let _ = key;
        std::future::ready(Ok(false))
    }

    /// The entries under a prefix, all at one revision.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] and [`StoreError::Future`] for a revision that is not held.
    fn list(&self, list: &List) -> impl Future<Output = Result<Listing, StoreError>> + Send;

    /// Writes all or nothing, and returns when it is durable: the new revision, and the entries in the order of the writes
    /// (for a removed key the removed entry). A commit that changes nothing, because the keys that it removes do not exist,
    /// uses no revision: the answer has the newest. Dropping the future does not stop the commit.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] for the first write that did not find what it expected; [`StoreError::Refused`] for a
    /// commit that names a key twice, or a value whose `revision_at` lies outside; [`StoreError::Full`];
    /// [`StoreError::Broken`].
    fn commit(&self, writes: Vec<Write>) -> impl Future<Output = Result<Committed, StoreError>> + Send;

    /// As [`Store::commit`], also when the store is full: for the steps of a deletion, which may make an object a little
    /// larger before it goes, and for upkeep that must not stop. A backend without a quota has nothing to add.
    ///
    /// # Errors
    /// As [`Store::commit`], except [`StoreError::Full`].
    fn commit_beyond_quota(
        &self,
        writes: Vec<Write>,
    ) -> impl Future<Output = Result<Committed, StoreError>> + Send {
        self.commit(writes)
    }

    /// The changes after a revision of the keys under a prefix.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] and [`StoreError::Future`] for a revision that is not held.
    fn watch(
        &self,
        prefix: &str,
        after: Revision,
    ) -> impl Future<Output = Result<Self::Watch, StoreError>> + Send;

    /// As [`Store::watch`], for keys whose previous or new entry is in this part. A backend without parts may also return
    /// events of other keys.
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

    /// Forgets the history before a revision: earlier lists and watches fail with [`StoreError::Compacted`], those at the
    /// revision itself do not. Compacting again does nothing.
    ///
    /// # Errors
    /// [`StoreError::Future`] for a revision that does not exist yet.
    fn compact(&self, before: Revision) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A running watch.
pub trait Watch: Send + 'static {
    /// The next changes; the changes of one commit come together, and the list is never empty. [`Watch::revision`] also
    /// advances when nothing under the prefix changes. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if the reader was too slow and missed changes; an error when the store closes.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Event>, StoreError>> + Send;

    /// Every change up to this revision has been returned.
    fn revision(&self) -> Revision;
}

/// A durable commit.
#[derive(Clone, Debug)]
pub struct Committed {
    /// Its revision.
    pub revision: Revision,
    /// For each write the written or removed entry; `None` if there was nothing to remove.
    pub entries: Vec<Option<Arc<Entry>>>,
}

/// An error of a store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The expectation of a write did not hold. Nothing was written.
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
    /// The commit is invalid, and why. Nothing was written. An error of the caller.
    #[error("{0}")]
    Refused(String),
    /// The store would have more than it may, and the commit would add to it. Nothing was written. Deletions are possible.
    #[error("the store is full: {size} of {quota} bytes are used; delete objects, or raise the quota")]
    Full {
        /// The size of all keys and values. In bytes.
        size: u64,
        /// The most that they may have. In bytes.
        quota: u64,
    },
    /// The value of the key was written by somebody else and cannot be read: why (ET-12).
    #[error("the stored value cannot be read: {0}")]
    Unreadable(String),
    /// The commit is larger than the server of the store takes. Nothing was written.
    #[error("etcd does not take so large a request: {0}; its --max-request-bytes says how large it may be")]
    TooLarge(String),
    /// The store cannot be reached now. Nothing was written.
    #[error("{0}")]
    Unavailable(String),
    /// The commit may have been made or not: its outcome is unknown (ET-4).
    #[error("{0}; whether the change was made is unknown")]
    Unknown(String),
    /// The server of the store has no room. Nothing was written, but that etcd says the same of the write that fills it.
    #[error("etcd has no room: {0}; compact and defragment it, and raise its --quota-backend-bytes")]
    NoSpace(String),
    /// The store cannot be read or written. Commits that were not acknowledged may or may not be there afterwards.
    #[error("{0}")]
    Broken(String),
}
