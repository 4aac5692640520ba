//! Which node can reach which object: the index behind the Node authorizer (NA-27 to NA-71).
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
//! An edge means: whoever may see the right end may read the left end. A wrong edge is a breach, a missing edge an
//! outage. Only the edges from a volume to the secrets of its source cross namespaces (NA-63).
//!
//! Paths are not searched. For each object the index keeps *which nodes reach it and through how many references*, so
//! a decision is one hash probe and one look into a small set, whatever the fan-out, and a no costs no more than a yes.
//! The work is done when an object changes: its remembered references are compared with the new ones, and counts are
//! adjusted, new references before old ones, so that a reader sees the old or the new state of an object and never
//! the gap between (NA-41). Claims pass the nodes that reach them on to their volumes, and volumes to their secrets.
//!
//! What is here depends only on the objects as they are now, never on the order of events.
//! DIVERGES: Kubernetes keeps some old edges for some orders of events (NA-45 to NA-48, NA-54, NA-107 to NA-109).

mod apply;
mod explain;
mod links;
mod node_set;
mod nodes;
mod shard;
mod slab;
mod writer;

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use hashbrown::DefaultHashBuilder;

pub use self::apply::Relist;
pub use self::explain::{Path, Step};
use self::nodes::Nodes;
pub use self::shard::VertexError;
use self::shard::{Key, Shard};
use self::writer::Writer;
use crate::objects::Kind;

/// The kinds of vertices other than nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VertexKind {
    /// A ConfigMap (NA-31).
    ConfigMap,
    /// An Endpoints object that a volume names. Ours, for the gate `PortcullisNodeEndpointsRestriction`.
    Endpoints,
    /// A PersistentVolume (NA-33).
    PersistentVolume,
    /// A PersistentVolumeClaim (NA-32).
    PersistentVolumeClaim,
    /// A Pod (NA-28).
    Pod,
    /// A PodCertificateRequest (NA-37).
    PodCertificateRequest,
    /// A ResourceClaim (NA-34).
    ResourceClaim,
    /// A ResourceSlice (NA-36).
    ResourceSlice,
    /// A Secret (NA-30).
    Secret,
    /// A ServiceAccount (NA-29).
    ServiceAccount,
    /// A VolumeAttachment (NA-35).
    VolumeAttachment,
}

impl VertexKind {
    const ALL: [Self; 11] = [
        Self::ConfigMap,
        Self::Endpoints,
        Self::PersistentVolume,
        Self::PersistentVolumeClaim,
        Self::Pod,
        Self::PodCertificateRequest,
        Self::ResourceClaim,
        Self::ResourceSlice,
        Self::Secret,
        Self::ServiceAccount,
        Self::VolumeAttachment,
    ];

    /// The resource, as in a URL.
    pub fn resource(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Endpoints => "endpoints",
            Self::PersistentVolume => "persistentvolumes",
            Self::PersistentVolumeClaim => "persistentvolumeclaims",
            Self::Pod => "pods",
            Self::PodCertificateRequest => "podcertificaterequests",
            Self::ResourceClaim => "resourceclaims",
            Self::ResourceSlice => "resourceslices",
            Self::Secret => "secrets",
            Self::ServiceAccount => "serviceaccounts",
            Self::VolumeAttachment => "volumeattachments",
        }
    }
}

const SHARDS: usize = 64;

/// A vertex: shard and place within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct VertexId(u32);

impl VertexId {
    const INDEX_BITS: u32 = 24;
    /// One past the largest place within a shard.
    const MAX_INDEX: u32 = 1 << Self::INDEX_BITS;

    fn new(shard: u32, index: u32) -> Self {
        Self(shard << Self::INDEX_BITS | index)
    }

    fn shard(self) -> u32 {
        self.0 >> Self::INDEX_BITS
    }

    fn index(self) -> u32 {
        self.0 & (Self::MAX_INDEX - 1)
    }
}

/// The kinds of objects that feed the graph (NA-38), in the order of their bits in [`Graph::awaited`].
const SOURCES: [Kind; 5] = [
    Kind::PersistentVolume,
    Kind::Pod,
    Kind::PodCertificateRequest,
    Kind::ResourceSlice,
    Kind::VolumeAttachment,
];

/// The reachability index. Shared: any number of readers beside one writer.
#[derive(Debug)]
pub struct Graph {
    hasher: DefaultHashBuilder,
    nodes: Nodes,
    shards: [RwLock<Shard>; SHARDS],
    writer: Mutex<Writer>,
    /// Bits of the [`SOURCES`] that have not been listed once. Until none is left nothing is related (NA-13).
    awaited: AtomicU8,
}

/// How large the graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Nodes that something is bound to.
    pub nodes: usize,
    /// Vertices other than nodes.
    pub vertices: usize,
}

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    /// An empty graph that waits for every source to be listed once.
    pub fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            nodes: Nodes::new(),
            shards: std::array::from_fn(|_| RwLock::new(Shard::default())),
            writer: Mutex::new(Writer::default()),
            awaited: AtomicU8::new((1 << SOURCES.len()) - 1),
        }
    }

    /// Whether a node reaches an object (NA-64): some object bound to the node refers to it, directly or through a
    /// claim and its volume. Nothing is reached before every source has been listed once (NA-13).
    ///
    /// One hash probe for most that are refused and two for the others; no allocation.
    pub fn related(&self, kind: VertexKind, namespace: &str, name: &str, node: &str) -> bool {
        if self.awaited.load(Ordering::Acquire) != 0 {
            return false;
        }
        let asker = self.nodes.asker(node);
        let key = Key { kind, namespace, name };
        let hash = key.hash(&self.hasher);
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        // The lock of the nodes is taken within that of the shard, by readers only: no writer holds both.
        shard.reaches(hash, &key, asker.tag(), || self.nodes.find(asker))
    }

    /// Notes that a kind has been listed once. Kinds that do not feed the graph are ignored.
    pub fn mark_listed(&self, kind: Kind) {
        if let Some(bit) = SOURCES.iter().position(|k| *k == kind) {
            self.awaited.fetch_and(!(1 << bit), Ordering::AcqRel);
        }
    }

    /// Notes that every source has been listed once: what is here is the whole.
    pub fn mark_complete(&self) {
        self.awaited.store(0, Ordering::Release);
    }

    /// The kinds that have not been listed once; while there are any, nothing is related.
    pub fn awaited(&self) -> impl Iterator<Item = Kind> {
        let awaited = self.awaited.load(Ordering::Acquire);
        SOURCES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| awaited & (1 << bit) != 0)
            .map(|(_, kind)| kind)
    }

    /// How large the graph is. Takes every lock in turn: for metrics.
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
        // The number is within the array, so the first shard never stands in for another.
        let [first, ..] = &self.shards;
        self.shards.get(number as usize).unwrap_or(first)
    }
}
