//! One shard of the vertex table, which maps each key to the nodes that reach it. Plain data without locks.
//!
//! The cost of a decision over a large cluster is memory latency, so a probe touches two places: a slot of the table,
//! which contains the hash, and the vertex itself, which contains the key and the node next to each other. The slot
//! also contains a tag of the only node that reaches the vertex, so that nearly every denial is decided without reading
//! the vertex. Vertices are records of a few dozen bytes in one buffer. A record never moves, so its position serves as
//! the vertex's number, and the space of a removed record is reused by the next one of the same size.

use hashbrown::DefaultHashBuilder;

use super::node_set::{Beside, NodeSet};
use super::vertex::{Key, NO_LINKS, NodeId, Tag, VertexError, VertexId, VertexKind, hash_parts};

// The byte offsets of the fields of a record: first those of the writer, then those that a decision reads. The key is
// the namespace followed by the name.
const HOLDERS: usize = 0;
const LINKS: usize = 4;
const NAME_LENGTH: usize = 8; // Then one byte for the length of the namespace, and one for the kind.
const KIND: usize = 11;
const NODE: usize = 12;
const COUNT: usize = 16;
const KEY: usize = 20;

/// The alignment of records in bytes. A vertex's number counts in this unit.
const UNIT: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// The hash table, with linear probing. A slot is zero if empty, else the upper half of the hash, the tag of the
    /// vertex's nodes ([`NodeSet::tag`]) in eight bits, and the vertex's number plus one.
    slots: Vec<u64>,
    live: usize,
    records: Vec<u8>,
    /// The positions of removed records, by size in units.
    free: Vec<Vec<u32>>,
    beside: Beside,
}

impl Shard {
    /// Finds the number of a vertex.
    pub(super) fn find(&self, hash: u64, key: &Key<'_>) -> Option<u32> {
        let mark = mark_of(hash);
        let mut at = self.home(mark);
        loop {
            let slot = *self.slots.get(at)?;
            if slot == 0 {
                return None;
            }
            if slot >> 32 == mark {
                let index = index_of(slot);
                if self.has_key(index, key) {
                    return Some(index);
                }
            }
            at = self.after(at);
        }
    }

    /// Returns whether a node reaches the vertex of this key. This is the whole decision. The node is looked up only if
    /// its tag does not rule it out.
    pub(super) fn reaches(
        &self,
        hash: u64,
        key: &Key<'_>,
        tag: Tag,
        node: impl FnOnce() -> Option<NodeId>,
    ) -> bool {
        let mark = mark_of(hash);
        let mut at = self.home(mark);
        while let Some(&slot) = self.slots.get(at)
            && slot != 0
        {
            let may_have = tag_of(slot) == Tag::ANY || tag_of(slot) == tag;
            if slot >> 32 == mark && may_have && self.has_key(index_of(slot), key) {
                return node().is_some_and(|node| self.contains(index_of(slot), node));
            }
            at = self.after(at);
        }
        false
    }

    pub(super) fn contains(&self, index: u32, node: NodeId) -> bool {
        self.node_set(index).contains(node, &self.beside)
    }

    /// Creates a vertex that no node reaches. The caller has checked that the key is absent, and passes the node, if
    /// any, that will be added first; this saves finding the slot again.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: &Key<'_>,
        first: Option<NodeId>,
    ) -> Result<u32, VertexError> {
        let namespace_length = u8::try_from(key.namespace.len()).map_err(|_| VertexError::NameTooLong)?;
        let name_length =
            u16::try_from(key.namespace.len() + key.name.len()).map_err(|_| VertexError::NameTooLong)?;
        let size = (KEY + usize::from(name_length)).div_ceil(UNIT);
        self.make_room();
        let index = match self.free.get_mut(size).and_then(Vec::pop) {
            Some(index) => index,
            None => self.append(size)?,
        };
        let [low, high] = name_length.to_le_bytes();
        self.set_word(index, HOLDERS, 0);
        self.set_word(index, LINKS, NO_LINKS);
        self.set_word(index, NAME_LENGTH, u32::from_le_bytes([low, high, namespace_length, key.kind as u8]));
        let nodes = NodeSet::expecting(first);
        self.set_node_set(index, nodes);
        let bytes = self.record_mut(index).get_mut(KEY..KEY + usize::from(name_length)).unwrap_or_default();
        if let Some((namespace, name)) = bytes.split_at_mut_checked(key.namespace.len()) {
            namespace.copy_from_slice(key.namespace.as_bytes());
            name.copy_from_slice(key.name.as_bytes());
        }
        self.place(slot_of(mark_of(hash), nodes.tag(), index));
        self.live += 1;
        Ok(index)
    }

    /// Removes a vertex. Its space is reused.
    pub(super) fn remove(&mut self, index: u32, hasher: &DefaultHashBuilder) {
        self.remove_marked(index, mark_of(self.key_hash(index, hasher)));
    }

    /// The hash of a vertex's key.
    pub(super) fn key_hash(&self, index: u32, hasher: &DefaultHashBuilder) -> u64 {
        let (kind, namespace, name) = self.key_parts(index);
        hash_parts(hasher, kind, namespace, name)
    }

    /// Reads the slot of a hash, for prefetching only.
    pub(super) fn ahead(&self, hash: u64) -> u64 {
        self.slots.get(self.home(mark_of(hash))).copied().unwrap_or(0)
    }

    fn remove_marked(&mut self, index: u32, mark: u64) {
        let Some(hole) = self.place_of(index, mark) else { return };
        let mut nodes = self.node_set(index);
        nodes.clear(&mut self.beside);
        self.set_node_set(index, nodes);
        let size = (KEY + self.name_length(index)).div_ceil(UNIT);
        if self.free.len() <= size {
            self.free.resize_with(size + 1, Vec::new);
        }
        if let Some(places) = self.free.get_mut(size) {
            places.push(index);
        }
        self.live -= 1;
        self.close(hole);
    }

    /// Adds one reference from a node; true if it is the node's first.
    pub(super) fn add(&mut self, index: u32, node: NodeId, hasher: &DefaultHashBuilder) -> bool {
        self.change_nodes(index, hasher, |nodes, beside| nodes.add(node, beside))
    }

    /// Removes one reference from a node; true if it was the node's last.
    pub(super) fn take(&mut self, index: u32, node: NodeId, hasher: &DefaultHashBuilder) -> bool {
        self.change_nodes(index, hasher, |nodes, beside| nodes.take(node, beside))
    }

    /// Changes the nodes of a vertex, and the tag in its slot with them.
    fn change_nodes(
        &mut self,
        index: u32,
        hasher: &DefaultHashBuilder,
        change: impl FnOnce(&mut NodeSet, &mut Beside) -> bool,
    ) -> bool {
        let mut nodes = self.node_set(index);
        let tag = nodes.tag();
        let answer = change(&mut nodes, &mut self.beside);
        self.set_node_set(index, nodes);
        if nodes.tag() != tag {
            let mark = mark_of(self.key_hash(index, hasher));
            if let Some(slot) = self.place_of(index, mark).and_then(|at| self.slots.get_mut(at)) {
                *slot = slot_of(mark, nodes.tag(), index);
            }
        }
        answer
    }

    /// The nodes that reach a vertex.
    pub(super) fn nodes(&self, index: u32) -> Vec<NodeId> {
        self.node_set(index).nodes(&self.beside)
    }

    /// The node of a vertex that exactly one reaches.
    pub(super) fn only_node(&self, index: u32) -> Option<NodeId> {
        self.node_set(index).only()
    }

    /// Adds a holder: an object that refers to the vertex, or the vertex's own object.
    pub(super) fn hold(&mut self, index: u32) {
        self.set_word(index, HOLDERS, self.word(index, HOLDERS).saturating_add(1));
    }

    /// Removes a holder. The vertex remains until [`Shard::remove_if_unheld`].
    pub(super) fn unhold(&mut self, index: u32) {
        self.set_word(index, HOLDERS, self.word(index, HOLDERS).saturating_sub(1));
    }

    /// Removes a vertex without holders, and returns whether it did.
    pub(super) fn remove_if_unheld(&mut self, index: u32, hasher: &DefaultHashBuilder) -> bool {
        let is_unheld = self.word(index, HOLDERS) == 0;
        if is_unheld {
            self.remove(index, hasher);
        }
        is_unheld
    }

    /// The writer's links of a vertex, or [`NO_LINKS`].
    pub(super) fn links(&self, index: u32) -> u32 {
        self.word(index, LINKS)
    }

    /// Sets the writer's links of a vertex.
    pub(super) fn set_links(&mut self, index: u32, links: u32) {
        self.set_word(index, LINKS, links);
    }

    /// Kind, namespace and name of a vertex.
    pub(super) fn key(&self, index: u32) -> Option<(VertexKind, String, String)> {
        let (kind, namespace, name) = self.key_parts(index);
        let kind = VertexKind::ALL.into_iter().find(|known| *known as u8 == kind)?;
        let text = |bytes: &[u8]| str::from_utf8(bytes).map(str::to_owned).ok();
        Some((kind, text(namespace)?, text(name)?))
    }

    /// The numbers of all vertices of a kind.
    pub(super) fn of_kind(&self, kind: VertexKind) -> impl Iterator<Item = u32> + '_ {
        self.slots
            .iter()
            .filter(|slot| **slot != 0)
            .map(|slot| index_of(*slot))
            .filter(move |index| self.byte(*index, KIND) == Some(kind as u8))
    }

    /// The number of vertices.
    pub(super) fn len(&self) -> usize {
        self.live
    }

    // The table.

    /// The home slot of a hash: its upper half, scaled to any number of slots.
    fn home(&self, mark: u64) -> usize {
        ((mark * self.slots.len() as u64) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 >= self.slots.len() { 0 } else { at + 1 }
    }

    /// Returns the position of a vertex's slot.
    fn place_of(&self, index: u32, mark: u64) -> Option<usize> {
        let mut at = self.home(mark);
        loop {
            let slot = *self.slots.get(at)?;
            if slot == 0 {
                return None;
            }
            if slot >> 32 == mark && index_of(slot) == index {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    /// Inserts a slot. The table must have room.
    fn place(&mut self, slot: u64) {
        let mut at = self.home(slot >> 32);
        while self.slots.get(at).is_some_and(|taken| *taken != 0) {
            at = self.after(at);
        }
        if let Some(free) = self.slots.get_mut(at) {
            *free = slot;
        }
    }

    /// Empties a slot, and moves later ones up so that probing still finds all of them.
    fn close(&mut self, mut hole: usize) {
        let mut at = hole;
        loop {
            at = self.after(at);
            let slot = self.slots.get(at).copied().unwrap_or(0);
            if slot == 0 {
                break;
            }
            let home = self.home(slot >> 32);
            // If its home is between the hole and here (cyclically), it must not move.
            let stays = if hole <= at { hole < home && home <= at } else { hole < home || home <= at };
            if !stays {
                if let Some(free) = self.slots.get_mut(hole) {
                    *free = slot;
                }
                hole = at;
            }
        }
        if let Some(freed) = self.slots.get_mut(hole) {
            *freed = 0;
        }
    }

    /// Grows the table by a quarter if it would be more than five sixths full. Doubling would leave half of it empty,
    /// in all shards at the same time.
    fn make_room(&mut self) {
        if (self.live + 1) * 6 <= self.slots.len() * 5 {
            return;
        }
        let larger = vec![0; (self.slots.len() + self.slots.len() / 4).max(64)];
        for slot in std::mem::replace(&mut self.slots, larger) {
            if slot != 0 {
                self.place(slot);
            }
        }
    }

    // The records.

    fn append(&mut self, size: usize) -> Result<u32, VertexError> {
        let at = self.records.len();
        let index = u32::try_from(at / UNIT).map_err(|_| VertexError::Full)?;
        // The number plus one must fit into a slot.
        if index + 1 >= VertexId::MAX_INDEX {
            return Err(VertexError::Full);
        }
        let bytes = size * UNIT;
        if self.records.capacity() - at < bytes {
            self.records.reserve_exact(bytes.max(at / 8).max(256));
        }
        self.records.resize(at + bytes, 0);
        Ok(index)
    }

    fn record(&self, index: u32) -> &[u8] {
        self.records.get(index as usize * UNIT..).unwrap_or_default()
    }

    fn record_mut(&mut self, index: u32) -> &mut [u8] {
        self.records.get_mut(index as usize * UNIT..).unwrap_or_default()
    }

    fn byte(&self, index: u32, field: usize) -> Option<u8> {
        self.record(index).get(field).copied()
    }

    fn word(&self, index: u32, field: usize) -> u32 {
        let bytes = self.record(index).get(field..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn set_word(&mut self, index: u32, field: usize, word: u32) {
        if let Some(bytes) = self.record_mut(index).get_mut(field..).and_then(|rest| rest.first_chunk_mut()) {
            *bytes = word.to_le_bytes();
        }
    }

    fn name_length(&self, index: u32) -> usize {
        self.word(index, NAME_LENGTH) as usize & 0xffff
    }

    fn node_set(&self, index: u32) -> NodeSet {
        NodeSet::from_words(self.word(index, NODE), self.word(index, COUNT))
    }

    fn set_node_set(&mut self, index: u32, nodes: NodeSet) {
        let (node, count) = nodes.words();
        self.set_word(index, NODE, node);
        self.set_word(index, COUNT, count);
    }

    fn has_key(&self, index: u32, key: &Key<'_>) -> bool {
        let record = self.record(index);
        let length = key.namespace.len() + key.name.len();
        let expected = length as u64 | (key.namespace.len() as u64) << 16 | u64::from(key.kind as u8) << 24;
        if u64::from(self.word(index, NAME_LENGTH)) != expected {
            return false;
        }
        let Some(bytes) = record.get(KEY..KEY + length) else { return false };
        // Skip the comparison of an empty namespace, which is slow: an empty string has no valid address, and the C
        // library's vector code reads that address under a mask, at the price of an exception.
        if key.namespace.is_empty() {
            return bytes == key.name.as_bytes();
        }
        bytes.split_at_checked(key.namespace.len()) == Some((key.namespace.as_bytes(), key.name.as_bytes()))
    }

    /// Kind, namespace and name of a record, as stored.
    fn key_parts(&self, index: u32) -> (u8, &[u8], &[u8]) {
        let [low, high, namespace_length, kind] = self.word(index, NAME_LENGTH).to_le_bytes();
        let length = usize::from(u16::from_le_bytes([low, high]));
        let bytes = self.record(index).get(KEY..KEY + length).unwrap_or_default();
        let (namespace, name) = bytes.split_at_checked(usize::from(namespace_length)).unwrap_or_default();
        (kind, namespace, name)
    }
}

/// The part of a hash that is stored. The lower half selects the shard.
fn mark_of(hash: u64) -> u64 {
    hash >> 32
}

fn slot_of(mark: u64, tag: Tag, index: u32) -> u64 {
    mark << 32 | u64::from(tag.0) << VertexId::INDEX_BITS | (u64::from(index) + 1)
}

fn index_of(slot: u64) -> u32 {
    // It is at least one.
    (slot as u32 & (VertexId::MAX_INDEX - 1)).wrapping_sub(1)
}

fn tag_of(slot: u64) -> Tag {
    Tag((slot >> VertexId::INDEX_BITS) as u8)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const KIND: VertexKind = VertexKind::Secret;

    proptest! {
        #[test]
        fn the_table_equals_a_plain_map(
            steps in prop::collection::vec((any::<bool>(), "[ab]{0,1}", "[a-c]{0,4}"), 0..1500),
            narrow in any::<bool>(),
        ) {
            let hasher = DefaultHashBuilder::default();
            // Only three hash values, so that probing, closing and wrapping are tested.
            let hash = |key: &Key<'_>| {
                let hash = key.hash(&hasher);
                if narrow { ((hash % 3) * 0x7fff_ffff) << 32 } else { hash }
            };
            let mut shard = Shard::default();
            let mut model: BTreeMap<(String, String), u32> = BTreeMap::new();
            for (insert, namespace, name) in steps {
                let key = Key { kind: KIND, namespace: &namespace, name: &name };
                let found = shard.find(hash(&key), &key);
                prop_assert_eq!(found, model.get(&(namespace.clone(), name.clone())).copied());
                match found {
                    None if insert => {
                        let index = shard.insert(hash(&key), &key, None).unwrap();
                        prop_assert!(!model.values().any(|other| *other == index));
                        model.insert((namespace, name), index);
                    }
                    Some(index) if !insert => {
                        if narrow {
                            shard.remove_marked(index, mark_of(hash(&key)));
                        } else {
                            shard.remove(index, &hasher);
                        }
                        model.remove(&(namespace, name));
                    }
                    _ => {}
                }
                prop_assert_eq!(shard.len(), model.len());
            }
            for ((namespace, name), index) in &model {
                let key = Key { kind: KIND, namespace, name };
                prop_assert_eq!(shard.find(hash(&key), &key), Some(*index));
                prop_assert_eq!(shard.key(*index), Some((KIND, namespace.clone(), name.clone())));
            }
            prop_assert_eq!(shard.of_kind(KIND).count(), model.len());
            prop_assert_eq!(shard.of_kind(VertexKind::Pod).count(), 0);
        }

        #[test]
        fn a_tag_rules_no_node_out_that_reaches_the_vertex(
            first in prop::option::of(0_u32..6),
            steps in prop::collection::vec((any::<bool>(), 0_u32..6), 0..60),
        ) {
            let hasher = DefaultHashBuilder::default();
            // Two nodes of each tag.
            let node = |number: u32| NodeId(((number / 2 + 1) << 24) | (number % 2));
            let key = Key { kind: KIND, namespace: "a", name: "b" };
            let other = Key { kind: KIND, namespace: "a", name: "c" };
            let hash = key.hash(&hasher);
            let mut shard = Shard::default();
            shard.insert(other.hash(&hasher), &other, None).unwrap();
            let index = shard.insert(hash, &key, first.map(node)).unwrap();
            let mut counts = [0_u32; 6];
            for (add, number) in steps {
                let count = &mut counts[number as usize];
                if add {
                    prop_assert_eq!(shard.add(index, node(number), &hasher), *count == 0);
                    *count += 1;
                } else {
                    prop_assert_eq!(shard.take(index, node(number), &hasher), *count == 1);
                    *count = count.saturating_sub(1);
                }
                for (number, count) in (0..).zip(counts) {
                    let asks = node(number);
                    prop_assert_eq!(shard.reaches(hash, &key, asks.tag(), || Some(asks)), count > 0);
                }
                let reaching = (0..).zip(counts).filter(|(_, count)| *count > 0).map(|(number, _)| node(number));
                if let [only] = reaching.collect::<Vec<_>>()[..] {
                    let slot = shard.slots[shard.place_of(index, mark_of(hash)).unwrap()];
                    prop_assert_eq!(tag_of(slot), only.tag());
                }
            }
        }
    }
}
