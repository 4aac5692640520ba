//! Node names as numbers.
//!
//! INVARIANT: a number is never reused. A decision looks up the node first and the object second. If numbers were
//! reused, a node added between the two could be mistaken for one that was just removed (NA-107).

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use hashbrown::{DefaultHashBuilder, HashMap};

use super::shard::Shard;
use super::vertex::{Key, NodeId, Tag, VertexError, VertexId, VertexKind};

/// The name of the requesting node, hashed once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'n> {
    key: Key<'n>,
    hash: u64,
}

impl Asker<'_> {
    pub(super) fn tag(self) -> Tag {
        Tag::of(self.hash)
    }
}

const SHARDS: u32 = 16;

/// The nodes with bound objects (NA-27, NA-42), in a vertex table of their own: each node is a vertex that only it
/// reaches.
#[derive(Debug)]
pub(super) struct Nodes {
    hasher: DefaultHashBuilder,
    shards: [RwLock<Shard>; SHARDS as usize],
    numbers: Mutex<Numbers>,
}

/// Used by the writer and by explanations only.
#[derive(Debug)]
struct Numbers {
    /// The next number by tag. Numbers are never reused, so that a stale number never identifies another node.
    next: [u32; 256],
    places: HashMap<NodeId, VertexId>,
}

/// The table contains only nodes, so the kind is irrelevant.
fn key(name: &str) -> Key<'_> {
    Key { kind: VertexKind::Pod, namespace: "", name }
}

impl Nodes {
    pub(super) fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: std::array::from_fn(|_| RwLock::new(Shard::default())),
            numbers: Mutex::new(Numbers { next: [0; 256], places: HashMap::new() }),
        }
    }

    fn shard(&self, number: u32) -> &RwLock<Shard> {
        // The remainder is always in bounds, so the fallback to the first shard is never used.
        let [first, ..] = &self.shards;
        self.shards.get((number % SHARDS) as usize).unwrap_or(first)
    }

    fn write(&self, number: u32) -> RwLockWriteGuard<'_, Shard> {
        self.shard(number).write().unwrap_or_else(PoisonError::into_inner)
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hashes the name of the requesting node.
    pub(super) fn asker<'n>(&self, name: &'n str) -> Asker<'n> {
        let key = key(name);
        Asker { key, hash: key.hash(&self.hasher) }
    }

    /// Returns the ID of the requesting node, if objects are bound to it.
    pub(super) fn find(&self, asker: Asker<'_>) -> Option<NodeId> {
        let Asker { key, hash } = asker;
        let shard = self.shard(hash as u32).read().unwrap_or_else(PoisonError::into_inner);
        shard.find(hash, &key).and_then(|index| shard.only_node(index))
    }

    /// Returns the node of this name, creating it if needed, and adds one holder.
    ///
    /// # Errors
    /// The name is too long, or the numbers are used up. Then nothing has changed.
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
        let tag = Tag::of(hash);
        let next = numbers.next.get_mut(usize::from(tag.0)).ok_or(VertexError::Full)?;
        if *next >> NodeId::NUMBER_BITS != 0 {
            return Err(VertexError::Full);
        }
        let id = NodeId(u32::from(tag.0) << NodeId::NUMBER_BITS | *next);
        let index = shard.insert(hash, &key, Some(id))?;
        shard.hold(index);
        shard.add(index, id, &self.hasher);
        *next += 1;
        numbers.places.insert(id, VertexId::new(number, index));
        Ok(id)
    }

    /// Removes one holder. The node is removed with its last.
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

    /// The names of all nodes with bound objects, in no particular order.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            // [`key`] gives every node this kind.
            let nodes = shard.of_kind(VertexKind::Pod).filter_map(|index| shard.key(index));
            names.extend(nodes.map(|(_, _, name)| name));
        }
        names
    }

    /// The number of nodes with bound objects.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.read().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }
}
