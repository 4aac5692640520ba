//! The client of external API servers: the only crate that uses the Kubernetes client library.
//!
//! It reads and writes. Decisions are made by `portcullis_policy`, and cryptography is in `portcullis_pki`. No type of
//! the client library is part of the public interface, which has a [`Connection`] and types of its own.

pub mod approver;
pub mod attest;
pub mod attestation;
pub mod attested_certificate;
pub mod call;
pub mod clock;
pub mod connect;
mod connect_error;
mod events;
pub mod feed;
pub mod kubeconfig;
pub mod kubelets;
pub mod lease;
pub mod metrics;
pub mod names;
pub mod node_certificate;
pub mod random;
pub mod rbac;
pub mod refusal;
pub mod review;
mod schedule;
pub mod snapshot;
pub mod tpm_proxy;
pub mod watched;

pub use call::{CallError, Resource};
pub use clock::{Clock, SystemClock};
pub use connect::{ConnectError, Connection};
