//! The graph of the Node authorizer: an index of which node can reach which object (NA-27 to NA-71).
//!
//! ```text
//!   secret ─────────────┐
//!   configmap ──────────┤
//!   serviceaccount ─────┼──▶ pod ──▶ node
//!   resourceclaim ──────┤
//!   endpoints ──────────┤
//!   claim ──────────────┘
//!     ▲                      volumeattachment ──────▶ node
//!   volume                   resourceslice ─────────▶ node
//!     ▲                      podcertificaterequest ─▶ node
//!   secret, endpoints
//! ```
//!
//! An edge means that a node which may see the right end may read the left end. A wrong edge is a breach, a missing
//! edge an outage. Only the edges from a volume to the secrets of its source cross namespaces (NA-63).
//!
//! Paths are not searched. For each object the index keeps *which nodes reach it and through how many references*, so
//! a decision is one hash probe and one look into a small set, whatever the fan-out (NA-69), and a no costs no more than
//! a yes. A count goes with its last reference (NC-29).
//! The work is done when an object changes: its remembered references are compared with the new ones, and counts are
//! adjusted, new references before old ones, so that a reader sees the old or the new state of an object and never
//! the gap between (NA-41). Claims pass the nodes that reach them on to their volumes, and volumes to their secrets;
//! nothing else is passed on (NA-67).
//!
//! The graph depends only on the current objects, never on the order of events. DIVERGES: Kubernetes keeps some old
//! edges for some orders of events (NA-45 to NA-48, NA-54, NA-107 to NA-109).

mod apply;
mod changes;
mod explain;
mod hashes;
mod links;
mod names;
mod node_set;
mod reached;
mod referred;
mod shard;
mod slab;
mod table;
mod vertex;
mod words;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use hashbrown::DefaultHashBuilder;

pub use self::changes::NodeChanges;
pub use self::explain::{Path, Step};
use self::hashes::Hashes;
use self::names::{Hashed, Names};
pub use self::reached::{Reached, ReachedObject};
use self::shard::{Question, Shard};
use self::slab::Writer;
use self::table::mark_of;
use self::vertex::{Key, NodeId, SHARDS, Tag};
pub use self::vertex::{VertexError, VertexKind};

/// The reachability index. It is shared by any number of readers and one writer.
#[derive(Debug)]
pub struct Graph {
    hasher: DefaultHashBuilder,
    /// The nodes with bound objects (NA-27, NA-42).
    nodes: Names,
    /// The namespaces of the vertices.
    namespaces: Names,
    shards: Box<[Shard; SHARDS]>,
    writer: Mutex<Writer>,
    /// Whether all kinds of objects from which the graph is built (NA-38) have been listed. Before, no node reaches any
    /// object (NA-13).
    is_complete: AtomicBool,
    listener: OnceLock<Arc<dyn NodeChanges>>,
}

/// The size of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of nodes with bound objects.
    pub nodes: usize,
    /// The number of other vertices.
    pub vertices: usize,
}

/// The question whether a node reaches an object.
struct Asked<'q> {
    graph: &'q Graph,
    kind: VertexKind,
    namespace: &'q str,
    name: &'q str,
    node: Hashed<'q>,
}

impl Question for Asked<'_> {
    fn object(&self) -> (VertexKind, &str) {
        (self.kind, self.name)
    }

    fn is_namespace(&self, number: u32) -> bool {
        match number.checked_sub(1) {
            Some(number) => self.graph.namespaces.is(number, self.namespace),
            None => self.namespace.is_empty(),
        }
    }

    fn tag(&self) -> Tag {
        Tag::of(self.node.hash)
    }

    fn is_node(&self, id: NodeId) -> bool {
        self.graph.nodes.is(id.number(), self.node.name)
    }

    fn node(&self) -> Option<NodeId> {
        self.graph.nodes.find(self.node).map(|number| NodeId::new(self.node.hash, number))
    }
}

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    /// Creates an empty graph, which is not complete yet.
    pub fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            nodes: Names::default(),
            namespaces: Names::default(),
            shards: Box::new(std::array::from_fn(|_| Shard::default())),
            writer: Mutex::new(Writer::default()),
            is_complete: AtomicBool::new(false),
            listener: OnceLock::new(),
        }
    }

    /// Whether a node reaches an object (NA-64, NA-65): some object bound to the node refers to it, directly or through a
    /// claim and its volume. Nothing is reached before every source has been listed once (NA-13).
    ///
    /// Costs one hash probe for most denials; otherwise also the comparison of the names of the namespace and the node, or, if several
    /// nodes reach the object, one probe for the node and one for the set. No lock (NA-71) and no allocation.
    pub fn related(&self, kind: VertexKind, namespace: &str, name: &str, node: &str) -> bool {
        if !self.is_complete.load(Ordering::Acquire) {
            return false;
        }
        let hash = self.hashes().of(&Key { kind, namespace, name });
        let question = Asked { graph: self, kind, namespace, name, node: self.nodes.hashed(node) };
        self.shard_at(Self::shard_number(hash)).reaches(mark_of(hash), &question)
    }

    /// Marks the graph as complete: every kind of objects has been listed once.
    pub fn mark_complete(&self) {
        self.is_complete.store(true, Ordering::Release);
    }

    /// Returns the size of the graph, for metrics.
    pub fn size(&self) -> Size {
        Size { nodes: self.nodes.len(), vertices: self.shards.iter().map(Shard::len).sum() }
    }

    fn hashes(&self) -> Hashes<'_> {
        Hashes { hasher: &self.hasher, namespaces: &self.namespaces }
    }

    /// The ID of a node, if objects are bound to it.
    fn node(&self, name: &str) -> Option<NodeId> {
        let name = self.nodes.hashed(name);
        self.nodes.find(name).map(|number| NodeId::new(name.hash, number))
    }

    fn shard_number(hash: u64) -> u32 {
        // The lower bits; the upper ones find the slot within the shard.
        hash as u32 % SHARDS as u32
    }

    fn shard_at(&self, number: u32) -> &Shard {
        // The index is always in bounds, so the fallback to the first shard is never used.
        let [first, ..] = &*self.shards;
        self.shards.get(number as usize).unwrap_or(first)
    }
}
