//! Identifiers of vertices and nodes: kinds, keys and numbers. Plain values that the whole graph uses.

use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::DefaultHashBuilder;

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

impl Key<'_> {
    pub(super) fn hash(&self, hasher: &DefaultHashBuilder) -> u64 {
        hash_parts(hasher, self.kind as u8, self.namespace.as_bytes(), self.name.as_bytes())
    }
}

pub(super) fn hash_parts(hasher: &DefaultHashBuilder, kind: u8, namespace: &[u8], name: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    // The length of the namespace distinguishes "a" + "bc" from "ab" + "c".
    (((namespace.len() as u64) << 8) | u64::from(kind)).hash(&mut state);
    state.write(namespace);
    state.write(name);
    state.finish()
}

/// A vertex: its shard, and its index in the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct VertexId(pub(super) u32);

impl VertexId {
    pub(super) const INDEX_BITS: u32 = 24;
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

/// No links; see `Shard::links`.
pub(super) const NO_LINKS: u32 = u32::MAX;

/// An error: the table cannot hold a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VertexError {
    /// More vertices, nodes or name bytes than the table can count.
    #[error("the index is full")]
    Full,
    /// The namespace is longer than 255 bytes, or namespace and name together are longer than 65,535.
    #[error("the name or the namespace is too long to be one of Kubernetes")]
    NameTooLong,
}

/// The ID of a node in one graph: the tag in the upper eight bits, and a number that is unique for the tag in the lower
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u32);

impl NodeId {
    pub(super) const NUMBER_BITS: u32 = 24;

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
        Self(((hash >> NodeId::NUMBER_BITS) as u8).max(1))
    }
}
