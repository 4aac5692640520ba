//! Kinds of `storage.k8s.io`.

use serde::Deserialize;

use super::decode::{List, Text, or_default};
use super::meta::{Metadata, MetadataOnly};

/// The storage drivers of a node: only whose they are.
pub type CsiNode<'a> = MetadataOnly<'a>;

/// A volume attached to a node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct VolumeAttachment<'a> {
    /// The metadata.
    #[serde(borrow, deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
    /// What is attached where.
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: VolumeAttachmentSpec<'a>,
}

/// Where a volume is attached.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSpec<'a> {
    /// The node.
    #[serde(borrow)]
    pub node_name: Text<'a>,
}

/// A storage driver.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct CsiDriver<'a> {
    /// The metadata.
    #[serde(borrow, deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
    /// What it needs.
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: CsiDriverSpec<'a>,
}

/// What a driver needs from the kubelet.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriverSpec<'a> {
    /// Tokens of the pod's service account that the driver gets.
    #[serde(borrow)]
    pub token_requests: List<TokenRequestTemplate<'a>>,
}

/// A token that a driver gets.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct TokenRequestTemplate<'a> {
    /// Whom the token is for.
    #[serde(borrow)]
    pub audience: Text<'a>,
}
