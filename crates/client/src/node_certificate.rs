//! How a node gets its client certificate and keeps it fresh, as a kubelet does (NB-41 to NB-46, CS-100 to CS-139).
//!
//! The key is made here, on disk before anybody hears of it, and never leaves the machine. The request for it has a name
//! that follows from the key: whoever is killed and starts again finds the same request, and no second certificate is
//! issued.

pub mod agent;
pub mod error;
pub mod exec;
pub mod files;
pub mod kubeconfig;
pub mod manager;
pub mod request;
mod serving;
pub mod store;
