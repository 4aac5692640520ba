//! The core group without pods, and the events of `events.k8s.io`.

mod cells;
pub mod config_maps;
mod fields;
mod names;
pub mod namespaces;
