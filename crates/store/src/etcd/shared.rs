//! What the parts of a store in etcd share: the keys, the state in memory, and who waits for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::layout::{Layout, Opened};
use super::wire::KeyValue;
use crate::readers::Readers;
use crate::{Entry, PartOf, Revision, StoreError, TransformError};

/// See the module documentation.
pub(super) struct Shared {
    pub(super) keys: Keys,
    pub(super) readers: Readers,
    /// Held while changes are shown, so that no other thread shows any.
    applying: Mutex<()>,
    waiting: Mutex<BTreeMap<Revision, Vec<oneshot::Sender<()>>>>,
    /// The keys whose values cannot be read, and why (ET-12); also those that nobody serves, who may come to be served.
    unreadable: Mutex<BTreeMap<Box<str>, String>>,
}

impl Shared {
    pub(super) fn new(keys: Keys, readers: Readers, unreadable: BTreeMap<Box<str>, String>) -> Self {
        Self {
            keys,
            readers,
            applying: Mutex::default(),
            waiting: Mutex::default(),
            unreadable: Mutex::new(unreadable),
        }
    }

    pub(super) fn applying(&self) -> MutexGuard<'_, ()> {
        self.applying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn unreadable(&self) -> MutexGuard<'_, BTreeMap<Box<str>, String>> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Revision, Vec<oneshot::Sender<()>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every change up to a revision can be read. The caller limits the time.
    ///
    /// # Errors
    /// The store was closed.
    pub(super) async fn reached(&self, revision: Revision) -> Result<(), StoreError> {
        let reached = {
            let mut waiting = self.waiting();
            // Looked at with the lock held: `wake` comes after the revision has moved on.
            if self.readers.memory.revision() >= revision {
                return Ok(());
            }
            let (reach, reached) = oneshot::channel();
            waiting.entry(revision).or_default().push(reach);
            reached
        };
        reached.await.map_err(|_| StoreError::Broken("the store was closed".to_owned()))
    }

    /// Wakes who waits for the revision that was reached.
    pub(super) fn wake(&self) {
        let revision = self.readers.memory.revision();
        let mut waiting = self.waiting();
        while let Some(first) = waiting.first_entry().filter(|first| *first.key() <= revision) {
            for reach in first.remove() {
                // Who no longer waits has nothing to learn.
                let _ = reach.send(());
            }
        }
    }

    /// Ends all waits and watches.
    pub(super) fn close(&self) {
        self.readers.feed.close();
        self.waiting().clear();
    }
}

/// The keys and values in etcd.
#[derive(Clone)]
pub(super) struct Keys {
    /// Without a trailing slash.
    pub(super) prefix: Box<str>,
    pub(super) layout: Arc<dyn Layout>,
    pub(super) part_of: Option<PartOf>,
}

/// What a key of etcd holds.
pub(super) enum Held {
    /// An entry of the store.
    Entry(Arc<Entry>),
    /// A value that cannot be read (ET-12).
    Unreadable(Box<str>, TransformError),
    /// Something that this server does not serve.
    Foreign,
}

impl Keys {
    /// The key in etcd of a key of the store.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if there is none.
    pub(super) fn of(&self, key: &str) -> Result<String, StoreError> {
        let path = self.layout.path(key).ok_or_else(|| {
            StoreError::Refused(format!("the key {key:?} has no place in the layout of Kubernetes in etcd"))
        })?;
        Ok(format!("{}/{path}", self.prefix))
    }

    /// The key of the store of a key in etcd; none for what this server does not serve.
    pub(super) fn key(&self, etcd_key: &[u8]) -> Option<Box<str>> {
        let path = std::str::from_utf8(etcd_key).ok()?.strip_prefix(&*self.prefix)?.strip_prefix('/')?;
        self.layout.key(path)
    }

    /// Reads a key with its value.
    pub(super) fn read(&self, kv: &KeyValue) -> Held {
        let Some(key) = self.key(&kv.key) else { return Held::Foreign };
        let modified = revision(kv.mod_revision);
        let etcd_key = String::from_utf8_lossy(&kv.key);
        match self.layout.open(&key, &etcd_key, &kv.value, modified) {
            Ok(Opened { value, .. }) => {
                let created = revision(kv.create_revision);
                let entry = Entry::new(key, value, created, modified).in_part(self.part_of.as_ref());
                Held::Entry(Arc::new(entry))
            }
            Err(error) => Held::Unreadable(key, error),
        }
    }

    /// The first key in etcd of a prefix of keys of the store, and the first key behind them; none if they are not one range
    /// there.
    pub(super) fn range_of(&self, prefix: &str) -> Option<(Bytes, Bytes)> {
        let first = format!("{}/{}", self.prefix, self.layout.prefix(prefix)?);
        let mut end = first.clone().into_bytes();
        // Text has no byte that cannot be counted up.
        let last = end.last_mut()?;
        *last = last.checked_add(1)?;
        Some((first.into(), end.into()))
    }

    /// The first key below the prefix, and the first key behind them.
    pub(super) fn range(&self) -> (Bytes, Bytes) {
        (format!("{}/", self.prefix).into(), self.end())
    }

    /// The key that servers write to learn how far their watch has come (ET-33). It lies before the keys of objects, so that
    /// one watch covers both: `.` comes before `/`.
    pub(super) fn tick(&self) -> Bytes {
        format!("{}.portcullis", self.prefix).into()
    }

    /// The first key behind those of the prefix: `0` comes after `/`.
    pub(super) fn end(&self) -> Bytes {
        format!("{}0", self.prefix).into()
    }
}

/// A revision of etcd, which is never negative.
pub(super) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or(0))
}

/// A revision as etcd writes it.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

/// ET-12.
pub(super) fn log_unreadable(layout: &dyn Layout, key: &str, etcd_key: &[u8], problem: &str) {
    let etcd_key = String::from_utf8_lossy(etcd_key);
    match layout.is_served(key) {
        true => tracing::error!(
            key = %etcd_key,
            error = problem,
            "a value in etcd cannot be read: it is not served and grants nothing"
        ),
        false => {
            tracing::debug!(key = %etcd_key, error = problem, "a value that nobody serves cannot be read")
        }
    }
}
