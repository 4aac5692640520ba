//! One shard of the vertices. Each maps a key to the nodes that reach it and to the references that the writer must remember.
//!
//! The cost of a decision over a large cluster is memory latency, so a decision touches two places: a slot of the table, which
//! contains the hash, and the vertex itself, which contains the key and the node next to each other. The slot also contains a
//! tag of the only node that reaches the vertex, so that nearly every denial is decided without reading the vertex.
//!
//! A vertex is a record of words:
//!
//! | Words | What |
//! | --- | --- |
//! | 0 | the kind in four bits, the length of the name in eight, the number of the namespace plus one in twenty |
//! | 1 | the nodes that reach it, and how many hold it: see `node_set` |
//! | 2 | the length of the name, if it is 255 or more |
//! | … | the name; of a pod and of a volume, a byte with the number of links after it |
//! | … | the number of links, if it is 255 or more |
//! | … | the links: of a pod the vertices that it refers to; of a volume its claim, then the vertices that its source refers to; of a claim its volumes, as the writer notes them |

use super::hashes::Hashes;
use super::node_set::{self, NodeSet};
use super::table::{Bytes, Edit, Record, Slot, Space, Table, mark_of};
use super::vertex::{NO_LINKS, NodeId, Tag, VertexError, VertexId, VertexKind};

const HEAD: u32 = 0;
const NODES: u32 = 1;
const LONG: u32 = 2;

const KIND_BITS: u32 = 4;
const LENGTH_BITS: u32 = 8;
/// A length or a number of links that is in a word of its own.
const ELSEWHERE: u32 = 255;

/// No vertex is made above this place, so that there is always space for the nodes of those that exist.
const MOST: u32 = VertexId::MAX_INDEX / 4 * 3;

/// A key of this shard, with the namespace as a number: zero if it has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'n> {
    pub(super) kind: VertexKind,
    pub(super) namespace: u32,
    pub(super) name: &'n str,
    pub(super) mark: u32,
}

/// A question about one object: does this node reach it? The graph answers what the numbers in a vertex mean, while the shard
/// is being read.
pub(super) trait Question {
    /// The kind and the name of the object.
    fn object(&self) -> (VertexKind, &str);
    /// Whether its namespace has this number; zero is none.
    fn is_namespace(&self, number: u32) -> bool;
    /// The tag of the node.
    fn tag(&self) -> Tag;
    /// Whether the node has this ID.
    fn is_node(&self, id: NodeId) -> bool;
    /// The ID of the node, if it has one.
    fn node(&self) -> Option<NodeId>;
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shard(Table);

/// Where the parts of a record are, from its first word.
#[derive(Clone, Copy, Debug)]
struct Parts {
    kind: u8,
    namespace: u32,
    name: u32,
    length: u32,
    links: u32,
    count: u32,
}

impl Parts {
    #[inline]
    fn of(record: Record<'_>) -> Self {
        let head = record.word(HEAD);
        let kind = kind_in(head);
        let (mut name, mut length) = (LONG, head >> KIND_BITS & ((1 << LENGTH_BITS) - 1));
        if length == ELSEWHERE {
            length = record.word(name);
            name += 1;
        }
        let bytes = length + u32::from(is_counted(kind));
        let mut links = name + bytes.div_ceil(4);
        let mut count = if is_counted(kind) {
            let [a, b, c, d] = record.word(name + length / 4).to_le_bytes();
            u32::from(match length % 4 {
                0 => a,
                1 => b,
                2 => c,
                _ => d,
            })
        } else {
            u32::from(is_claim(kind))
        };
        if count == ELSEWHERE {
            count = record.word(links);
            links += 1;
        }
        let namespace = head >> (KIND_BITS + LENGTH_BITS);
        Self { kind, namespace, name, length, links, count }
    }

    fn size(self) -> u32 {
        self.links + self.count
    }

    fn mark(self, record: Record<'_>, hashes: Hashes<'_>) -> u32 {
        mark_of(hashes.of_vertex(self.kind, self.namespace, &record.text(self.name, self.length)))
    }

    /// Kind and name of a record.
    #[inline]
    fn kind_and_name(record: Record<'_>) -> (u8, Bytes) {
        let head = record.word(HEAD);
        let (name, length) = match head >> KIND_BITS & ((1 << LENGTH_BITS) - 1) {
            ELSEWHERE => (LONG + 1, record.word(LONG)),
            length => (LONG, length),
        };
        (kind_in(head), record.text(name, length))
    }
}

/// Whether a byte after the name says how many links there are.
fn is_counted(kind: u8) -> bool {
    kind == VertexKind::Pod as u8 || kind == VertexKind::PersistentVolume as u8
}

/// A claim has one link always, or the mark of none.
fn is_claim(kind: u8) -> bool {
    kind == VertexKind::PersistentVolumeClaim as u8
}

impl Shard {
    /// Finds the number of a vertex. The writer must be locked.
    pub(super) fn find(&self, spot: &Spot<'_>) -> Option<u32> {
        let Spot { kind, namespace, name, mark } = *spot;
        self.0.find(mark, |slot| {
            let is_it = is_at(self.0.record(slot.index()), kind, name, |number| number == namespace);
            is_it.then_some(slot.index())
        })
    }

    /// Returns whether a node reaches the vertex of a key. This is the whole decision. The vertex is read only if its tag does
    /// not rule the node out.
    pub(super) fn reaches(&self, mark: u32, question: &impl Question) -> bool {
        let tag = question.tag();
        self.0.read(|| {
            let answer = self.0.find(mark, |slot| {
                if slot.tag() != Tag::ANY && slot.tag() != tag {
                    return None;
                }
                let record = self.0.record(slot.index());
                let (kind, name) = question.object();
                is_at(record, kind, name, |number| question.is_namespace(number)).then(|| {
                    let word = record.word(NODES);
                    node_set::contains(&self.0, word, |only| question.is_node(only), || question.node())
                })
            });
            answer.unwrap_or(false)
        })
    }

    /// Begins a change. Readers of the shard wait until it is dropped.
    pub(super) fn edit<'t>(&'t self, space: &'t mut Space, hashes: Hashes<'t>) -> ShardEdit<'t> {
        ShardEdit { edit: self.0.edit(space), hashes }
    }

    // For the writer, which must be locked.

    /// The nodes that reach a vertex.
    pub(super) fn nodes(&self, index: u32) -> Vec<NodeId> {
        node_set::nodes(&self.0, self.0.word(index + NODES))
    }

    /// The node of a vertex that exactly one reaches.
    pub(super) fn only_node(&self, index: u32) -> Option<NodeId> {
        node_set::only(&self.0, self.0.word(index + NODES))
    }

    /// The links of a vertex, as the table in the module says.
    pub(super) fn links(&self, index: u32) -> impl Iterator<Item = u32> {
        let record = self.0.record(index);
        let Parts { links, count, .. } = Parts::of(record);
        (links..links + count).map(move |number| record.word(number))
    }

    /// The link of a claim; [`NO_LINKS`] of other vertices, and of a claim without volumes.
    pub(super) fn claim_link(&self, index: u32) -> u32 {
        claim_link(self.0.record(index))
    }

    /// Kind, number of the namespace and name of a vertex.
    pub(super) fn key(&self, index: u32) -> Option<(VertexKind, u32, String)> {
        let record = self.0.record(index);
        let Parts { kind, namespace, name, length, .. } = Parts::of(record);
        let kind = VertexKind::ALL.into_iter().find(|known| *known as u8 == kind)?;
        Some((kind, namespace, String::from_utf8(record.text(name, length).into_vec()).ok()?))
    }

    /// The numbers of all vertices of a kind.
    pub(super) fn of_kind(&self, kind: VertexKind) -> impl Iterator<Item = u32> {
        self.0.indices().filter(move |index| kind_in(self.0.word(index + HEAD)) == kind as u8)
    }

    /// The number of vertices.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Reads what the removal of a vertex in this namespace will read, for prefetching only. Returns the vertex's mark, and what
    /// was read.
    pub(super) fn ahead(&self, index: u32, namespace: &str, hashes: Hashes<'_>) -> (u32, u64) {
        let (kind, name) = Parts::kind_and_name(self.0.record(index));
        let mark = mark_of(hashes.of_parts(kind, namespace.as_bytes(), &name));
        (mark, self.0.ahead(mark))
    }
}

/// A change of one shard.
#[derive(Debug)]
pub(super) struct ShardEdit<'t> {
    edit: Edit<'t>,
    hashes: Hashes<'t>,
}

impl<'t> ShardEdit<'t> {
    /// Creates a vertex. The caller has checked that the key is absent. If a node is given, one holder has one reference from
    /// it; otherwise nobody holds the vertex and no node reaches it.
    ///
    /// # Errors
    /// The shard is full, or the name is too long. Then nothing has changed.
    pub(super) fn insert(
        &mut self,
        spot: &Spot<'_>,
        first: Option<NodeId>,
        links: &[VertexId],
    ) -> Result<u32, VertexError> {
        let index = self.write(spot, node_set::referred(first), links)?;
        let slot = Slot::new(spot.mark, first.map_or(Tag::ANY, NodeId::tag), index);
        if let Err(error) = self.edit.place(slot) {
            let size = Parts::of(self.edit.table.record(index)).size();
            self.edit.free(index, size);
            return Err(error);
        }
        Ok(index)
    }

    /// Gives a vertex other links, and with them another number. Its nodes and its holders stay.
    ///
    /// # Errors
    /// The shard is full. Then nothing has changed.
    pub(super) fn relink(
        &mut self,
        index: u32,
        spot: &Spot<'_>,
        links: &[VertexId],
    ) -> Result<u32, VertexError> {
        let table = self.edit.table;
        let old = table.record(index);
        let nodes = old.word(NODES);
        let new = self.write(spot, nodes, links)?;
        self.edit.replace(spot.mark, index, Slot::new(spot.mark, node_set::tag(table, nodes), new));
        self.edit.free(index, Parts::of(old).size());
        Ok(new)
    }

    fn write(&mut self, spot: &Spot<'_>, nodes: u32, links: &[VertexId]) -> Result<u32, VertexError> {
        let kind = spot.kind as u8;
        let length = u16::try_from(spot.name.len()).map(u32::from).map_err(|_| VertexError::NameTooLong)?;
        let count = u32::try_from(links.len()).map_err(|_| VertexError::Full)?;
        let (few, is_counted) = (count.min(ELSEWHERE), is_counted(kind));
        let short = length.min(ELSEWHERE);
        let long = (short == ELSEWHERE).then_some(length);
        let many = (is_counted && few == ELSEWHERE).then_some(count);
        let claim = is_claim(kind).then_some(NO_LINKS);
        let name = LONG + u32::from(long.is_some());
        let after = name + (length + u32::from(is_counted)).div_ceil(4);
        let first_link = after + u32::from(many.is_some()) + u32::from(claim.is_some());
        let index = self.edit.keep(first_link + count, MOST)?;
        let record = self.edit.table.record(index);
        self.edit.set(record, HEAD, head(spot.kind, short, spot.namespace));
        self.edit.set(record, NODES, nodes);
        long.into_iter().for_each(|length| self.edit.set(record, LONG, length));
        self.edit.set_text(record, name, spot.name.as_bytes(), is_counted.then_some(few as u8));
        many.or(claim).into_iter().for_each(|word| self.edit.set(record, after, word));
        for (number, link) in (first_link..).zip(links) {
            self.edit.set(record, number, link.0);
        }
        Ok(index)
    }

    /// A vertex, to be changed. Its mark is found when it is needed, if it is not known.
    pub(super) fn vertex(&mut self, index: u32, mark: Option<u32>) -> VertexEdit<'_, 't> {
        let record = self.edit.table.record(index);
        VertexEdit { edit: &mut self.edit, hashes: self.hashes, index, record, mark }
    }
}

/// A change of one vertex.
#[derive(Debug)]
pub(super) struct VertexEdit<'e, 't> {
    edit: &'e mut Edit<'t>,
    hashes: Hashes<'t>,
    index: u32,
    record: Record<'t>,
    mark: Option<u32>,
}

impl<'t> VertexEdit<'_, 't> {
    fn mark(&self) -> u32 {
        self.mark.unwrap_or_else(|| Parts::of(self.record).mark(self.record, self.hashes))
    }

    fn nodes(&mut self) -> Option<NodeSet<'_, 't>> {
        let word = self.record.cell(NODES)?;
        Some(NodeSet::at(self.edit, word))
    }

    /// Removes the vertex, and returns the number of its namespace; zero if it is gone already. Its space is reused.
    pub(super) fn remove(&mut self) -> u32 {
        let parts = Parts::of(self.record);
        let mark = self.mark.unwrap_or_else(|| parts.mark(self.record, self.hashes));
        if !self.edit.displace(mark, self.index) {
            return 0;
        }
        if let Some(mut nodes) = self.nodes() {
            nodes.clear();
        }
        self.edit.free(self.index, parts.size());
        parts.namespace
    }

    /// Removes a vertex without holders, and returns the number of its namespace if it did.
    pub(super) fn remove_if_unheld(&mut self) -> Option<u32> {
        (node_set::holders(self.edit.table, self.record.word(NODES)) == 0).then(|| self.remove())
    }

    /// Adds one reference from a node; true if it is the node's first.
    pub(super) fn add(&mut self, node: NodeId) -> bool {
        self.change_nodes(|nodes| nodes.add(node))
    }

    /// Removes one reference from a node; true if it was the node's last.
    pub(super) fn take(&mut self, node: NodeId) -> bool {
        self.change_nodes(|nodes| nodes.take(node))
    }

    /// Adds a holder with one reference from a node; true if it is the node's first.
    pub(super) fn refer(&mut self, node: NodeId) -> bool {
        self.change_nodes(|nodes| nodes.refer(node))
    }

    /// Removes a holder with one reference from a node; true if it was the node's last.
    pub(super) fn unrefer(&mut self, node: NodeId) -> bool {
        self.change_nodes(|nodes| nodes.unrefer(node))
    }

    /// Changes the nodes of the vertex, and the tag in its slot with them.
    fn change_nodes(&mut self, change: impl FnOnce(&mut NodeSet<'_, '_>) -> bool) -> bool {
        let Some(mut nodes) = self.nodes() else { return false };
        let before = nodes.tag();
        let answer = change(&mut nodes);
        let after = nodes.tag();
        if after != before {
            let mark = self.mark();
            self.edit.replace(mark, self.index, Slot::new(mark, after, self.index));
        }
        answer
    }

    /// Adds a holder: an object that refers to the vertex, or the vertex's own object.
    pub(super) fn hold(&mut self) {
        if let Some(mut nodes) = self.nodes() {
            nodes.hold();
        }
    }

    /// Removes a holder. The vertex remains until [`VertexEdit::remove_if_unheld`].
    pub(super) fn unhold(&mut self) {
        if let Some(mut nodes) = self.nodes() {
            nodes.unhold();
        }
    }

    /// See [`Shard::claim_link`].
    pub(super) fn claim_link(&self) -> u32 {
        claim_link(self.record)
    }

    /// Sets the link of a claim.
    pub(super) fn set_link(&mut self, link: u32) {
        let Parts { kind, links, .. } = Parts::of(self.record);
        if is_claim(kind) {
            self.edit.set_all(self.record, links, [link]);
        }
    }
}

fn claim_link(record: Record<'_>) -> u32 {
    if is_claim(kind_in(record.word(HEAD))) { record.word(Parts::of(record).links) } else { NO_LINKS }
}

/// Whether a record is that of an object.
fn is_at(record: Record<'_>, kind: VertexKind, name: &str, is_namespace: impl Fn(u32) -> bool) -> bool {
    let length = name.len();
    let short = u32::try_from(length).map_or(ELSEWHERE, |length| length.min(ELSEWHERE));
    let is_long = short == ELSEWHERE;
    let of_record = record.word(HEAD);
    of_record & ((1 << (KIND_BITS + LENGTH_BITS)) - 1) == head(kind, short, 0)
        && (!is_long || record.word(LONG) as usize == length)
        && record.has_text(LONG + u32::from(is_long), name.as_bytes())
        && is_namespace(of_record >> (KIND_BITS + LENGTH_BITS))
}

fn kind_in(head: u32) -> u8 {
    (head & ((1 << KIND_BITS) - 1)) as u8
}

fn head(kind: VertexKind, length: u32, namespace: u32) -> u32 {
    namespace << (KIND_BITS + LENGTH_BITS) | length << KIND_BITS | kind as u32
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use hashbrown::DefaultHashBuilder;
    use proptest::prelude::*;

    use super::super::names::Names;
    use super::*;

    /// Asks for the secret "b" of a node whose number is given to another node while the shard is read: the vertex is removed then.
    struct Interrupted<'s> {
        shard: &'s Shard,
        space: RefCell<Space>,
        hashes: Hashes<'s>,
        index: u32,
        interruptions: Cell<u32>,
    }

    impl Question for Interrupted<'_> {
        fn object(&self) -> (VertexKind, &str) {
            (VertexKind::Secret, "b")
        }

        fn is_namespace(&self, number: u32) -> bool {
            number == 0
        }

        fn tag(&self) -> Tag {
            NodeId(1 << 20).tag()
        }

        fn is_node(&self, _: NodeId) -> bool {
            self.interruptions.set(self.interruptions.get() + 1);
            let mut space = self.space.borrow_mut();
            self.shard.edit(&mut space, self.hashes).vertex(self.index, None).remove();
            true
        }

        fn node(&self) -> Option<NodeId> {
            None
        }
    }

    /// NA-107
    #[test]
    fn what_was_read_before_a_change_is_not_the_answer_after_it() {
        let (hasher, names) = (DefaultHashBuilder::default(), Names::default());
        let hashes = Hashes { hasher: &hasher, namespaces: &names };
        let (shard, mut space) = (Shard::default(), Space::default());
        let mark = mark_of(hashes.of_vertex(VertexKind::Secret as u8, 0, b"b"));
        let spot = Spot { kind: VertexKind::Secret, namespace: 0, name: "b", mark };
        let index = shard.edit(&mut space, hashes).insert(&spot, Some(NodeId(1 << 20)), &[]).unwrap();
        let interruptions = Cell::new(0);
        let question =
            Interrupted { shard: &shard, space: RefCell::new(space), hashes, index, interruptions };
        assert!(!shard.reaches(mark, &question));
        assert_eq!(question.interruptions.get(), 1);
    }

    /// Asks for a secret without a namespace.
    struct Asks(&'static str, NodeId);

    impl Question for Asks {
        fn object(&self) -> (VertexKind, &str) {
            (VertexKind::Secret, self.0)
        }

        fn is_namespace(&self, number: u32) -> bool {
            number == 0
        }

        fn tag(&self) -> Tag {
            self.1.tag()
        }

        fn is_node(&self, id: NodeId) -> bool {
            self.1 == id
        }

        fn node(&self) -> Option<NodeId> {
            Some(self.1)
        }
    }

    proptest! {
        #[test]
        fn a_vertex_has_what_it_was_made_with(
            kind in prop::sample::select(VertexKind::ALL.to_vec()),
            namespace in 0_u32..1 << 20,
            name in prop_oneof![".{0,20}", "[a-z]{250,260}"],
            links in prop_oneof![prop::collection::vec(0_u32..1 << 30, 0..6), prop::collection::vec(0_u32..1 << 30, 250..260)],
            others in prop::collection::vec(0_u32..1 << 30, 0..300),
        ) {
            let (hasher, names) = (DefaultHashBuilder::default(), Names::default());
            let hashes = Hashes { hasher: &hasher, namespaces: &names };
            let (shard, mut space) = (Shard::default(), Space::default());
            let mark = mark_of(hashes.of_vertex(kind as u8, 0, name.as_bytes()));
            let spot = Spot { kind, namespace, name: &name, mark };
            let is_linked = is_counted(kind as u8);
            let ids = |links: &[u32]| -> Vec<VertexId> {
                links.iter().filter(|_| is_linked).map(|link| VertexId(*link)).collect()
            };
            let expected = |links: &[VertexId]| -> Vec<u32> {
                links.iter().map(|id| id.0).chain(is_claim(kind as u8).then_some(NO_LINKS)).collect()
            };
            let mut edit = shard.edit(&mut space, hashes);
            let mut index = edit.insert(&spot, None, &ids(&links)).unwrap();
            edit.vertex(index, None).hold();
            prop_assert_eq!(shard.links(index).collect::<Vec<_>>(), expected(&ids(&links)));
            if is_linked {
                index = edit.relink(index, &spot, &ids(&others)).unwrap();
                prop_assert_eq!(shard.links(index).collect::<Vec<_>>(), expected(&ids(&others)));
            }
            prop_assert!(edit.vertex(index, None).add(NodeId(5)));
            prop_assert_eq!(shard.find(&spot), Some(index));
            prop_assert_eq!(shard.key(index), Some((kind, namespace, name.clone())));
            prop_assert_eq!(shard.of_kind(kind).collect::<Vec<_>>(), vec![index]);
            let longer = format!("{name}x");
            prop_assert_eq!(shard.find(&Spot { name: &longer, ..spot }), None);
            prop_assert_eq!(shard.find(&Spot { namespace: namespace ^ 1, ..spot }), None);
            prop_assert_eq!(edit.vertex(index, None).remove_if_unheld(), None);
            edit.vertex(index, None).unhold();
            prop_assert_eq!(edit.vertex(index, None).remove_if_unheld(), Some(namespace));
            prop_assert_eq!((shard.find(&spot), shard.len()), (None, 0));
        }

        #[test]
        fn a_tag_rules_no_node_out_that_reaches_the_vertex(
            first in prop::option::of(0_u32..6),
            steps in prop::collection::vec((any::<bool>(), 0_u32..6), 0..60),
        ) {
            let (hasher, names) = (DefaultHashBuilder::default(), Names::default());
            let hashes = Hashes { hasher: &hasher, namespaces: &names };
            // Two nodes of each tag.
            let node = |number: u32| NodeId(((number / 2 + 1) << 20) | (number % 2));
            let named = |name: &'static str| {
                let mark = mark_of(hashes.of_vertex(VertexKind::Secret as u8, 0, name.as_bytes()));
                Spot { kind: VertexKind::Secret, namespace: 0, name, mark }
            };
            let (spot, other) = (named("b"), named("c"));
            let (shard, mut space) = (Shard::default(), Space::default());
            let mut edit = shard.edit(&mut space, hashes);
            edit.insert(&other, None, &[]).unwrap();
            let index = edit.insert(&spot, first.map(node), &[]).unwrap();
            drop(edit);
            let mut counts = [0_u32; 6];
            first.into_iter().for_each(|number| counts[number as usize] = 1);
            for (add, number) in steps {
                let count = &mut counts[number as usize];
                let mut edit = shard.edit(&mut space, hashes);
                if add {
                    prop_assert_eq!(edit.vertex(index, None).add(node(number)), *count == 0);
                    *count += 1;
                } else {
                    prop_assert_eq!(edit.vertex(index, None).take(node(number)), *count == 1);
                    *count = count.saturating_sub(1);
                }
                drop(edit);
                for (number, count) in (0..).zip(counts) {
                    prop_assert_eq!(shard.reaches(spot.mark, &Asks("b", node(number))), count > 0);
                }
                let reaching = (0..).zip(counts).filter(|(_, count)| *count > 0).map(|(number, _)| node(number));
                if let [only] = reaching.collect::<Vec<_>>()[..] {
                    let tag = shard.0.find(spot.mark, |slot| (slot.index() == index).then_some(slot.tag()));
                    prop_assert_eq!(tag, Some(only.tag()));
                }
            }
        }
    }
}
