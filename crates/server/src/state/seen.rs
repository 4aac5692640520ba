//! Detects objects that occur twice.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashTable};

/// The first occurrence of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The file, counted from 0.
    pub(super) file: usize,
    /// The offset of the object in the text of the file.
    pub(super) offset: usize,
}

/// The objects found so far. All names are in one string, so that an object needs no allocation of its own.
#[derive(Debug)]
pub(super) struct Seen<K> {
    entries: HashTable<Entry<K>>,
    names: String,
    hasher: DefaultHashBuilder,
}

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    kind: K,
    start: usize,
    namespace: usize,
    name: usize,
    place: Place,
}

impl<K: Copy> Entry<K> {
    /// Returns kind, namespace and name.
    fn key(self, names: &str) -> (K, &str, &str) {
        let middle = self.start.saturating_add(self.namespace);
        let namespace = names.get(self.start..middle).unwrap_or_default();
        let name = names.get(middle..middle.saturating_add(self.name)).unwrap_or_default();
        (self.kind, namespace, name)
    }
}

impl<K> Default for Seen<K> {
    fn default() -> Self {
        Self { entries: HashTable::default(), names: String::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<K: Copy + Eq + Hash> Seen<K> {
    /// Adds an object; returns its first occurrence if there is one.
    pub(super) fn insert(&mut self, kind: K, namespace: &str, name: &str, place: Place) -> Option<Place> {
        let key = (kind, namespace, name);
        let hash = self.hasher.hash_one(key);
        if let Some(first) = self.entries.find(hash, |entry| entry.key(&self.names) == key) {
            return Some(first.place);
        }
        let entry =
            Entry { kind, start: self.names.len(), namespace: namespace.len(), name: name.len(), place };
        self.names.push_str(namespace);
        self.names.push_str(name);
        let (names, hasher) = (&self.names, &self.hasher);
        self.entries.insert_unique(hash, entry, |entry| hasher.hash_one(entry.key(names)));
        None
    }
}
