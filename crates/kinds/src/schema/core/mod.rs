//! The shapes of the core group, version `v1`.

pub mod claim;
pub mod container;
pub mod node;
pub mod persistent_volume;
pub mod pod;
pub mod pod_status;
pub mod references;
pub mod service;
pub mod small;
pub mod volume;
