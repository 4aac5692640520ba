//! One part of the vertex table: keys, and the nodes that reach each vertex. Plain data without locks.
//!
//! A vertex takes sixteen bytes, a hash slot and its name. Names lie one after another in one buffer, which is
//! compacted when more than half of it is garbage.

use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::VertexKind;
use super::node_set::{Beside, NodeSet};
use super::nodes::NodeId;

/// What identifies a vertex (section 4 of the Node authorizer's rules). Cluster-scoped kinds have no namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key<'a> {
    pub(super) kind: VertexKind,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl Key<'_> {
    pub(super) fn hash(&self, hasher: &DefaultHashBuilder) -> u64 {
        hash_parts(hasher, self.kind, self.namespace.as_bytes(), self.name.as_bytes())
    }
}

fn hash_parts(hasher: &DefaultHashBuilder, kind: VertexKind, namespace: &[u8], name: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    // The length of the namespace keeps "a" + "bc" apart from "ab" + "c".
    (((namespace.len() as u64) << 8) | kind as u64).hash(&mut state);
    state.write(namespace);
    state.write(name);
    state.finish()
}

#[derive(Clone, Copy, Debug)]
struct Vertex {
    name_at: u32,
    /// Namespace and name together, in bytes.
    name_length: u16,
    namespace_length: u8,
    kind: VertexKind,
    nodes: NodeSet,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shard {
    table: HashTable<u32>,
    vertices: Vec<Vertex>,
    free: Vec<u32>,
    names: Vec<u8>,
    garbage: usize,
    beside: Beside,
}

/// A vertex that the table cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VertexError {
    /// More vertices, nodes or name bytes than the table can count.
    #[error("the index is full")]
    Full,
    /// A namespace over 255 bytes, or namespace and name together over 65,535.
    #[error("the name or the namespace is too long to be one of Kubernetes")]
    NameTooLong,
}

/// Garbage below this is not worth compacting, in bytes.
const LITTLE_GARBAGE: usize = 4096;

impl Shard {
    /// The place of a vertex.
    pub(super) fn find(&self, hash: u64, key: &Key<'_>) -> Option<u32> {
        self.table.find(hash, |index| self.is_at(*index, key)).copied()
    }

    fn is_at(&self, index: u32, key: &Key<'_>) -> bool {
        let Some(vertex) = self.vertices.get(index as usize) else { return false };
        if vertex.kind != key.kind
            || usize::from(vertex.namespace_length) != key.namespace.len()
            || usize::from(vertex.name_length) != key.namespace.len() + key.name.len()
        {
            return false;
        }
        let (namespace, name) = self.parts(vertex);
        name == key.name.as_bytes() && namespace == key.namespace.as_bytes()
    }

    fn parts(&self, vertex: &Vertex) -> (&[u8], &[u8]) {
        let at = vertex.name_at as usize;
        let whole = self.names.get(at..at + usize::from(vertex.name_length)).unwrap_or_default();
        whole.split_at_checked(usize::from(vertex.namespace_length)).unwrap_or_default()
    }

    /// Whether a node reaches the vertex of this key. The whole of a decision.
    pub(super) fn reaches(&self, hash: u64, key: &Key<'_>, node: NodeId) -> bool {
        self.find(hash, key).is_some_and(|index| self.contains(index, node))
    }

    pub(super) fn contains(&self, index: u32, node: NodeId) -> bool {
        self.vertices.get(index as usize).is_some_and(|v| v.nodes.contains(node, &self.beside))
    }

    /// Makes a vertex. The caller has found that there is none of this key.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        key: &Key<'_>,
        hasher: &DefaultHashBuilder,
    ) -> Result<u32, VertexError> {
        let namespace_length = u8::try_from(key.namespace.len()).map_err(|_| VertexError::NameTooLong)?;
        let name_length =
            u16::try_from(key.namespace.len() + key.name.len()).map_err(|_| VertexError::NameTooLong)?;
        if self.garbage > LITTLE_GARBAGE && self.garbage > self.names.len() / 2 {
            self.compact_names();
        }
        let name_at = u32::try_from(self.names.len()).map_err(|_| VertexError::Full)?;
        let next = u32::try_from(self.vertices.len()).map_err(|_| VertexError::Full)?;
        if next >= super::VertexId::MAX_INDEX && self.free.is_empty() {
            return Err(VertexError::Full);
        }
        let vertex = Vertex { name_at, name_length, namespace_length, kind: key.kind, nodes: NodeSet::EMPTY };
        grow(&mut self.names, usize::from(name_length));
        self.names.extend_from_slice(key.namespace.as_bytes());
        self.names.extend_from_slice(key.name.as_bytes());
        let index = match self.free.pop() {
            Some(index) => {
                if let Some(slot) = self.vertices.get_mut(index as usize) {
                    *slot = vertex;
                }
                index
            }
            None => {
                grow(&mut self.vertices, 1);
                self.vertices.push(vertex);
                next
            }
        };
        let Self { table, vertices, names, .. } = self;
        table.insert_unique(hash, index, |other| hash_of(*other, vertices, names, hasher));
        Ok(index)
    }

    /// Removes a vertex; its place will be used again.
    pub(super) fn remove(&mut self, index: u32, hasher: &DefaultHashBuilder) {
        let hash = hash_of(index, &self.vertices, &self.names, hasher);
        let Ok(entry) = self.table.find_entry(hash, |other| *other == index) else { return };
        entry.remove();
        self.free.push(index);
        if let Some(vertex) = self.vertices.get_mut(index as usize) {
            vertex.nodes.clear(&mut self.beside);
            self.garbage += usize::from(vertex.name_length);
        }
    }

    /// One reference more from a node; true when it is the node's first.
    pub(super) fn add(&mut self, index: u32, node: NodeId) -> bool {
        self.vertices.get_mut(index as usize).is_some_and(|v| v.nodes.add(node, &mut self.beside))
    }

    /// One reference less from a node; true when it was the node's last.
    pub(super) fn take(&mut self, index: u32, node: NodeId) -> bool {
        self.vertices.get_mut(index as usize).is_some_and(|v| v.nodes.take(node, &mut self.beside))
    }

    /// The nodes that reach a vertex.
    pub(super) fn nodes(&self, index: u32) -> Vec<NodeId> {
        self.vertices.get(index as usize).map(|v| v.nodes.nodes(&self.beside)).unwrap_or_default()
    }

    /// Kind, namespace and name of a vertex.
    pub(super) fn key(&self, index: u32) -> Option<(VertexKind, String, String)> {
        let vertex = self.vertices.get(index as usize)?;
        let (namespace, name) = self.parts(vertex);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((vertex.kind, text(namespace), text(name)))
    }

    /// The places of all vertices of a kind.
    pub(super) fn of_kind(&self, kind: VertexKind) -> impl Iterator<Item = u32> + '_ {
        self.table
            .iter()
            .copied()
            .filter(move |index| self.vertices.get(*index as usize).is_some_and(|v| v.kind == kind))
    }

    /// How many vertices there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    fn compact_names(&mut self) {
        let mut names = Vec::with_capacity(self.names.len() - self.garbage);
        for index in &self.table {
            let Some(vertex) = self.vertices.get_mut(*index as usize) else { continue };
            let at = vertex.name_at as usize;
            let name = self.names.get(at..at + usize::from(vertex.name_length)).unwrap_or_default();
            // The new buffer is shorter than the old one, whose every offset fitted.
            vertex.name_at = u32::try_from(names.len()).unwrap_or(u32::MAX);
            names.extend_from_slice(name);
        }
        self.names = names;
        self.garbage = 0;
    }
}

fn hash_of(index: u32, vertices: &[Vertex], names: &[u8], hasher: &DefaultHashBuilder) -> u64 {
    let Some(vertex) = vertices.get(index as usize) else { return 0 };
    let at = vertex.name_at as usize;
    let whole = names.get(at..at + usize::from(vertex.name_length)).unwrap_or_default();
    let (namespace, name) = whole.split_at_checked(usize::from(vertex.namespace_length)).unwrap_or_default();
    hash_parts(hasher, vertex.kind, namespace, name)
}

/// Makes room for `more`, growing by an eighth: sixty-four of these grow side by side, and doubling would leave half
/// of them empty.
fn grow<T>(items: &mut Vec<T>, more: usize) {
    if items.capacity() - items.len() < more {
        items.reserve_exact(more.max(items.len() / 8).max(64));
    }
}
