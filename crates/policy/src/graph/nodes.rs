//! Node names as numbers.
//!
//! INVARIANT: a number is never given twice. A decision looks up the node first and the object second; were numbers
//! used again, a node that comes between the two could be taken for one that has just gone (NA-107).

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

/// A node, within one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u32);

#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    id: NodeId,
}

const SHARDS: usize = 16;

/// The nodes that something is bound to (NA-27, NA-42).
#[derive(Debug)]
pub(super) struct Nodes {
    hasher: DefaultHashBuilder,
    shards: [RwLock<HashTable<Entry>>; SHARDS],
    numbers: Mutex<Numbers>,
}

/// Only the writer and explanations come here.
#[derive(Debug, Default)]
struct Numbers {
    next: u32,
    nodes: HashMap<NodeId, Number>,
}

#[derive(Debug)]
struct Number {
    name: Arc<str>,
    /// How many pods, attachments, slices and requests are on the node.
    holders: u32,
}

impl Nodes {
    pub(super) fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: std::array::from_fn(|_| RwLock::new(HashTable::new())),
            numbers: Mutex::default(),
        }
    }

    fn shard(&self, hash: u64) -> &RwLock<HashTable<Entry>> {
        // The remainder is within the array, so the first shard never stands in for another.
        let [first, ..] = &self.shards;
        self.shards.get((hash >> 48) as usize % SHARDS).unwrap_or(first)
    }

    /// The node of this name, if something is bound to it.
    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        let hash = self.hasher.hash_one(name);
        let table = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        table.find(hash, |e| *e.name == *name).map(|e| e.id)
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node of this name, made when need be, with one holder more. Nothing when the numbers are used up.
    pub(super) fn hold(&self, name: &str) -> Option<NodeId> {
        let mut numbers = self.numbers();
        if let Some(id) = self.find(name) {
            let number = numbers.nodes.get_mut(&id)?;
            number.holders = number.holders.checked_add(1)?;
            return Some(id);
        }
        let name: Arc<str> = name.into();
        let id = NodeId(numbers.next);
        numbers.next = numbers.next.checked_add(1)?;
        numbers.nodes.insert(id, Number { name: Arc::clone(&name), holders: 1 });
        let hash = self.hasher.hash_one(&*name);
        let mut table = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        table.insert_unique(hash, Entry { name, id }, |e| self.hasher.hash_one(&*e.name));
        Some(id)
    }

    /// One holder less; the node goes with its last.
    pub(super) fn release(&self, id: NodeId) {
        let mut numbers = self.numbers();
        let Some(number) = numbers.nodes.get_mut(&id) else { return };
        number.holders -= 1;
        if number.holders > 0 {
            return;
        }
        let Some(Number { name, .. }) = numbers.nodes.remove(&id) else { return };
        let hash = self.hasher.hash_one(&*name);
        let mut table = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        if let Ok(entry) = table.find_entry(hash, |e| e.id == id) {
            entry.remove();
        }
    }

    /// The name of a node.
    pub(super) fn name(&self, id: NodeId) -> Option<Arc<str>> {
        self.numbers().nodes.get(&id).map(|number| Arc::clone(&number.name))
    }

    /// How many nodes something is bound to.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.read().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}
