//! One part of the vertex table: for each key, which nodes reach it. Readers take no lock; one writer at a time.
//!
//! A decision over a large cluster waits for memory and for nothing else, so a probe touches two places: a slot of the
//! table, which holds the hash, and the vertex itself, where the key and the node lie side by side. A slot also holds a
//! few bits of the node, so that most of those who may not are turned away there. Vertices are records of a few words
//! in one array; a record's place never changes while it lives, so it serves as the vertex's number, and the place of a
//! removed record goes to the next one of the same size.
//!
//! Everything is atomic and every change stands between two steps of a [`Sequence`]. A reader that meets a change reads
//! again; until then it may have read anything, so it believes no length and no place that it reads.

use std::ops::Deref;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use hashbrown::{DefaultHashBuilder, HashMap};

use super::VertexKind;
use super::grown::Grown;
use super::key::{PackedKey, stored_kind, stored_length};
use super::node_set::{Beside, NodeSet};
use super::nodes::NodeId;
use super::sequence::{Changing, Sequence};

/// A vertex that the table cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VertexError {
    /// More vertices, nodes or name bytes than the table can count.
    #[error("the index is full")]
    Full,
    /// A namespace over 255 bytes, or namespace and name together over 320.
    #[error("the name or the namespace is too long to be one of Kubernetes")]
    NameTooLong,
}

/// No links; see [`Shard::links`].
pub(super) const NO_LINKS: u32 = u32::MAX;

// The words of a record. What decisions read comes last and together, so that it seldom lies on two cache lines.
const HOLDERS: u32 = 0;
const LINKS: u32 = 1;
const NODE: u32 = 2;
const COUNT: u32 = 3;
const KEY: u32 = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shard {
    sequence: Sequence,
    /// See [`Slot`]; zero for an empty one. Linear probing.
    slots: Grown<AtomicU64>,
    /// How many slots are in use as the table.
    length: AtomicUsize,
    live: AtomicUsize,
    words: Grown<AtomicU32>,
    /// The nodes of vertices that several reach. The one lock that readers take, for a look.
    beside: RwLock<Beside>,
}

/// What the writer alone needs of a shard.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    /// The first word that no record has had.
    next: u32,
    /// The places of removed records, by size in words.
    free: HashMap<u32, Vec<u32>>,
}

/// A slot of the table: the upper half of a key's hash, who reaches the vertex, and one more than its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot(u64);

impl Slot {
    const EMPTY: Self = Self(0);
    /// Nobody reaches the vertex.
    const NOBODY: u8 = 254;
    /// Several nodes reach the vertex.
    const SEVERAL: u8 = 255;

    fn new(mark: u64, index: u32) -> Self {
        Self(mark << 32 | u64::from(Self::NOBODY) << 24 | u64::from(index + 1))
    }

    fn mark(self) -> u64 {
        self.0 >> 32
    }

    fn index(self) -> u32 {
        (self.0 as u32 & 0x00ff_ffff).wrapping_sub(1)
    }

    /// Some bits of the one node that reaches the vertex.
    fn tag_of(node: NodeId) -> u8 {
        (node.0 % u32::from(Self::NOBODY)) as u8
    }

    fn may_reach(self, tag: u8) -> bool {
        let reach = (self.0 >> 24) as u8;
        reach == tag || reach == Self::SEVERAL
    }

    fn reached_by(self, nodes: NodeSet) -> Self {
        let reach = match nodes.only() {
            Some(node) => Self::tag_of(node),
            None if nodes == NodeSet::EMPTY => Self::NOBODY,
            None => Self::SEVERAL,
        };
        Self(self.0 & !(0xff << 24) | u64::from(reach) << 24)
    }
}

impl Shard {
    /// Whether a node reaches the vertex of this key. The whole of a decision.
    pub(super) fn reaches(&self, hash: u64, key: &PackedKey, node: NodeId) -> bool {
        let tag = Slot::tag_of(node);
        self.sequence.read(|| {
            self.probe(hash, |slot| slot.may_reach(tag) && self.has_key(slot.index(), key))
                .is_some_and(|(_, slot)| self.contains(slot.index(), node))
        })
    }

    /// The one node that reaches the vertex of this key, if there is just one. For readers.
    pub(super) fn only_node_of(&self, hash: u64, key: &PackedKey) -> Option<NodeId> {
        self.sequence.read(|| self.find(hash, key).and_then(|index| self.only_node(index)))
    }

    /// Reads where a vertex of this hash would lie, and tells nothing. Reading it again soon costs no waiting.
    pub(super) fn ahead_of(&self, hash: u64) -> u32 {
        let mark = mark_of(hash);
        let slot = self.slot(self.home(mark, self.length()));
        if slot.mark() == mark { self.word(slot.index(), KEY) } else { 0 }
    }

    // What follows is for the writer, whom nobody disturbs.

    /// The number of a vertex.
    pub(super) fn find(&self, hash: u64, key: &PackedKey) -> Option<u32> {
        self.probe(hash, |slot| self.has_key(slot.index(), key)).map(|(_, slot)| slot.index())
    }

    pub(super) fn contains(&self, index: u32, node: NodeId) -> bool {
        self.node_set(index).contains(node, &self.beside)
    }

    /// The hash of a vertex's key.
    pub(super) fn key_hash(&self, index: u32, hasher: &DefaultHashBuilder) -> u64 {
        PackedKey::load(self.record_from(index, KEY)).hash(hasher)
    }

    /// The nodes that reach a vertex.
    pub(super) fn nodes(&self, index: u32) -> Vec<NodeId> {
        self.node_set(index).nodes(&self.beside)
    }

    /// The node of a vertex that just one reaches.
    pub(super) fn only_node(&self, index: u32) -> Option<NodeId> {
        self.node_set(index).only()
    }

    /// What the writer noted at a vertex, or [`NO_LINKS`].
    pub(super) fn links(&self, index: u32) -> u32 {
        self.word(index, LINKS)
    }

    /// Kind, namespace and name of a vertex.
    pub(super) fn key(&self, index: u32) -> Option<(VertexKind, String, String)> {
        PackedKey::load(self.record_from(index, KEY)).parts()
    }

    /// The numbers of all vertices of a kind.
    pub(super) fn of_kind(&self, kind: VertexKind) -> impl Iterator<Item = u32> + '_ {
        (0..self.length())
            .map(|at| self.slot(at))
            .filter(|slot| *slot != Slot::EMPTY)
            .map(Slot::index)
            .filter(move |index| stored_kind(self.word(*index, KEY)) == kind as u8)
    }

    /// How many vertices there are.
    pub(super) fn len(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Begins a change. The writer's lock is held, which the keeper lies under.
    pub(super) fn change<'a>(&'a self, keeper: &'a mut Keeper) -> ShardChange<'a> {
        ShardChange { changing: self.sequence.change(), shard: self, keeper }
    }

    // The table.

    /// The first slot with this hash that is wanted, and where it is.
    fn probe(&self, hash: u64, mut wanted: impl FnMut(Slot) -> bool) -> Option<(usize, Slot)> {
        let (mark, length) = (mark_of(hash), self.length());
        let mut at = self.home(mark, length);
        // Once round at most: a reader may see a table without an empty slot.
        for _ in 0..length {
            let slot = self.slot(at);
            if slot == Slot::EMPTY {
                return None;
            }
            if slot.mark() == mark && wanted(slot) {
                return Some((at, slot));
            }
            at = next(at, length);
        }
        None
    }

    fn length(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    fn slot(&self, at: usize) -> Slot {
        self.slots.get(at).map_or(Slot::EMPTY, |slot| Slot(slot.load(Ordering::Relaxed)))
    }

    /// Where a hash belongs. The upper half of the hash, spread over any number of slots.
    fn home(&self, mark: u64, length: usize) -> usize {
        ((mark * length as u64) >> 32) as usize
    }

    // The records.

    /// The words of a record from one on, and what follows.
    fn record_from(&self, index: u32, word: u32) -> &[AtomicU32] {
        self.words.run(index as usize + word as usize).unwrap_or_default()
    }

    fn word(&self, index: u32, word: u32) -> u32 {
        self.words.get(index as usize + word as usize).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    fn node_set(&self, index: u32) -> NodeSet {
        NodeSet::from_words(self.word(index, NODE), self.word(index, COUNT))
    }

    fn has_key(&self, index: u32, key: &PackedKey) -> bool {
        key.is(self.record_from(index, KEY))
    }
}

/// A change of a shard under way.
#[derive(Debug)]
pub(super) struct ShardChange<'a> {
    #[expect(dead_code, reason = "held until the change is done")]
    changing: Changing<'a>,
    shard: &'a Shard,
    keeper: &'a mut Keeper,
}

impl Deref for ShardChange<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        self.shard
    }
}

impl ShardChange<'_> {
    /// Makes a vertex. The caller has found that there is none of this key.
    pub(super) fn insert(&mut self, hash: u64, key: &PackedKey) -> Result<u32, VertexError> {
        let size = KEY + key.words().len() as u32;
        self.make_room()?;
        let index = match self.keeper.free.get_mut(&size).and_then(Vec::pop) {
            Some(index) => index,
            None => self.append(size)?,
        };
        self.set_node_set(index, NodeSet::EMPTY);
        self.set_word(index, HOLDERS, 0);
        self.set_word(index, LINKS, NO_LINKS);
        for (stored, word) in self.record_from(index, KEY).iter().zip(key.words()) {
            stored.store(word, Ordering::Relaxed);
        }
        self.place(Slot::new(mark_of(hash), index));
        self.live.store(self.len() + 1, Ordering::Relaxed);
        Ok(index)
    }

    /// Removes a vertex; its place will be used again.
    pub(super) fn remove(&mut self, index: u32, hasher: &DefaultHashBuilder) {
        self.remove_hashed(index, self.key_hash(index, hasher));
    }

    fn remove_hashed(&mut self, index: u32, hash: u64) {
        let Some((at, _)) = self.probe(hash, |slot| slot.index() == index) else { return };
        let mut nodes = self.node_set(index);
        nodes.clear(&self.beside);
        self.set_node_set(index, nodes);
        let size = KEY + stored_length(self.word(index, KEY)) as u32;
        self.keeper.free.entry(size).or_default().push(index);
        self.live.store(self.len() - 1, Ordering::Relaxed);
        self.close(at);
    }

    /// One reference more from a node; true when it is the node's first.
    pub(super) fn add(&mut self, index: u32, node: NodeId, hasher: &DefaultHashBuilder) -> bool {
        self.change_nodes(index, hasher, |nodes, beside| nodes.add(node, beside))
    }

    /// One reference less from a node; true when it was the node's last.
    pub(super) fn take(&mut self, index: u32, node: NodeId, hasher: &DefaultHashBuilder) -> bool {
        self.change_nodes(index, hasher, |nodes, beside| nodes.take(node, beside))
    }

    fn change_nodes(
        &mut self,
        index: u32,
        hasher: &DefaultHashBuilder,
        change: impl FnOnce(&mut NodeSet, &RwLock<Beside>) -> bool,
    ) -> bool {
        let before = self.node_set(index);
        let mut nodes = before;
        let changed = change(&mut nodes, &self.beside);
        self.set_node_set(index, nodes);
        if nodes.only() != before.only() || nodes == NodeSet::EMPTY {
            let slot = self.probe(self.key_hash(index, hasher), |slot| slot.index() == index);
            if let Some((at, slot)) = slot {
                self.set_slot(at, slot.reached_by(nodes));
            }
        }
        changed
    }

    /// One holder more: an object that refers to the vertex, or the vertex's own object.
    pub(super) fn hold(&mut self, index: u32) {
        self.set_word(index, HOLDERS, self.word(index, HOLDERS).saturating_add(1));
    }

    /// One holder less. The vertex stays until [`ShardChange::remove_if_unheld`].
    pub(super) fn unhold(&mut self, index: u32) {
        self.set_word(index, HOLDERS, self.word(index, HOLDERS).saturating_sub(1));
    }

    /// Removes a vertex that nothing holds, and says whether it did.
    pub(super) fn remove_if_unheld(&mut self, index: u32, hasher: &DefaultHashBuilder) -> bool {
        let is_unheld = self.word(index, HOLDERS) == 0;
        if is_unheld {
            self.remove(index, hasher);
        }
        is_unheld
    }

    /// Notes something for the writer.
    pub(super) fn set_links(&mut self, index: u32, links: u32) {
        self.set_word(index, LINKS, links);
    }

    // The table.

    fn set_slot(&self, at: usize, slot: Slot) {
        if let Some(there) = self.slots.get(at) {
            there.store(slot.0, Ordering::Relaxed);
        }
    }

    /// Puts a slot where it belongs. There is room.
    fn place(&self, slot: Slot) {
        let length = self.length();
        let mut at = self.home(slot.mark(), length);
        while self.slot(at) != Slot::EMPTY {
            at = next(at, length);
        }
        self.set_slot(at, slot);
    }

    /// Empties a slot, and moves later ones up so that none is cut off from where it belongs.
    fn close(&self, mut hole: usize) {
        let length = self.length();
        let mut at = hole;
        loop {
            at = next(at, length);
            let slot = self.slot(at);
            if slot == Slot::EMPTY {
                break;
            }
            let home = self.home(slot.mark(), length);
            // Between the hole and here, going round: then it must not move before its home.
            let stays = if hole <= at { hole < home && home <= at } else { hole < home || home <= at };
            if !stays {
                self.set_slot(hole, slot);
                hole = at;
            }
        }
        self.set_slot(hole, Slot::EMPTY);
    }

    /// Lengthens the table by a chunk when it would be more than five sixths full, and spreads the slots over it. Doubling
    /// would leave half of it empty, in all shards at the same time.
    fn make_room(&self) -> Result<(), VertexError> {
        let length = self.length();
        if (self.len() + 1) * 6 <= length * 5 {
            return Ok(());
        }
        let longer = length + Grown::<AtomicU64>::room(length);
        if longer > Grown::<AtomicU64>::END {
            return Err(VertexError::Full);
        }
        self.slots.make(length);
        let taken: Vec<Slot> =
            (0..length).map(|at| self.slot(at)).filter(|slot| *slot != Slot::EMPTY).collect();
        (0..length).for_each(|at| self.set_slot(at, Slot::EMPTY));
        self.length.store(longer, Ordering::Relaxed);
        taken.into_iter().for_each(|slot| self.place(slot));
        Ok(())
    }

    // The records.

    fn append(&mut self, size: u32) -> Result<u32, VertexError> {
        let mut index = self.keeper.next;
        // A record lies in one chunk. The first chunks are longer than any record, so the next one will do.
        let room = Grown::<AtomicU32>::room(index as usize) as u32;
        if room < size {
            index += room;
        }
        if index as usize + size as usize > Grown::<AtomicU32>::END {
            return Err(VertexError::Full);
        }
        self.words.make(index as usize);
        self.keeper.next = index + size;
        Ok(index)
    }

    fn set_word(&self, index: u32, word: u32, value: u32) {
        if let Some(there) = self.words.get(index as usize + word as usize) {
            there.store(value, Ordering::Relaxed);
        }
    }

    fn set_node_set(&self, index: u32, nodes: NodeSet) {
        let (node, count) = nodes.words();
        self.set_word(index, NODE, node);
        self.set_word(index, COUNT, count);
    }
}

/// The keeper of a shard.
#[expect(clippy::indexing_slicing, reason = "a remainder of the length is within the array")]
pub(super) fn keeper_of<const SHARDS: usize>(keepers: &mut [Keeper; SHARDS], shard: u32) -> &mut Keeper {
    &mut keepers[shard as usize % SHARDS]
}

fn next(at: usize, length: usize) -> usize {
    if at + 1 >= length { 0 } else { at + 1 }
}

/// The part of a hash that is kept. The shard is chosen by the lower half.
fn mark_of(hash: u64) -> u64 {
    hash >> 32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::key::Key;
    use super::*;

    const KIND: VertexKind = VertexKind::Secret;

    proptest! {
        #[test]
        fn the_table_equals_a_plain_map(
            steps in prop::collection::vec((any::<bool>(), "[ab]{0,1}", "[a-c]{0,4}"), 0..1500),
            narrow in any::<bool>(),
        ) {
            let hasher = DefaultHashBuilder::default();
            // Narrow: all marks fall on three values, so that probing, closing and wrapping round are put to the test.
            let hash = |key: &PackedKey| {
                let hash = key.hash(&hasher);
                if narrow { ((hash % 3) * 0x7fff_ffff) << 32 } else { hash }
            };
            let (shard, mut keeper) = (Shard::default(), Keeper::default());
            let mut model: BTreeMap<(String, String), u32> = BTreeMap::new();
            for (insert, namespace, name) in steps {
                let key = Key { kind: KIND, namespace: &namespace, name: &name }.pack().unwrap();
                let found = shard.find(hash(&key), &key);
                prop_assert_eq!(found, model.get(&(namespace.clone(), name.clone())).copied());
                match found {
                    None if insert => {
                        let index = shard.change(&mut keeper).insert(hash(&key), &key).unwrap();
                        prop_assert!(!model.values().any(|other| *other == index));
                        model.insert((namespace, name), index);
                    }
                    Some(index) if !insert => {
                        shard.change(&mut keeper).remove_hashed(index, hash(&key));
                        model.remove(&(namespace, name));
                    }
                    _ => {}
                }
                prop_assert_eq!(shard.len(), model.len());
            }
            for ((namespace, name), index) in &model {
                let key = Key { kind: KIND, namespace, name }.pack().unwrap();
                prop_assert_eq!(shard.find(hash(&key), &key), Some(*index));
                prop_assert_eq!(shard.key(*index), Some((KIND, namespace.clone(), name.clone())));
            }
            prop_assert_eq!(shard.of_kind(KIND).count(), model.len());
            prop_assert_eq!(shard.of_kind(VertexKind::Pod).count(), 0);
        }
    }
}
