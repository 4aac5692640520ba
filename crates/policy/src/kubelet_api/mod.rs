//! The kubelet's own API: which requests it answers, and which permissions on `nodes` each of them needs.
//!
//! There is one table, [`ENDPOINTS`]. Routing ([`Router`], KA-7 to KA-9), permissions ([`KubeletRequest`], KA-25 to
//! KA-39a), names in metrics ([`bucket`], KA-77) and `docs/kubelet-api.md` follow from its rows. What passes on to a
//! kubelet is spelled in the one way that every router reads alike ([`forwardable`]).
//!
//! Nothing here speaks to a kubelet, and nothing here authenticates.

mod endpoint;
mod forward;
mod request;
mod route;

pub use endpoint::{ENDPOINTS, Effect, Endpoint, Methods, Permission, Tree, Without, bucket, method_bucket};
pub use forward::forwardable;
pub use request::{Check, KubeletRequest, Settings};
pub use route::{Answer, Route, Router};
