//! The registry: objects in the store. How they are named and stored, read and selected, and changed.
//!
//! The only module that commits to the store. It knows HTTP only by the answers that refusals stand for.

pub(crate) mod admission;
pub(crate) mod apply;
pub mod backend;
pub(crate) mod bind;
pub mod bootstrap_authorities;
pub mod cluster;
pub mod content;
pub(crate) mod context;
pub(crate) mod create;
pub(crate) mod custom_kinds;
pub(crate) mod decode;
pub mod definition_sets;
pub(crate) mod delete;
pub(crate) mod delete_collection;
pub(crate) mod deletion;
pub mod etcd_certificates;
pub mod etcd_layout;
pub(crate) mod etcd_metrics;
pub(crate) mod evict;
pub(crate) mod filtered;
pub(crate) mod freshness;
mod issued_metrics;
pub(crate) mod list;
pub(crate) mod list_options;
mod managed;
pub(crate) mod meta;
pub mod metrics;
pub(crate) mod no_writes;
pub(crate) mod options;
pub(crate) mod own_objects;
pub(crate) mod part;
pub(crate) mod patch;
pub(crate) mod quotas;
pub(crate) mod request_scope;
pub(crate) mod reservation;
pub(crate) mod right_changes;
pub mod runtime_config;
pub(crate) mod selection;
pub(crate) mod server_addresses;
pub(crate) mod storage;
pub(crate) mod store_size;
pub mod system_objects;
pub(crate) mod target;
pub(crate) mod update;
pub(crate) mod write;
