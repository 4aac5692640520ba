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

use super::node_set::{self, NodeSet};
use super::table::{Bytes, Edit, Slot, Space, Table};
use super::vertex::{Hashes, NO_LINKS, NodeId, Tag, VertexError, VertexId, VertexKind};

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

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shard(Table);

/// Where the parts of a record are.
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
    fn of(table: &Table, index: u32) -> Self {
        let head = table.word(index + HEAD);
        let kind = (head & ((1 << KIND_BITS) - 1)) as u8;
        let (mut name, mut length) = (index + LONG, head >> KIND_BITS & ((1 << LENGTH_BITS) - 1));
        if length == ELSEWHERE {
            length = table.word(name);
            name += 1;
        }
        let bytes = length + u32::from(is_counted(kind));
        let mut links = name + bytes.div_ceil(4);
        let mut count = if is_counted(kind) {
            table.word(name + length / 4).to_le_bytes().get(length as usize % 4).copied().map_or(0, u32::from)
        } else {
            u32::from(is_claim(kind))
        };
        if count == ELSEWHERE {
            count = table.word(links);
            links += 1;
        }
        Self { kind, namespace: head >> (KIND_BITS + LENGTH_BITS), name, length, links, count }
    }

    fn size(self, index: u32) -> u32 {
        self.links + self.count - index
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
        self.0.find(spot.mark, |slot| self.is_at(slot.index(), spot).then_some(slot.index()))
    }

    /// Returns whether a node reaches the vertex of a key. This is the whole decision. The key's namespace and the node are
    /// looked up only if the tag does not rule the node out, and while the shard is read.
    pub(super) fn reaches<'n>(
        &self,
        mark: u32,
        tag: Tag,
        spot: impl Fn() -> Option<Spot<'n>>,
        node: impl Fn() -> Option<NodeId>,
    ) -> bool {
        self.0.read(|| {
            let answer = self.0.find(mark, |slot| {
                if slot.tag() != Tag::ANY && slot.tag() != tag {
                    return None;
                }
                let is_it = spot().is_some_and(|spot| self.is_at(slot.index(), &spot));
                is_it.then(|| node().is_some_and(|node| self.contains(slot.index(), node)))
            });
            answer.unwrap_or(false)
        })
    }

    fn is_at(&self, index: u32, spot: &Spot<'_>) -> bool {
        let length = spot.name.len();
        let short = u32::try_from(length).map_or(ELSEWHERE, |length| length.min(ELSEWHERE));
        if self.0.word(index + HEAD) != head(spot.kind, short, spot.namespace) {
            return false;
        }
        let is_long = short == ELSEWHERE;
        (!is_long || self.0.word(index + LONG) as usize == length)
            && self.0.has_text(index + LONG + u32::from(is_long), spot.name.as_bytes())
    }

    fn contains(&self, index: u32, node: NodeId) -> bool {
        node_set::contains(&self.0, self.0.word(index + NODES), node)
    }

    /// Begins a change. Readers of the shard wait until it is dropped.
    pub(super) fn edit<'t>(&'t self, space: &'t mut Space, hashes: Hashes<'t>) -> ShardEdit<'t> {
        ShardEdit { edit: self.0.edit(space), shard: self, hashes }
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
        let Parts { links, count, .. } = Parts::of(&self.0, index);
        self.0.words(links).take(count as usize)
    }

    /// The link of a claim; [`NO_LINKS`] of other vertices, and of a claim without volumes.
    pub(super) fn claim_link(&self, index: u32) -> u32 {
        let kind = (self.0.word(index + HEAD) & ((1 << KIND_BITS) - 1)) as u8;
        if is_claim(kind) { self.links(index).next().unwrap_or(NO_LINKS) } else { NO_LINKS }
    }

    /// Kind, number of the namespace and name of a vertex.
    pub(super) fn key(&self, index: u32) -> Option<(VertexKind, u32, String)> {
        let Parts { kind, namespace, name, length, .. } = Parts::of(&self.0, index);
        let kind = VertexKind::ALL.into_iter().find(|known| *known as u8 == kind)?;
        Some((kind, namespace, String::from_utf8(self.0.text(name, length).into_vec()).ok()?))
    }

    /// The numbers of all vertices of a kind.
    pub(super) fn of_kind(&self, kind: VertexKind) -> impl Iterator<Item = u32> {
        let kind_of = |index: u32| self.0.word(index + HEAD) & ((1 << KIND_BITS) - 1);
        self.0.indices().filter(move |index| kind_of(*index) == kind as u32)
    }

    /// The number of vertices.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Reads what a change of a vertex will read, for prefetching only.
    pub(super) fn ahead(&self, index: u32, hashes: Hashes<'_>) -> u64 {
        self.0.ahead(self.mark(index, hashes))
    }

    fn mark(&self, index: u32, hashes: Hashes<'_>) -> u32 {
        let Parts { kind, namespace, name, length, .. } = Parts::of(&self.0, index);
        mark_of(hashes.of_parts(kind, namespace, &self.0.text(name, length)))
    }
}

/// A change of one shard.
#[derive(Debug)]
pub(super) struct ShardEdit<'t> {
    edit: Edit<'t>,
    shard: &'t Shard,
    hashes: Hashes<'t>,
}

impl ShardEdit<'_> {
    /// Creates a vertex that nobody holds and no node reaches. The caller has checked that the key is absent, and passes the
    /// node, if any, that will be added first; this saves finding the slot again.
    ///
    /// # Errors
    /// The shard is full, or the name is too long. Then nothing has changed.
    pub(super) fn insert(
        &mut self,
        spot: &Spot<'_>,
        first: Option<NodeId>,
        links: &[VertexId],
    ) -> Result<u32, VertexError> {
        let index = self.write(spot, node_set::expecting(first), links)?;
        let slot = Slot::new(spot.mark, first.map_or(Tag::ANY, NodeId::tag), index);
        if let Err(error) = self.edit.place(slot) {
            self.free(index);
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
        let nodes = table.word(index + NODES);
        let new = self.write(spot, nodes, links)?;
        self.edit.replace(spot.mark, index, Slot::new(spot.mark, node_set::tag(table, nodes), new));
        self.free(index);
        Ok(new)
    }

    fn write(&mut self, spot: &Spot<'_>, nodes: u32, links: &[VertexId]) -> Result<u32, VertexError> {
        let kind = spot.kind as u8;
        let length = u16::try_from(spot.name.len()).map(u32::from).map_err(|_| VertexError::NameTooLong)?;
        let count = u32::try_from(links.len()).map_err(|_| VertexError::Full)?;
        let few = count.min(ELSEWHERE);
        let mut text = Bytes::from_slice(spot.name.as_bytes());
        if is_counted(kind) {
            text.push(few as u8);
        }
        let short = length.min(ELSEWHERE);
        let long = (short == ELSEWHERE).then_some(length);
        let many = (is_counted(kind) && few == ELSEWHERE).then_some(count);
        let words = text.len().div_ceil(4) as u32;
        let claim = is_claim(kind).then_some(NO_LINKS);
        let before = many.into_iter().chain(claim);
        let size = LONG + u32::from(long.is_some()) + words + before.clone().count() as u32 + count;
        let index = self.edit.keep(size, MOST)?;
        self.edit.set_all(index, [head(spot.kind, short, spot.namespace), nodes].into_iter().chain(long));
        let name = index + LONG + u32::from(long.is_some());
        self.edit.set_text(name, &text);
        self.edit.set_all(name + words, before.chain(links.iter().map(|id| id.0)));
        Ok(index)
    }

    fn free(&mut self, index: u32) {
        let size = Parts::of(self.edit.table, index).size(index);
        self.edit.free(index, size);
    }

    /// Removes a vertex, and returns the number of its namespace. Its space is reused.
    pub(super) fn remove(&mut self, index: u32) -> u32 {
        let Parts { namespace, .. } = Parts::of(self.edit.table, index);
        let mark = self.shard.mark(index, self.hashes);
        self.edit.displace(mark, index);
        NodeSet::at(&mut self.edit, index + NODES).clear();
        self.free(index);
        namespace
    }

    /// Removes a vertex without holders, and returns the number of its namespace if it did.
    pub(super) fn remove_if_unheld(&mut self, index: u32) -> Option<u32> {
        let table = self.edit.table;
        (node_set::holders(table, table.word(index + NODES)) == 0).then(|| self.remove(index))
    }

    /// Adds one reference from a node; true if it is the node's first.
    pub(super) fn add(&mut self, index: u32, node: NodeId) -> bool {
        self.change_nodes(index, |nodes| nodes.add(node))
    }

    /// Removes one reference from a node; true if it was the node's last.
    pub(super) fn take(&mut self, index: u32, node: NodeId) -> bool {
        self.change_nodes(index, |nodes| nodes.take(node))
    }

    /// Changes the nodes of a vertex, and the tag in its slot with them.
    fn change_nodes(&mut self, index: u32, change: impl FnOnce(&mut NodeSet<'_, '_>) -> bool) -> bool {
        let table = self.edit.table;
        let tag = |at: u32| node_set::tag(table, table.word(at));
        let at = index + NODES;
        let before = tag(at);
        let answer = change(&mut NodeSet::at(&mut self.edit, at));
        let after = tag(at);
        if after != before {
            let mark = self.shard.mark(index, self.hashes);
            self.edit.replace(mark, index, Slot::new(mark, after, index));
        }
        answer
    }

    /// Adds a holder: an object that refers to the vertex, or the vertex's own object.
    pub(super) fn hold(&mut self, index: u32) {
        NodeSet::at(&mut self.edit, index + NODES).hold();
    }

    /// Removes a holder. The vertex remains until [`ShardEdit::remove_if_unheld`].
    pub(super) fn unhold(&mut self, index: u32) {
        NodeSet::at(&mut self.edit, index + NODES).unhold();
    }

    /// See [`Shard::claim_link`].
    pub(super) fn claim_link(&self, index: u32) -> u32 {
        self.shard.claim_link(index)
    }

    /// Sets the link of a claim.
    pub(super) fn set_link(&mut self, index: u32, link: u32) {
        let Parts { kind, links, .. } = Parts::of(self.edit.table, index);
        if is_claim(kind) {
            self.edit.set(links, link);
        }
    }
}

fn head(kind: VertexKind, length: u32, namespace: u32) -> u32 {
    namespace << (KIND_BITS + LENGTH_BITS) | length << KIND_BITS | kind as u32
}

/// The part of a hash that is stored. The lower half selects the shard.
pub(super) fn mark_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use hashbrown::DefaultHashBuilder;
    use proptest::prelude::*;

    use super::super::names::Numbers;
    use super::*;

    proptest! {
        #[test]
        fn a_vertex_has_what_it_was_made_with(
            kind in prop::sample::select(VertexKind::ALL.to_vec()),
            namespace in 0_u32..1 << 20,
            name in prop_oneof![".{0,20}", "[a-z]{250,260}"],
            links in prop_oneof![prop::collection::vec(0_u32..1 << 30, 0..6), prop::collection::vec(0_u32..1 << 30, 250..260)],
            others in prop::collection::vec(0_u32..1 << 30, 0..300),
        ) {
            let (hasher, numbers) = (DefaultHashBuilder::default(), Numbers::default());
            let hashes = Hashes { hasher: &hasher, namespaces: &numbers };
            let (shard, mut space) = (Shard::default(), Space::default());
            let mark = mark_of(hashes.of_parts(kind as u8, namespace, name.as_bytes()));
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
            edit.hold(index);
            prop_assert_eq!(shard.links(index).collect::<Vec<_>>(), expected(&ids(&links)));
            if is_linked {
                index = edit.relink(index, &spot, &ids(&others)).unwrap();
                prop_assert_eq!(shard.links(index).collect::<Vec<_>>(), expected(&ids(&others)));
            }
            prop_assert!(edit.add(index, NodeId(5)));
            prop_assert_eq!(shard.find(&spot), Some(index));
            prop_assert_eq!(shard.key(index), Some((kind, namespace, name.clone())));
            prop_assert_eq!(shard.of_kind(kind).collect::<Vec<_>>(), vec![index]);
            let longer = format!("{name}x");
            prop_assert_eq!(shard.find(&Spot { name: &longer, ..spot }), None);
            prop_assert_eq!(shard.find(&Spot { namespace: namespace ^ 1, ..spot }), None);
            prop_assert_eq!(edit.remove_if_unheld(index), None);
            edit.unhold(index);
            prop_assert_eq!(edit.remove_if_unheld(index), Some(namespace));
            prop_assert_eq!((shard.find(&spot), shard.len()), (None, 0));
        }

        #[test]
        fn a_tag_rules_no_node_out_that_reaches_the_vertex(
            first in prop::option::of(0_u32..6),
            steps in prop::collection::vec((any::<bool>(), 0_u32..6), 0..60),
        ) {
            let (hasher, numbers) = (DefaultHashBuilder::default(), Numbers::default());
            let hashes = Hashes { hasher: &hasher, namespaces: &numbers };
            // Two nodes of each tag.
            let node = |number: u32| NodeId(((number / 2 + 1) << 20) | (number % 2));
            let named = |name: &'static str| {
                let mark = mark_of(hashes.of_parts(VertexKind::Secret as u8, 0, name.as_bytes()));
                Spot { kind: VertexKind::Secret, namespace: 0, name, mark }
            };
            let (spot, other) = (named("b"), named("c"));
            let (shard, mut space) = (Shard::default(), Space::default());
            let mut edit = shard.edit(&mut space, hashes);
            edit.insert(&other, None, &[]).unwrap();
            let index = edit.insert(&spot, first.map(node), &[]).unwrap();
            drop(edit);
            let mut counts = [0_u32; 6];
            for (add, number) in steps {
                let count = &mut counts[number as usize];
                let mut edit = shard.edit(&mut space, hashes);
                if add {
                    prop_assert_eq!(edit.add(index, node(number)), *count == 0);
                    *count += 1;
                } else {
                    prop_assert_eq!(edit.take(index, node(number)), *count == 1);
                    *count = count.saturating_sub(1);
                }
                drop(edit);
                for (number, count) in (0..).zip(counts) {
                    let asks = node(number);
                    let answer = shard.reaches(spot.mark, asks.tag(), || Some(spot), || Some(asks));
                    prop_assert_eq!(answer, count > 0);
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
