//! Kinds of `storage.k8s.io`.

use serde::Deserialize;

use super::decode::{List, Text, or_default};
use super::meta::{Metadata, MetadataOnly};

/// The storage drivers of a node: only the object's identity.
pub type CsiNode<'a> = MetadataOnly<'a>;

/// A volume attached to a node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct VolumeAttachment<'a> {
    /// The metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
    /// The spec of the attachment.
    #[serde(deserialize_with = "or_default")]
    pub spec: VolumeAttachmentSpec<'a>,
}

/// The spec of a volume attachment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct VolumeAttachmentSpec<'a> {
    /// The node.
    pub node_name: Text<'a>,
}

/// A storage driver.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct CsiDriver<'a> {
    /// The metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
    /// The spec.
    #[serde(deserialize_with = "or_default")]
    pub spec: CsiDriverSpec<'a>,
}

/// The spec of a CSI driver.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct CsiDriverSpec<'a> {
    /// The service account tokens that the driver gets.
    pub token_requests: List<TokenRequestTemplate<'a>>,
}

/// A token that a driver gets.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct TokenRequestTemplate<'a> {
    /// The audience of the token.
    pub audience: Text<'a>,
}
