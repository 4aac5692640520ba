//! Kinds of `resource.k8s.io`.

use serde::Deserialize;

use super::decode::{Text, or_default};
use super::meta::Metadata;

/// A slice of the devices that a driver publishes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct ResourceSlice<'a> {
    /// The metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata<'a>,
    /// The location of the devices.
    #[serde(deserialize_with = "or_default")]
    pub spec: ResourceSliceSpec<'a>,
}

/// The location of published devices.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct ResourceSliceSpec<'a> {
    /// The node; empty if the slice is not bound to a single one (NA-53).
    pub node_name: Text<'a>,
}
