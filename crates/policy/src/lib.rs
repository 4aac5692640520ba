//! Decides what Kubernetes nodes and users may do.
//!
//! Everything here is a pure function of its arguments and of indexes that the caller feeds: there is no clock, no
//! I/O, no async runtime, no TLS and no Kubernetes client in this crate, and there never will be. A decision takes
//! references, returns a value, allocates nothing, never waits and never logs.
//!
//! The rules are numbered (`NA-`, `NR-`, `MP-`, `KA-`, `AC-`, `AB-`, `RB-`, `WH-`, `CS-`, `NB-`); each function names the ones that
//! it implements. Where we differ from Kubernetes on purpose the code says `DIVERGES:` and `docs/compatibility.md`
//! lists it.

pub mod abac;
pub mod approval;
pub mod audit;
pub mod chain;
pub mod decision;
pub mod engine;
pub mod features;
pub mod field_error;
pub mod graph;
pub mod identity;
pub mod json;
pub mod kubelet_api;
pub mod node;
pub mod objects;
pub mod quantity;
pub mod rbac;
pub mod request;
pub mod request_info;
pub mod restriction;
pub mod review;
pub mod rules;
pub mod selector;
pub mod target;
pub mod time;

pub use decision::{Authorizer, Decision, Reason};
pub use features::FeatureGates;
pub use identity::NodeIdentity;
pub use request::{Attributes, ResourceRequest, User};
