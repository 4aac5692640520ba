//! The state that readers see: every key with its newest value and those of the history window, in key order.
//!
//! Only [`Readers`](crate::readers::Readers) changes it, a few keys at a time, and only after they are durable; readers also
//! hold the lock for a few keys only. A long list is read in several steps, all at one revision.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use smallvec::SmallVec;

use crate::watch::Commit;
use crate::{Entry, List, Listing, Revision, StoreError};

/// The revision of a new store.
pub(crate) const FIRST: Revision = Revision(1);

/// How many keys are visited before the lock is released for others.
const STRIDE: usize = 1_024;

/// The keys and their values.
#[derive(Debug)]
pub(crate) struct Memory {
    inner: RwLock<Inner>,
    revision: AtomicU64,
    /// The size of all keys and their newest values. In bytes.
    size: AtomicU64,
    /// The number of commits that were refused because the store was full.
    refused: AtomicU64,
}

struct Inner {
    keys: BTreeMap<Box<str>, Versions>,
    parts: Parts,
    revision: Revision,
    /// The oldest revision that can be read.
    floor: Revision,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("revision", &self.revision).finish_non_exhaustive()
    }
}

impl Inner {
    /// Checks that a revision is held.
    fn check(&self, at: Revision) -> Result<(), StoreError> {
        if at > self.revision {
            return Err(StoreError::Future { asked: at, newest: self.revision });
        }
        if at < self.floor {
            return Err(StoreError::Compacted { asked: at, oldest: self.floor });
        }
        Ok(())
    }
}

/// The keys of each part.
#[derive(Default)]
struct Parts {
    /// By part and key, how many versions of the key are in the part.
    keys: HashMap<Box<str>, BTreeMap<Box<str>, usize>>,
}

impl Parts {
    fn add(&mut self, entry: &Entry) {
        if let Some(part) = &entry.part {
            *self.keys.entry(part.clone()).or_default().entry(entry.key.clone()).or_default() += 1;
        }
    }

    fn remove(&mut self, entry: &Entry) {
        let Some(part) = &entry.part else { return };
        let Some(keys) = self.keys.get_mut(part) else { return };
        if let Some(count) = keys.get_mut(&entry.key) {
            *count -= 1;
            if *count == 0 {
                keys.remove(&entry.key);
            }
        }
        if keys.is_empty() {
            self.keys.remove(part);
        }
    }
}

/// The versions of a key that can be read, oldest first; never empty.
type Versions = SmallVec<[Version; 1]>;

#[derive(Debug)]
struct Version {
    revision: Revision,
    /// `None` if the key was removed.
    entry: Option<Arc<Entry>>,
}

/// The entry of a key at a revision.
fn as_of(versions: &Versions, revision: Revision) -> Option<&Arc<Entry>> {
    versions.iter().rev().find(|version| version.revision <= revision)?.entry.as_ref()
}

impl Memory {
    /// The entries of a store at a revision, in key order. Nothing before `floor` can be read.
    pub(crate) fn new(entries: Vec<Arc<Entry>>, revision: Revision, floor: Revision) -> Self {
        let size = entries.iter().map(|entry| entry.size()).sum();
        let mut parts = Parts::default();
        entries.iter().for_each(|entry| parts.add(entry));
        let keys = entries.into_iter().map(|entry| {
            let version = Version { revision: entry.modified, entry: Some(Arc::clone(&entry)) };
            (entry.key.clone(), Versions::from_iter([version]))
        });
        let inner = Inner { keys: keys.collect(), parts, revision, floor };
        Self {
            inner: RwLock::new(inner),
            revision: AtomicU64::new(revision.0),
            size: AtomicU64::new(size),
            refused: AtomicU64::new(0),
        }
    }

    /// Adds the versions of commits that led to the entries, oldest first.
    pub(crate) fn remember(&mut self, past: &[Arc<Commit>]) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut histories: BTreeMap<&str, Versions> = BTreeMap::new();
        for (revision, event) in
            past.iter().flat_map(|commit| commit.events.iter().map(|event| (commit.revision, event)))
        {
            let versions = histories.entry(event.key()).or_insert_with(|| {
                let before = event.previous.as_ref();
                let before =
                    before.map(|entry| Version { revision: entry.modified, entry: Some(Arc::clone(entry)) });
                before.into_iter().collect()
            });
            versions.push(Version { revision, entry: event.entry.clone() });
        }
        for (key, versions) in histories {
            for version in inner.keys.get(key).into_iter().flatten() {
                version.entry.iter().for_each(|entry| inner.parts.remove(entry));
            }
            versions
                .iter()
                .filter_map(|version| version.entry.as_ref())
                .for_each(|entry| inner.parts.add(entry));
            inner.keys.insert(key.into(), versions);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a commit that was refused because the store was full.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn entry(&self, key: &str) -> Option<Arc<Entry>> {
        self.read().keys.get(key)?.last()?.entry.clone()
    }

    /// The entry of a key at a revision.
    pub(crate) fn entry_as_of(&self, key: &str, at: Revision) -> Result<Option<Arc<Entry>>, StoreError> {
        let inner = self.read();
        inner.check(at)?;
        Ok(inner.keys.get(key).and_then(|versions| as_of(versions, at)).cloned())
    }

    /// The entry of a key that was written at exactly this revision, if it is still held.
    pub(crate) fn entry_at(&self, key: &str, revision: Revision) -> Option<Arc<Entry>> {
        let inner = self.read();
        let versions = inner.keys.get(key)?;
        versions.iter().rev().find(|version| version.revision == revision)?.entry.clone()
    }

    /// Lists in several steps, releasing the lock between them.
    pub(crate) async fn list(&self, list: &List) -> Result<Listing, StoreError> {
        let mut scan = Scan::new(list);
        loop {
            let done = scan.stride(&self.read(), STRIDE);
            match done {
                Ok(true) => return Ok(scan.listing),
                Ok(false) => tokio::task::yield_now().await,
                Err(error) => return self.overtaken(list, error),
            }
        }
    }

    /// Every entry, at one revision.
    pub(crate) fn all(&self) -> Result<Listing, StoreError> {
        let list = List::default();
        let mut scan = Scan::new(&list);
        loop {
            match scan.stride(&self.read(), STRIDE) {
                Ok(true) => return Ok(scan.listing),
                Ok(false) => {}
                Err(error) => return self.overtaken(&list, error),
            }
        }
    }

    /// Lists again in one step, after so many writes during a list that its revision is no longer held.
    fn overtaken(&self, list: &List, error: StoreError) -> Result<Listing, StoreError> {
        if list.at.is_some() {
            return Err(error);
        }
        let mut scan = Scan::new(list);
        scan.stride(&self.read(), usize::MAX)?;
        Ok(scan.listing)
    }

    /// Shows commits to readers, each atomically. After them the keys and values have this size, in bytes.
    pub(crate) fn publish(&self, commits: &[Arc<Commit>], size: u64) {
        self.size.store(size, Ordering::Release);
        for commit in commits {
            let mut inner = self.write();
            for event in &commit.events {
                if let Some(entry) = &event.entry {
                    inner.parts.add(entry);
                }
                let version = Version { revision: commit.revision, entry: event.entry.clone() };
                match inner.keys.get_mut(event.key()) {
                    Some(versions) => versions.push(version),
                    None => {
                        inner.keys.insert(event.key().into(), Versions::from_iter([version]));
                    }
                }
            }
            inner.revision = commit.revision;
            self.revision.store(commit.revision.0, Ordering::Release);
        }
    }

    /// Moves on to a revision that changed none of the keys here.
    pub(crate) fn advance(&self, revision: Revision) {
        let mut inner = self.write();
        inner.revision = inner.revision.max(revision);
        self.revision.store(inner.revision.0, Ordering::Release);
    }

    /// From now on refuses reads before a revision.
    pub(crate) fn raise_floor(&self, floor: Revision) {
        let mut inner = self.write();
        inner.floor = inner.floor.max(floor);
    }

    /// How many versions there are of all keys.
    #[cfg(test)]
    pub(crate) fn versions(&self) -> usize {
        self.read().keys.values().map(|versions| versions.len()).sum()
    }

    /// Drops the versions that commits below the floor have replaced or removed.
    pub(crate) fn prune(&self, forgotten: &[Arc<Commit>]) {
        for stride in forgotten.chunks(STRIDE) {
            let mut inner = self.write();
            let Inner { keys, parts, floor, .. } = &mut *inner;
            for key in stride.iter().flat_map(|commit| commit.events.iter()).map(crate::Event::key) {
                let Some(versions) = keys.get_mut(key) else { continue };
                let older = versions.iter().take_while(|version| version.revision <= *floor).count();
                let Some(last) = older.checked_sub(1) else { continue };
                // The last of them is the value at the floor, unless it is a removal.
                let gone = versions.get(last).is_some_and(|version| version.entry.is_none());
                for version in versions.drain(..if gone { older } else { last }) {
                    if let Some(entry) = &version.entry {
                        parts.remove(entry);
                    }
                }
                if versions.is_empty() {
                    keys.remove(key);
                }
            }
        }
    }
}

/// A list in progress.
struct Scan<'a> {
    list: &'a List,
    /// The last key that was visited.
    visited: Option<Box<str>>,
    /// The revision of the list, once it is known.
    at: Option<Revision>,
    listing: Listing,
}

impl<'a> Scan<'a> {
    fn new(list: &'a List) -> Self {
        let listing = Listing { revision: Revision(0), entries: Vec::new(), remaining: 0 };
        Self { list, visited: None, at: list.at, listing }
    }

    /// Visits some more keys. Returns whether the list is complete.
    fn stride(&mut self, inner: &Inner, most: usize) -> Result<bool, StoreError> {
        let at = self.at.unwrap_or(inner.revision);
        inner.check(at)?;
        self.at = Some(at);
        self.listing.revision = at;
        let prefix = &*self.list.prefix;
        let start = match self.visited.as_deref().or(self.list.after.as_deref()) {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let range = (start, Bound::Unbounded);
        let Some(part) = &self.list.part else {
            return Ok(self.visit(inner.keys.range::<str, _>(range), at, most, |_| true));
        };
        let Some(keys) = inner.parts.keys.get(part) else { return Ok(true) };
        let keys = keys.range::<str, _>(range).filter_map(|(key, _)| inner.keys.get_key_value(key));
        // Another version of the key is in the part, perhaps not this one.
        Ok(self.visit(keys, at, most, |entry| entry.part.as_ref() == Some(part)))
    }

    /// Takes the wanted entries of these keys. Returns whether the list is complete.
    fn visit<'k>(
        &mut self,
        keys: impl Iterator<Item = (&'k Box<str>, &'k Versions)>,
        at: Revision,
        most: usize,
        is_wanted: impl Fn(&Entry) -> bool,
    ) -> bool {
        let mut last: Option<&Box<str>> = None;
        for (visited, (key, versions)) in keys.enumerate() {
            if !key.starts_with(&*self.list.prefix) {
                return true;
            }
            if visited == most {
                self.visited = last.cloned();
                return false;
            }
            last = Some(key);
            if let Some(entry) = as_of(versions, at).filter(|entry| is_wanted(entry)) {
                if self.list.limit == 0 || self.listing.entries.len() < self.list.limit {
                    self.listing.entries.push(Arc::clone(entry));
                } else {
                    self.listing.remaining += 1;
                }
            }
        }
        true
    }
}
