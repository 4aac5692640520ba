//! The core group without pods, and the events of `events.k8s.io`.

pub mod config_maps;
mod names;
pub mod namespaces;
