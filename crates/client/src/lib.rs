//! Talks to an API server that is not ours: the only crate that names the Kubernetes client.
//!
//! It asks and tells. What may be is decided by `portcullis_policy`, what is proved by `portcullis_pki`. No type of the
//! Kubernetes client is part of what others see: they hold a [`Connection`], and objects as types of their own.

pub mod approver;
pub mod call;
pub mod clock;
pub mod connect;
pub mod lease;
pub mod node_certificate;
pub mod random;
pub mod rbac;
pub mod refusal;
pub mod review;
pub mod watched;

pub use call::{CallError, Resource};
pub use clock::{Clock, SystemClock};
pub use connect::{ConnectError, Connection};
