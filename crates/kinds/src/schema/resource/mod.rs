//! Schemas of the group `resource.k8s.io`, version `v1`.

pub mod claim;
pub mod slice;

pub use claim::{DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE};
pub use slice::RESOURCE_SLICE;
