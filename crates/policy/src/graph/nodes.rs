//! Node names as numbers.
//!
//! INVARIANT: a number is never given twice. A decision looks up the node first and the object second; were numbers
//! used again, a node that comes between the two could be taken for one that has just gone (NA-107).

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::{DefaultHashBuilder, HashMap};

use super::key::{Key, PackedKey};
use super::shard::{Keeper, Shard, keeper_of};
use super::{VertexError, VertexId, VertexKind};

/// A node, within one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u32);

const SHARDS: usize = 16;

/// The nodes that something is bound to (NA-27, NA-42). A vertex table of their own: each reaches itself, by its
/// number.
#[derive(Debug)]
pub(super) struct Nodes {
    hasher: DefaultHashBuilder,
    shards: Box<[Shard]>,
    numbers: Mutex<Numbers>,
}

/// Only the writer and explanations come here.
#[derive(Debug, Default)]
struct Numbers {
    next: u32,
    places: HashMap<NodeId, VertexId>,
    keepers: [Keeper; SHARDS],
}

impl Numbers {
    fn keeper(&mut self, number: u32) -> &mut Keeper {
        keeper_of(&mut self.keepers, number)
    }
}

/// Nothing else is in the table, so the kind tells nothing apart.
fn key(name: &str) -> Result<PackedKey, VertexError> {
    Key { kind: VertexKind::Pod, namespace: "", name }.pack()
}

impl Nodes {
    pub(super) fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: std::iter::repeat_with(Shard::default).take(SHARDS).collect(),
            numbers: Mutex::default(),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "there are as many shards as there are remainders")]
    fn shard(&self, number: u32) -> &Shard {
        &self.shards[number as usize % SHARDS]
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node of this name, if something is bound to it.
    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        let key = key(name).ok()?;
        let hash = key.hash(&self.hasher);
        self.shard(hash as u32).only_node_of(hash, &key)
    }

    /// The node of this name, made when need be, with one holder more.
    ///
    /// # Errors
    /// The name is too long, or the numbers are used up. Nothing has changed then.
    pub(super) fn hold(&self, name: &str) -> Result<NodeId, VertexError> {
        let key = key(name)?;
        let hash = key.hash(&self.hasher);
        let number = hash as u32 % SHARDS as u32;
        let mut numbers = self.numbers();
        let id = NodeId(numbers.next);
        let next = numbers.next.checked_add(1).ok_or(VertexError::Full)?;
        let mut shard = self.shard(number).change(numbers.keeper(number));
        if let Some(index) = shard.find(hash, &key) {
            shard.hold(index);
            return shard.only_node(index).ok_or(VertexError::Full);
        }
        let index = shard.insert(hash, &key)?;
        shard.hold(index);
        shard.add(index, id, &self.hasher);
        drop(shard);
        numbers.next = next;
        numbers.places.insert(id, VertexId::new(number, index));
        Ok(id)
    }

    /// One holder less; the node goes with its last.
    pub(super) fn release(&self, id: NodeId) {
        let mut numbers = self.numbers();
        let Some(place) = numbers.places.get(&id).copied() else { return };
        let mut shard = self.shard(place.shard()).change(numbers.keeper(place.shard()));
        shard.unhold(place.index());
        let is_gone = shard.remove_if_unheld(place.index(), &self.hasher);
        drop(shard);
        if is_gone {
            numbers.places.remove(&id);
        }
    }

    /// The name of a node.
    pub(super) fn name(&self, id: NodeId) -> Option<String> {
        // Held while reading: nothing changes without it.
        let numbers = self.numbers();
        let place = numbers.places.get(&id)?;
        self.shard(place.shard()).key(place.index()).map(|(_, _, name)| name)
    }

    /// How many nodes something is bound to.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }
}
