//! Node names as numbers.
//!
//! INVARIANT: a number is never given twice. A decision looks up the node first and the object second; were numbers
//! used again, a node that comes between the two could be taken for one that has just gone (NA-107).

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use hashbrown::{DefaultHashBuilder, HashMap};

use super::shard::{Key, Shard};
use super::{VertexError, VertexId, VertexKind};

/// A node, within one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u32);

const SHARDS: u32 = 16;

/// The nodes that something is bound to (NA-27, NA-42). A vertex table of their own: each reaches itself, by its
/// number.
#[derive(Debug)]
pub(super) struct Nodes {
    hasher: DefaultHashBuilder,
    shards: [RwLock<Shard>; SHARDS as usize],
    numbers: Mutex<Numbers>,
}

/// Only the writer and explanations come here.
#[derive(Debug, Default)]
struct Numbers {
    next: u32,
    places: HashMap<NodeId, VertexId>,
}

/// Nothing else is in the table, so the kind tells nothing apart.
fn key(name: &str) -> Key<'_> {
    Key { kind: VertexKind::Pod, namespace: "", name }
}

impl Nodes {
    pub(super) fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: std::array::from_fn(|_| RwLock::new(Shard::default())),
            numbers: Mutex::default(),
        }
    }

    fn shard(&self, number: u32) -> &RwLock<Shard> {
        // The remainder is within the array, so the first shard never stands in for another.
        let [first, ..] = &self.shards;
        self.shards.get((number % SHARDS) as usize).unwrap_or(first)
    }

    fn write(&self, number: u32) -> RwLockWriteGuard<'_, Shard> {
        self.shard(number).write().unwrap_or_else(PoisonError::into_inner)
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node of this name, if something is bound to it.
    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        let key = key(name);
        let hash = key.hash(&self.hasher);
        let shard = self.shard(hash as u32).read().unwrap_or_else(PoisonError::into_inner);
        shard.find(hash, &key).and_then(|index| shard.only_node(index))
    }

    /// The node of this name, made when need be, with one holder more.
    ///
    /// # Errors
    /// The name is too long, or the numbers are used up. Nothing has changed then.
    pub(super) fn hold(&self, name: &str) -> Result<NodeId, VertexError> {
        let key = key(name);
        let hash = key.hash(&self.hasher);
        let number = hash as u32 % SHARDS;
        let mut shard = self.write(number);
        if let Some(index) = shard.find(hash, &key) {
            shard.hold(index);
            return shard.only_node(index).ok_or(VertexError::Full);
        }
        let mut numbers = self.numbers();
        let id = NodeId(numbers.next);
        let next = numbers.next.checked_add(1).ok_or(VertexError::Full)?;
        let index = shard.insert(hash, &key)?;
        shard.hold(index);
        shard.add(index, id);
        numbers.next = next;
        numbers.places.insert(id, VertexId::new(number, index));
        Ok(id)
    }

    /// One holder less; the node goes with its last.
    pub(super) fn release(&self, id: NodeId) {
        let Some(place) = self.place(id) else { return };
        let mut shard = self.write(place.shard());
        shard.unhold(place.index());
        if shard.remove_if_unheld(place.index(), &self.hasher) {
            drop(shard);
            self.numbers().places.remove(&id);
        }
    }

    fn place(&self, id: NodeId) -> Option<VertexId> {
        self.numbers().places.get(&id).copied()
    }

    /// The name of a node.
    pub(super) fn name(&self, id: NodeId) -> Option<String> {
        let place = self.place(id)?;
        let shard = self.shard(place.shard()).read().unwrap_or_else(PoisonError::into_inner);
        shard.key(place.index()).map(|(_, _, name)| name)
    }

    /// How many nodes something is bound to.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.read().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}
