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
mod links;
mod node_set;
mod nodes;
mod reached;
mod referred;
mod shard;
mod slab;
mod vertex;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use hashbrown::DefaultHashBuilder;

pub use self::changes::NodeChanges;
pub use self::explain::{Path, Step};
use self::nodes::Nodes;
pub use self::reached::{Reached, ReachedObject};
use self::shard::Shard;
use self::slab::Writer;
use self::vertex::Key;
pub use self::vertex::{VertexError, VertexKind};

const SHARDS: usize = 64;

/// The reachability index. It is shared by any number of readers and one writer.
#[derive(Debug)]
pub struct Graph {
    hasher: DefaultHashBuilder,
    nodes: Nodes,
    shards: [RwLock<Shard>; SHARDS],
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
            nodes: Nodes::new(),
            shards: std::array::from_fn(|_| RwLock::new(Shard::default())),
            writer: Mutex::new(Writer::default()),
            is_complete: AtomicBool::new(false),
            listener: OnceLock::new(),
        }
    }

    /// Whether a node reaches an object (NA-64, NA-65): some object bound to the node refers to it, directly or through a
    /// claim and its volume. Nothing is reached before every source has been listed once (NA-13).
    ///
    /// Costs one hash probe for most denials and two otherwise; no allocation. One lock is held meanwhile (NA-71).
    pub fn related(&self, kind: VertexKind, namespace: &str, name: &str, node: &str) -> bool {
        if !self.is_complete.load(Ordering::Acquire) {
            return false;
        }
        let asker = self.nodes.asker(node);
        let key = Key { kind, namespace, name };
        let hash = key.hash(&self.hasher);
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        // Only readers take the lock of the nodes while they hold that of the shard; no writer holds both.
        shard.reaches(hash, &key, asker.tag(), || self.nodes.find(asker))
    }

    /// Marks the graph as complete: every kind of objects has been listed once.
    pub fn mark_complete(&self) {
        self.is_complete.store(true, Ordering::Release);
    }

    /// Returns the size of the graph, for metrics. Takes every lock in turn.
    pub fn size(&self) -> Size {
        let vertices =
            self.shards.iter().map(|s| s.read().unwrap_or_else(PoisonError::into_inner).len()).sum();
        Size { nodes: self.nodes.len(), vertices }
    }

    fn shard_number(hash: u64) -> u32 {
        // The lower half; the upper half finds the slot within the shard.
        hash as u32 % SHARDS as u32
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        self.shard_at(Self::shard_number(hash))
    }

    fn shard_at(&self, number: u32) -> &RwLock<Shard> {
        // The index is always in bounds, so the fallback to the first shard is never used.
        let [first, ..] = &self.shards;
        self.shards.get(number as usize).unwrap_or(first)
    }
}
