//! The core group except pods, and the events of `events.k8s.io`.

pub mod config_maps;
pub mod endpoints;
pub mod events;
pub mod limit_ranges;
mod names;
pub mod namespaces;
pub mod node_health;
pub mod nodes;
pub mod persistent_volume_claims;
pub mod persistent_volumes;
pub mod quotas;
pub mod secrets;
pub mod service_accounts;
pub mod services;
mod storage;
