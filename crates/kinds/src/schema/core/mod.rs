//! Schemas of the core group, version `v1`.

pub mod claim;
pub mod container;
pub mod node;
pub mod persistent_volume;
pub mod pod;
pub mod pod_status;
pub mod quota;
pub mod references;
pub mod replication;
pub mod service;
pub mod small;
pub mod volume;

pub use claim::PERSISTENT_VOLUME_CLAIM;
pub use node::NODE;
pub use persistent_volume::PERSISTENT_VOLUME;
pub use pod::{POD, POD_TEMPLATE};
pub use service::{ENDPOINTS, SERVICE};
pub use small::{BINDING, CONFIG_MAP, EVENT, NAMESPACE, SECRET, SERVICE_ACCOUNT};
