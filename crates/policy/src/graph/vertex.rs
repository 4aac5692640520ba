//! Identifiers of vertices and nodes: kinds, keys and numbers. Plain values that the whole graph uses.

/// The kinds of vertices other than nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum VertexKind {
    /// A ConfigMap (NA-31).
    ConfigMap,
    /// An Endpoints object that a volume refers to. Not in Kubernetes; for the gate
    /// `PortcullisNodeEndpointsRestriction`.
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
    pub(super) const ALL: [Self; 11] = [
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

/// The key of a vertex (section 4 of the Node authorizer's rules). Cluster-scoped kinds have no namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key<'a> {
    pub(super) kind: VertexKind,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// A vertex: its shard, and its index in the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct VertexId(pub(super) u32);

impl VertexId {
    pub(super) const INDEX_BITS: u32 = 25;
    /// One more than the largest index in a shard.
    pub(super) const MAX_INDEX: u32 = 1 << Self::INDEX_BITS;

    pub(super) fn new(shard: u32, index: u32) -> Self {
        Self(shard << Self::INDEX_BITS | index)
    }

    pub(super) fn shard(self) -> u32 {
        self.0 >> Self::INDEX_BITS
    }

    pub(super) fn index(self) -> u32 {
        self.0 & (Self::MAX_INDEX - 1)
    }
}

/// The number of shards. Of a larger number less would fit into the processor's first cache, of a smaller one the growth of each would
/// take longer.
pub(super) const SHARDS: usize = 32;

/// The limit of the numbers of names: a number and "none" fit into 20 bits.
pub(super) const NUMBERS: u32 = (1 << 20) - 1;

/// In place of a claim's link: it has no volume.
pub(super) const NO_LINKS: u32 = u32::MAX;

/// An error: the table cannot hold a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VertexError {
    /// More vertices, nodes, namespaces or bytes of names than the tables can count.
    #[error("the index is full")]
    Full,
    /// A name, or that of a namespace or a node, is longer than 65,535 bytes.
    #[error("the name or the namespace is too long to be one of Kubernetes")]
    NameTooLong,
}

/// The ID of a node in one graph: eight bits of its name's hash, and its number. Never zero, and less than 2^28.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u32);

impl NodeId {
    const NUMBER_BITS: u32 = NUMBERS.ilog2() + 1;

    /// The ID of the node whose name has this hash and this number.
    pub(super) fn new(hash: u64, number: u32) -> Self {
        Self(u32::from(Tag::of(hash).0) << Self::NUMBER_BITS | number)
    }

    pub(super) fn number(self) -> u32 {
        self.0 & ((1 << Self::NUMBER_BITS) - 1)
    }

    pub(super) fn tag(self) -> Tag {
        Tag((self.0 >> Self::NUMBER_BITS) as u8)
    }
}

/// A few bits of the hash of a node's name, which distinguish most nodes without a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(pub(super) u8);

impl Tag {
    /// A tag that no node has: the set must be read.
    pub(super) const ANY: Self = Self(0);

    pub(super) fn of(hash: u64) -> Self {
        // Uses other bits of the hash than the slot and the shard.
        Self(((hash >> 24) as u8).max(1))
    }
}
