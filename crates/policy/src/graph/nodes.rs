//! Node names as numbers.
//!
//! INVARIANT: a number is never given twice. A decision looks up the node first and the object second; were numbers
//! used again, a node that comes between the two could be taken for one that has just gone (NA-107).

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use hashbrown::{DefaultHashBuilder, HashMap};

use super::shard::{Key, Shard};
use super::{VertexError, VertexId, VertexKind};

/// A node, within one graph: its tag in the upper eight bits, and below a number that no other of the tag has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u32);

impl NodeId {
    const NUMBER_BITS: u32 = 24;

    pub(super) fn tag(self) -> Tag {
        Tag((self.0 >> Self::NUMBER_BITS) as u8)
    }
}

/// A few bits of the hash of a node's name: they tell most nodes from each other before either is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(pub(super) u8);

impl Tag {
    /// No node's tag: whatever it stands for has to be looked at.
    pub(super) const ANY: Self = Self(0);

    fn of(hash: u64) -> Self {
        // Neither the part that finds the slot nor the bits that choose the shard.
        Self(((hash >> NodeId::NUMBER_BITS) as u8).max(1))
    }
}

/// The name of a node that asks, read once.
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

/// The nodes that something is bound to (NA-27, NA-42). A vertex table of their own: each reaches itself, by its
/// number.
#[derive(Debug)]
pub(super) struct Nodes {
    hasher: DefaultHashBuilder,
    shards: [RwLock<Shard>; SHARDS as usize],
    numbers: Mutex<Numbers>,
}

/// Only the writer and explanations come here.
#[derive(Debug)]
struct Numbers {
    /// By tag. A number is never used again: who still holds it must not find another node under it.
    next: [u32; 256],
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
            numbers: Mutex::new(Numbers { next: [0; 256], places: HashMap::new() }),
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

    /// Reads the name of a node that asks.
    pub(super) fn asker<'n>(&self, name: &'n str) -> Asker<'n> {
        let key = key(name);
        Asker { key, hash: key.hash(&self.hasher) }
    }

    /// The node that asks, if something is bound to it.
    pub(super) fn find(&self, asker: Asker<'_>) -> Option<NodeId> {
        let Asker { key, hash } = asker;
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
