//! The set of nodes that reach one object, with a reference count each, and the number of those that hold the object.
//!
//! Nearly every object is reached from one node through one reference, and held by one or two. All of that is one word of the
//! object's record. Otherwise the word is the place of a block: a hash table of nodes, and of their counts if one of them is
//! above one. Blocks are in the array of the records, so readers need no lock for them either.
//!
//! INVARIANT: a node is in the set while its count is above zero, and no longer. (NA-107: nothing outlives its references.)

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::table::{Edit, Record, Table};
use super::vertex::{NodeId, Tag, VertexId};

const STATE_BITS: u32 = 4;
/// The state of a word that is the place of a block. Holders and count have two bits each in the other states.
const ASIDE: u32 = 0b1111;
/// The largest count of references, and of holders, in the word itself.
const MOST: u32 = 2;
/// This number of holders means: more than the word can count, and there was no space for a block. The object is never removed.
const PINNED: u32 = 3;

// The words of a block, before its nodes: the number of holders, the number of nodes, and the number of places for nodes,
// doubled, plus one if the counts follow.
const HOLDERS: u32 = 0;
const LENGTH: u32 = 1;
const CAPACITY: u32 = 2;
const HEADER: u32 = 3;

/// Up to so many places are a plain list.
const FEW: u32 = 8;

/// A word of a record, decoded.
#[derive(Clone, Copy, Debug)]
enum Form<'t> {
    /// One node or none. If the count is zero: the node that was the last one, or zero.
    Alone {
        node: u32,
        holders: u32,
        count: u32,
    },
    Aside(Block<'t>),
}

#[derive(Clone, Copy, Debug)]
struct Block<'t> {
    record: Record<'t>,
    at: u32,
    capacity: u32,
    is_counted: bool,
}

/// The word of an object with one holder and one reference from a node; without a node, of one that nobody holds and no node
/// reaches.
pub(super) fn referred(node: Option<NodeId>) -> u32 {
    node.map_or(0, |node| Form::Alone { node: node.0, holders: 1, count: 1 }.word())
}

impl<'t> Form<'t> {
    #[inline]
    fn of(table: &'t Table, word: u32) -> Self {
        let (state, value) = (word & ((1 << STATE_BITS) - 1), word >> STATE_BITS);
        if state != ASIDE {
            return Self::Alone { node: value, holders: state >> 2, count: state & 0b11 };
        }
        let record = table.record(value);
        let capacity = record.word(CAPACITY);
        Self::Aside(Block { record, at: value, capacity: capacity >> 1, is_counted: capacity & 1 == 1 })
    }

    #[inline]
    fn word(self) -> u32 {
        match self {
            Self::Alone { node, holders, count } => node << STATE_BITS | holders << 2 | count,
            Self::Aside(block) => block.at << STATE_BITS | ASIDE,
        }
    }
}

impl<'t> Block<'t> {
    fn size(self) -> u32 {
        HEADER + self.capacity * if self.is_counted { 2 } else { 1 }
    }

    fn holders(self) -> u32 {
        self.record.word(HOLDERS)
    }

    fn length(self) -> u32 {
        self.record.word(LENGTH)
    }

    fn node(self, place: u32) -> u32 {
        self.record.word(HEADER + place)
    }

    fn count(self, place: u32) -> u32 {
        if self.is_counted { self.record.word(HEADER + self.capacity + place) } else { 1 }
    }

    /// The first place to look for a node.
    fn home(self, node: u32) -> u32 {
        if self.capacity <= FEW {
            return 0;
        }
        let spread = u64::from(node.wrapping_mul(0x9e37_79b9));
        ((spread * u64::from(self.capacity)) >> 32) as u32
    }

    fn after(self, place: u32) -> u32 {
        if place + 1 >= self.capacity { 0 } else { place + 1 }
    }

    /// The place of a node, or where it would have to be; `None` if there is no such place.
    fn place(self, node: u32) -> Option<(u32, bool)> {
        let mut place = self.home(node);
        for _ in 0..self.capacity {
            match self.node(place) {
                0 => return Some((place, false)),
                found if found == node => return Some((place, true)),
                _ => place = self.after(place),
            }
        }
        None
    }

    /// The nodes, and how many references each has.
    fn counts(self) -> impl Iterator<Item = (u32, u32)> + use<'t> {
        let places = (0..self.capacity).map(move |place| (self.node(place), self.count(place)));
        places.filter(|(node, _)| *node != 0)
    }

    fn has_room(self) -> bool {
        let length = self.length() + 1;
        if self.capacity <= FEW { length <= self.capacity } else { length * 8 <= self.capacity * 7 }
    }
}

/// Whether a node is in the set of a word. `is_it` compares it with the only node, which may be cheaper than finding its ID.
pub(super) fn contains(
    table: &Table,
    word: u32,
    is_it: impl Fn(NodeId) -> bool,
    node: impl Fn() -> Option<NodeId>,
) -> bool {
    match Form::of(table, word) {
        Form::Alone { node: only, count, .. } => count > 0 && is_it(NodeId(only)),
        Form::Aside(block) => {
            node().is_some_and(|node| matches!(block.place(node.0), Some((_, is_there)) if is_there))
        }
    }
}

/// The node of a set with exactly one, such as the set of a pod.
pub(super) fn only(table: &Table, word: u32) -> Option<NodeId> {
    match Form::of(table, word) {
        Form::Alone { node, count, .. } => (count > 0).then_some(NodeId(node)),
        Form::Aside(block) if block.length() == 1 => block.counts().next().map(|(node, _)| NodeId(node)),
        Form::Aside(_) => None,
    }
}

/// The nodes of a set, each once, in no particular order.
pub(super) fn nodes(table: &Table, word: u32) -> Vec<NodeId> {
    match Form::of(table, word) {
        Form::Alone { node, count, .. } => (count > 0).then_some(NodeId(node)).into_iter().collect(),
        Form::Aside(block) => block.counts().map(|(node, _)| NodeId(node)).collect(),
    }
}

/// The tag of the node in a set of one, by which others are ruled out without reading the set; [`Tag::ANY`] for a set of
/// several. The tag of an empty set has no meaning.
#[inline]
pub(super) fn tag(table: &Table, word: u32) -> Tag {
    if is_alone(word) {
        NodeId(word >> STATE_BITS).tag()
    } else {
        only(table, word).map_or(Tag::ANY, NodeId::tag)
    }
}

/// The number of those that hold the object.
#[inline]
pub(super) fn holders(table: &Table, word: u32) -> u32 {
    match Form::of(table, word) {
        Form::Alone { holders, .. } => holders,
        Form::Aside(block) => block.holders(),
    }
}

/// Whether everything is in the word itself, without a block.
#[inline]
fn is_alone(word: u32) -> bool {
    word & ASIDE != ASIDE
}

/// Changes the set whose word is at this place.
#[derive(Debug)]
pub(super) struct NodeSet<'e, 't> {
    edit: &'e mut Edit<'t>,
    word: &'t AtomicU32,
}

impl<'e, 't> NodeSet<'e, 't> {
    pub(super) fn at(edit: &'e mut Edit<'t>, word: &'t AtomicU32) -> Self {
        Self { edit, word }
    }

    fn form(&self) -> Form<'t> {
        Form::of(self.edit.table, self.word.load(Relaxed))
    }

    fn set(&mut self, form: Form<'_>) {
        self.word.store(form.word(), Relaxed);
    }

    /// See [`tag`].
    pub(super) fn tag(&self) -> Tag {
        tag(self.edit.table, self.word.load(Relaxed))
    }

    /// Adds a holder, and one reference from a node; true if it is the node's first.
    #[inline]
    pub(super) fn refer(&mut self, node: NodeId) -> bool {
        let word = self.word.load(Relaxed);
        let (state, is_new) = (word & ASIDE, word & 0b11 == 0);
        if state >> 2 < MOST && (is_new || (word >> STATE_BITS == node.0 && state & 0b11 < MOST)) {
            self.word.store(node.0 << STATE_BITS | (state + (1 << 2) + 1), Relaxed);
            return is_new;
        }
        self.hold();
        self.add(node)
    }

    /// Removes a holder, and one reference from a node; true if it was the node's last.
    #[inline]
    pub(super) fn unrefer(&mut self, node: NodeId) -> bool {
        let word = self.word.load(Relaxed);
        let state = word & ASIDE;
        if word >> STATE_BITS == node.0
            && (1..=MOST).contains(&(state >> 2))
            && (1..=MOST).contains(&(state & 0b11))
        {
            self.word.store(word - (1 << 2) - 1, Relaxed);
            return state & 0b11 == 1;
        }
        let last = self.take(node);
        self.unhold();
        last
    }

    /// Adds one reference from a node; true if it is the node's first.
    ///
    /// If there is no space for it, the reference is not counted: the node loses the object too early, never too late.
    pub(super) fn add(&mut self, node: NodeId) -> bool {
        match self.form() {
            Form::Alone { holders, count: 0, .. } => {
                self.set(Form::Alone { node: node.0, holders, count: 1 });
                true
            }
            Form::Alone { node: only, holders, count } if only == node.0 && count < MOST => {
                self.set(Form::Alone { node: only, holders, count: count + 1 });
                false
            }
            Form::Alone { node: only, .. } => {
                let capacity = if only == node.0 { 1 } else { 2 };
                self.move_aside(capacity, only == node.0).is_some_and(|block| self.add_aside(block, node))
            }
            Form::Aside(block) => self.add_aside(block, node),
        }
    }

    fn add_aside(&mut self, block: Block<'t>, node: NodeId) -> bool {
        match block.place(node.0) {
            Some((place, true)) => {
                let count = block.count(place).saturating_add(1);
                let counted =
                    if block.is_counted { Some(block) } else { self.rebuild(block, block.capacity, true) };
                if let Some(block) = counted
                    && let Some((place, true)) = block.place(node.0)
                {
                    self.edit.set(block.record, HEADER + block.capacity + place, count);
                }
                false
            }
            place => {
                let block = if block.has_room() && place.is_some() {
                    Some(block)
                } else {
                    let capacity = block.capacity + (block.capacity / 4).max(1);
                    // A list that becomes a table needs an empty place.
                    let capacity = if capacity > FEW { capacity.max(FEW + 4) } else { capacity };
                    self.rebuild(block, capacity, block.is_counted)
                };
                let Some(block) = block else { return false };
                self.enter(block, node.0, 1);
                true
            }
        }
    }

    /// Writes a node that is not there into a block with room for it.
    fn enter(&mut self, block: Block<'_>, node: u32, count: u32) {
        let Some((place, false)) = block.place(node) else { return };
        self.edit.set(block.record, HEADER + place, node);
        if block.is_counted {
            self.edit.set(block.record, HEADER + block.capacity + place, count);
        }
        self.edit.set(block.record, LENGTH, block.length() + 1);
    }

    /// Removes one reference from a node; true if it was the node's last.
    pub(super) fn take(&mut self, node: NodeId) -> bool {
        match self.form() {
            Form::Alone { node: only, holders, count } if only == node.0 && count > 0 => {
                self.set(Form::Alone { node: only, holders, count: count - 1 });
                count == 1
            }
            Form::Alone { .. } => false,
            Form::Aside(block) => {
                let Some((place, true)) = block.place(node.0) else { return false };
                let count = block.count(place);
                if count > 1 {
                    self.edit.set(block.record, HEADER + block.capacity + place, count - 1);
                } else {
                    self.close(block, place);
                    self.edit.set(block.record, LENGTH, block.length().saturating_sub(1));
                    let length = block.length();
                    if block.capacity > FEW && length < block.capacity / 2 {
                        self.rebuild(block, (length + length / 4).max(FEW), block.is_counted);
                    }
                }
                self.settle();
                count <= 1
            }
        }
    }

    /// Empties a place, and moves later nodes up so that all of them are still found.
    fn close(&mut self, block: Block<'_>, mut hole: u32) {
        if block.capacity <= FEW {
            let last = block.length().saturating_sub(1);
            self.move_node(block, last, hole);
            self.edit.set(block.record, HEADER + last, 0);
            return;
        }
        let mut place = hole;
        for _ in 1..block.capacity {
            place = block.after(place);
            let node = block.node(place);
            if node == 0 {
                break;
            }
            let home = block.home(node);
            // If its home is between the hole and here (cyclically), it must not move.
            let stays =
                if hole <= place { hole < home && home <= place } else { hole < home || home <= place };
            if !stays {
                self.move_node(block, place, hole);
                hole = place;
            }
        }
        self.edit.set(block.record, HEADER + hole, 0);
    }

    fn move_node(&mut self, block: Block<'_>, from: u32, to: u32) {
        self.edit.set(block.record, HEADER + to, block.node(from));
        if block.is_counted {
            self.edit.set(block.record, HEADER + block.capacity + to, block.count(from));
        }
    }

    /// Adds a holder: an object that refers to this one, or the object itself.
    pub(super) fn hold(&mut self) {
        match self.form() {
            Form::Alone { node, holders, count } if holders < MOST => {
                self.set(Form::Alone { node, holders: holders + 1, count });
            }
            Form::Alone { holders: PINNED, .. } => {}
            Form::Alone { node, count, .. } => match self.move_aside(1, count > 1) {
                Some(block) => self.edit.set(block.record, HOLDERS, MOST + 1),
                None => self.set(Form::Alone { node, holders: PINNED, count }),
            },
            Form::Aside(block) => {
                let holders = block.holders();
                self.edit.set(block.record, HOLDERS, holders.saturating_add(1));
            }
        }
    }

    /// Removes a holder.
    pub(super) fn unhold(&mut self) {
        match self.form() {
            Form::Alone { holders: PINNED, .. } => {}
            Form::Alone { node, holders, count } => {
                self.set(Form::Alone { node, holders: holders.saturating_sub(1), count });
            }
            Form::Aside(block) => {
                let holders = block.holders();
                self.edit.set(block.record, HOLDERS, holders.saturating_sub(1));
                self.settle();
            }
        }
    }

    /// Frees the block, if there is one.
    pub(super) fn clear(&mut self) {
        if !is_alone(self.word.load(Relaxed))
            && let Form::Aside(block) = self.form()
        {
            self.edit.free(block.at, block.size());
        }
        self.word.store(0, Relaxed);
    }

    /// Gives a word that is alone a block; `None` if there is no space.
    fn move_aside(&mut self, capacity: u32, is_counted: bool) -> Option<Block<'t>> {
        let Form::Alone { node, holders, count } = self.form() else { return None };
        let block = self.make(capacity, is_counted || count > 1)?;
        self.edit.set(block.record, HOLDERS, holders);
        if count > 0 {
            self.enter(block, node, count);
        }
        self.set(Form::Aside(block));
        Some(block)
    }

    /// Moves the word's block into one of another form; `None` if there is no space.
    fn rebuild(&mut self, old: Block<'t>, capacity: u32, is_counted: bool) -> Option<Block<'t>> {
        let block = self.make(capacity, is_counted)?;
        self.edit.set(block.record, HOLDERS, old.holders());
        for (node, count) in old.counts() {
            self.enter(block, node, count);
        }
        self.edit.free(old.at, old.size());
        self.set(Form::Aside(block));
        Some(block)
    }

    /// Makes an empty block.
    fn make(&mut self, capacity: u32, is_counted: bool) -> Option<Block<'t>> {
        let size = HEADER + capacity * if is_counted { 2 } else { 1 };
        let at = self.edit.keep(size, VertexId::MAX_INDEX).ok()?;
        let record = self.edit.table.record(at);
        let header = [0, 0, capacity << 1 | u32::from(is_counted)];
        let places = std::iter::repeat_n(0, (size - HEADER) as usize);
        self.edit.set_all(record, 0, header.into_iter().chain(places));
        Some(Block { record, at, capacity, is_counted })
    }

    /// Moves what is in a block into the word again, if it has become little enough.
    fn settle(&mut self) {
        let Form::Aside(block) = self.form() else { return };
        let holders = block.holders();
        if holders > MOST || block.length() > 1 {
            return;
        }
        let (node, count) = block.counts().next().unwrap_or_default();
        if count <= MOST {
            self.edit.free(block.at, block.size());
            self.set(Form::Alone { node, holders, count });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::table::Space;
    use super::*;

    /// A table with the word of one set, which is empty.
    fn set_in(table: &Table, space: &mut Space) -> u32 {
        let mut edit = table.edit(space);
        let at = edit.keep(1, VertexId::MAX_INDEX).unwrap();
        edit.set(table.record(at), 0, referred(None));
        at
    }

    fn has(table: &Table, at: u32, node: u32) -> bool {
        contains(table, table.word(at), |only| only == NodeId(node), || Some(NodeId(node)))
    }

    proptest! {
        #[test]
        fn counts_and_holders_equal_a_plain_map(
            bound in 2_u32..700,
            steps in prop::collection::vec((0_u8..8, 1_u32..700), 0..3000),
        ) {
            let (table, mut space) = (Table::default(), Space::default());
            let at = set_in(&table, &mut space);
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            let mut held = 0_u32;
            for (step, node) in steps {
                let node = 1 + node % bound;
                let mut edit = table.edit(&mut space);
                let mut set = NodeSet::at(&mut edit, table.record(at).cell(0).unwrap());
                match step {
                    0 | 1 => {
                        let count = model.entry(node).or_default();
                        *count += 1;
                        prop_assert_eq!(set.add(NodeId(node)), *count == 1);
                    }
                    2 => {
                        let last = model.get(&node) == Some(&1);
                        if let Some(count) = model.get_mut(&node) {
                            *count -= 1;
                        }
                        model.retain(|_, count| *count > 0);
                        prop_assert_eq!(set.take(NodeId(node)), last);
                    }
                    3 => {
                        set.hold();
                        held += 1;
                    }
                    4 | 5 => {
                        let count = model.entry(node).or_default();
                        *count += 1;
                        prop_assert_eq!(set.refer(NodeId(node)), *count == 1);
                        held += 1;
                    }
                    6 => {
                        let last = model.get(&node) == Some(&1);
                        if let Some(count) = model.get_mut(&node) {
                            *count -= 1;
                        }
                        model.retain(|_, count| *count > 0);
                        prop_assert_eq!(set.unrefer(NodeId(node)), last);
                        held = held.saturating_sub(1);
                    }
                    _ => {
                        set.unhold();
                        held = held.saturating_sub(1);
                    }
                }
                drop(edit);
                let word = table.word(at);
                prop_assert_eq!(holders(&table, word), held);
                prop_assert_eq!(has(&table, at, node), model.contains_key(&node));
                let one = model.first_key_value().filter(|_| model.len() == 1).map(|(node, _)| NodeId(*node));
                prop_assert_eq!(only(&table, word), one);
            }
            let mut nodes: Vec<u32> = nodes(&table, table.word(at)).into_iter().map(|node| node.0).collect();
            nodes.sort_unstable();
            prop_assert_eq!(nodes, model.keys().copied().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_set_grows_into_a_table_and_back_without_losing_a_node() {
        let (table, mut space) = (Table::default(), Space::default());
        let at = set_in(&table, &mut space);
        let mut edit = table.edit(&mut space);
        let mut set = NodeSet::at(&mut edit, table.record(at).cell(0).unwrap());
        for node in 1..=2000 {
            assert!(set.add(NodeId(node)));
            assert!(!set.add(NodeId(node)));
        }
        for node in 1..=2000 {
            assert!(!set.take(NodeId(node)));
            assert!(has(&table, at, node));
            assert!(set.take(NodeId(node)));
            assert!(!has(&table, at, node));
        }
        assert!(matches!(Form::of(&table, table.word(at)), Form::Alone { node: 2000, holders: 0, count: 0 }));
    }

    #[test]
    fn without_space_a_set_grants_less_and_is_never_forgotten() {
        let (table, mut space) = (Table::default(), Space::default());
        let at = set_in(&table, &mut space);
        let mut edit = table.edit(&mut space);
        while edit.keep(1 << 16, VertexId::MAX_INDEX).is_ok() {}
        while edit.keep(3, VertexId::MAX_INDEX).is_ok() {}
        let mut set = NodeSet::at(&mut edit, table.record(at).cell(0).unwrap());
        for _ in 0..5 {
            set.hold();
        }
        assert!(set.add(NodeId(1)));
        assert!(!set.add(NodeId(1)) && !set.add(NodeId(1)) && !set.add(NodeId(2)));
        assert!(!has(&table, at, 2));
        assert!(!set.take(NodeId(2)) && !set.take(NodeId(1)) && set.take(NodeId(1)) && !set.take(NodeId(1)));
        for _ in 0..9 {
            set.unhold();
        }
        assert!(holders(&table, table.word(at)) > 0);
    }
}
