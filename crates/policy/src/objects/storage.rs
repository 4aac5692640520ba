//! Kinds of `storage.k8s.io`.

use serde::Deserialize;

use super::decode::{List, Text};
use super::meta::MetadataAndSpec;

/// A volume attached to a node.
pub type VolumeAttachment<'a> = MetadataAndSpec<'a, VolumeAttachmentSpec<'a>>;

/// The spec of a volume attachment.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct VolumeAttachmentSpec<'a> {
    /// The node.
    pub node_name: Text<'a>,
}

/// A storage driver.
pub type CsiDriver<'a> = MetadataAndSpec<'a, CsiDriverSpec<'a>>;

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
