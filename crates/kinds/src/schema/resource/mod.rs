//! The shapes of the group `resource.k8s.io`, version `v1`.

pub mod claim;
pub mod slice;
