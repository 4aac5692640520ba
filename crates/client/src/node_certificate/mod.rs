//! Obtains and renews the client certificate of a node, as a kubelet does (NB-41 to NB-46, CS-100 to CS-139).
//!
//! The key is generated locally, written to disk before it is used, and never leaves the machine. The name of the
//! request is derived from the key, so a restarted process finds the same request, and no second certificate is issued.

pub mod agent;
pub mod error;
pub mod exec;
pub mod files;
pub mod kubeconfig;
pub mod manager;
pub mod metrics;
pub mod request;
mod serving;
pub mod store;
