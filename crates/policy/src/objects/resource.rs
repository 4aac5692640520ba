//! Kinds of `resource.k8s.io`.

use serde::Deserialize;

use super::decode::{Text, or_default};
use super::meta::Metadata;

/// Devices that a driver publishes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ResourceSlice<'a> {
    /// The metadata.
    #[serde(borrow, deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
    /// Where they are.
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: ResourceSliceSpec<'a>,
}

/// Where published devices are.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceSliceSpec<'a> {
    /// The node; empty when the slice is not tied to a single one (NA-53).
    #[serde(borrow)]
    pub node_name: Text<'a>,
}
