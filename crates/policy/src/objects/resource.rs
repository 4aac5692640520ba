//! Kinds of `resource.k8s.io`.

use serde::Deserialize;

use super::decode::Text;
use super::meta::MetadataAndSpec;

/// A slice of the devices that a driver publishes.
pub type ResourceSlice<'a> = MetadataAndSpec<'a, ResourceSliceSpec<'a>>;

/// The location of published devices.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct ResourceSliceSpec<'a> {
    /// The node; empty if the slice is not bound to a single one (NA-53).
    pub node_name: Text<'a>,
}
