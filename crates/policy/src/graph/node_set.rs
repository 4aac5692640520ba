//! The set of nodes that reach one object, with a reference count each.
//!
//! Nearly every object is reached from one node, so one `(node, count)` is stored in the vertex itself. Larger sets are
//! stored outside, as a sorted list while they are small and as a map when they are large.
//!
//! INVARIANT: a count is never zero; an entry is removed with its last reference. (NA-107: nothing outlives its
//! references.)

use hashbrown::HashMap;

use super::slab::Slab;
use super::vertex::{NodeId, Tag};

/// Above this many nodes the counts move into a map; below half of it they move back.
const MANY: usize = 512;

/// The part of the set that is stored in a vertex: eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeSet {
    /// The only node, or the index of the external counts if `count` is [`BESIDE`]. In an empty set, the last or the
    /// expected node, or zero.
    node: u32,
    /// The number of references; zero for the empty set.
    count: u32,
}

const BESIDE: u32 = u32::MAX;

/// The counts of a set of two or more nodes.
#[derive(Clone, Debug)]
pub(super) enum Counts {
    /// Sorted by node.
    Few(Vec<(NodeId, u32)>),
    /// A map, for more than [`MANY`] nodes (until there are fewer than half of that).
    Many(HashMap<NodeId, u32>),
}

impl Default for Counts {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// The counts of all sets of a shard that hold two or more nodes.
pub(super) type Beside = Slab<Counts>;

impl NodeSet {
    /// Creates an empty set, with the node that will probably be added first.
    pub(super) fn expecting(node: Option<NodeId>) -> Self {
        Self { node: node.map_or(0, |node| node.0), count: 0 }
    }

    /// The tag of the node in a set of one, by which others are ruled out without reading the set; [`Tag::ANY`] for a
    /// set of several. The tag of an empty set has no meaning.
    pub(super) fn tag(self) -> Tag {
        if self.count == BESIDE { Tag::ANY } else { NodeId(self.node).tag() }
    }

    /// Returns the set as two words, to be stored in a record.
    pub(super) fn words(self) -> (u32, u32) {
        (self.node, self.count)
    }

    /// Restores the set from [`NodeSet::words`]. Zeros are the empty set.
    pub(super) fn from_words(node: u32, count: u32) -> Self {
        Self { node, count }
    }

    /// Returns whether the node is in the set.
    pub(super) fn contains(self, node: NodeId, beside: &Beside) -> bool {
        match self.count {
            0 => false,
            BESIDE => beside.peek(self.node).is_some_and(|counts| counts.contains(node)),
            _ => self.node == node.0,
        }
    }

    /// Adds one reference from a node; true if it is the node's first.
    pub(super) fn add(&mut self, node: NodeId, beside: &mut Beside) -> bool {
        match self.count {
            0 => {
                *self = Self { node: node.0, count: 1 };
                true
            }
            BESIDE => beside.peek_mut(self.node).is_some_and(|counts| counts.add(node)),
            // Stay one below the marker, so that a count is never mistaken for it.
            _ if self.node == node.0 && self.count < BESIDE - 1 => {
                self.count += 1;
                false
            }
            _ => {
                let mut counts = Counts::Few(vec![(NodeId(self.node), self.count)]);
                let first = counts.add(node);
                *self = Self { node: beside.keep(counts), count: BESIDE };
                first
            }
        }
    }

    /// Removes one reference from a node; true if it was the node's last.
    pub(super) fn take(&mut self, node: NodeId, beside: &mut Beside) -> bool {
        match self.count {
            0 => false,
            BESIDE => {
                let place = self.node;
                let Some(counts) = beside.peek_mut(place) else { return false };
                let last = counts.take(node);
                match counts.only() {
                    Some(Only::One(node, count)) => {
                        beside.release(place);
                        *self = Self { node: node.0, count };
                    }
                    Some(Only::Nothing) => {
                        beside.release(place);
                        *self = Self::expecting(None);
                    }
                    None => {}
                }
                last
            }
            1 if self.node == node.0 => {
                self.count = 0;
                true
            }
            _ if self.node == node.0 => {
                self.count -= 1;
                false
            }
            _ => false,
        }
    }

    /// The node of a set with exactly one, such as the set of a pod.
    pub(super) fn only(self) -> Option<NodeId> {
        (self.count != 0 && self.count != BESIDE).then_some(NodeId(self.node))
    }

    /// The nodes of the set, each once, in no particular order.
    pub(super) fn nodes(self, beside: &Beside) -> Vec<NodeId> {
        match self.count {
            0 => Vec::new(),
            BESIDE => beside.peek(self.node).map(Counts::nodes).unwrap_or_default(),
            _ => vec![NodeId(self.node)],
        }
    }

    /// Clears the set and frees its external counts.
    pub(super) fn clear(&mut self, beside: &mut Beside) {
        if self.count == BESIDE {
            beside.release(self.node);
        }
        *self = Self::expecting(None);
    }
}

enum Only {
    Nothing,
    One(NodeId, u32),
}

impl Counts {
    fn contains(&self, node: NodeId) -> bool {
        match self {
            Self::Few(counts) => counts.binary_search_by_key(&node, |(n, _)| *n).is_ok(),
            Self::Many(counts) => counts.contains_key(&node),
        }
    }

    fn add(&mut self, node: NodeId) -> bool {
        let first = match self {
            Self::Few(counts) => match counts.binary_search_by_key(&node, |(n, _)| *n) {
                Ok(at) => {
                    if let Some((_, count)) = counts.get_mut(at) {
                        *count = count.saturating_add(1);
                    }
                    false
                }
                Err(at) => {
                    if counts.len() == counts.capacity() {
                        // There are many such lists, so growing by a quarter saves memory.
                        counts.reserve_exact(counts.len() / 4 + 1);
                    }
                    counts.insert(at, (node, 1));
                    true
                }
            },
            Self::Many(counts) => {
                let count = counts.entry(node).or_insert(0);
                *count = count.saturating_add(1);
                *count == 1
            }
        };
        if let Self::Few(counts) = self
            && counts.len() > MANY
        {
            *self = Self::Many(counts.drain(..).collect());
        }
        first
    }

    fn take(&mut self, node: NodeId) -> bool {
        match self {
            Self::Few(counts) => {
                let Ok(at) = counts.binary_search_by_key(&node, |(n, _)| *n) else { return false };
                let Some((_, count)) = counts.get_mut(at) else { return false };
                *count -= 1;
                if *count > 0 {
                    return false;
                }
                counts.remove(at);
                if counts.capacity() > 8 && counts.len() < counts.capacity() / 2 {
                    counts.shrink_to(counts.len() + counts.len() / 4);
                }
                true
            }
            Self::Many(counts) => {
                let Some(count) = counts.get_mut(&node) else { return false };
                *count -= 1;
                if *count > 0 {
                    return false;
                }
                counts.remove(&node);
                if counts.len() < MANY / 2 {
                    let mut few: Vec<_> = counts.iter().map(|(n, c)| (*n, *c)).collect();
                    few.sort_unstable();
                    *self = Self::Few(few);
                }
                true
            }
        }
    }

    fn only(&self) -> Option<Only> {
        match self {
            Self::Few(counts) => match counts.as_slice() {
                [] => Some(Only::Nothing),
                [(node, count)] if *count < BESIDE => Some(Only::One(*node, *count)),
                _ => None,
            },
            Self::Many(_) => None,
        }
    }

    fn nodes(&self) -> Vec<NodeId> {
        match self {
            Self::Few(counts) => counts.iter().map(|(n, _)| *n).collect(),
            Self::Many(counts) => counts.keys().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_equal_a_plain_map(steps in prop::collection::vec((any::<bool>(), 0_u32..700), 0..3000)) {
            let mut beside = Beside::default();
            let mut set = NodeSet::expecting(None);
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for (add, node) in steps {
                if add || model.len() < 100 {
                    let first = !model.contains_key(&node);
                    *model.entry(node).or_default() += 1;
                    prop_assert_eq!(set.add(NodeId(node), &mut beside), first);
                } else {
                    let last = model.get(&node) == Some(&1);
                    if let Some(count) = model.get_mut(&node) {
                        *count -= 1;
                    }
                    model.retain(|_, count| *count > 0);
                    prop_assert_eq!(set.take(NodeId(node), &mut beside), last);
                }
                prop_assert_eq!(set.contains(NodeId(node), &beside), model.contains_key(&node));
            }
            let mut nodes: Vec<u32> = set.nodes(&beside).into_iter().map(|n| n.0).collect();
            nodes.sort_unstable();
            prop_assert_eq!(nodes, model.keys().copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_set_grows_into_a_map_and_back_without_losing_a_node() {
        let mut beside = Beside::default();
        let mut set = NodeSet::expecting(None);
        for node in 0..2000 {
            assert!(set.add(NodeId(node), &mut beside));
            assert!(!set.add(NodeId(node), &mut beside));
        }
        for node in 0..2000 {
            assert!(!set.take(NodeId(node), &mut beside));
            assert!(set.contains(NodeId(node), &beside));
            assert!(set.take(NodeId(node), &mut beside));
            assert!(!set.contains(NodeId(node), &beside));
        }
        assert_eq!(set.nodes(&beside), []);
        // The only slot is free again.
        assert_eq!(beside.keep(Counts::default()), 0);
    }
}
