//! The kubelet API: the requests that a kubelet serves, and the permissions on `nodes` that each needs.
//!
//! Everything is derived from one table, [`ENDPOINTS`]: routing ([`Router`], KA-7 to KA-9), permissions
//! ([`KubeletRequest`], KA-25 to KA-39a), metrics labels ([`bucket`], KA-77) and `docs/kubelet-api.md`. Forwarded
//! targets are normalized so that every router interprets them alike ([`forwardable`]).
//!
//! This module never connects to a kubelet and never authenticates.

mod endpoint;
mod forward;
mod request;
mod route;

pub use endpoint::{ENDPOINTS, Effect, Endpoint, Methods, Permission, Tree, Without, bucket, method_bucket};
pub use forward::forwardable;
pub use request::{Check, KubeletRequest, Settings};
pub use route::{Answer, Route, Router};
