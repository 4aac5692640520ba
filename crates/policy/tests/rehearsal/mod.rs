//! Rehearsals: the decisions of audit events are made again as Kubernetes made them, and each request counts once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot be set up must stop"
)]

mod events;
mod hostile;
mod impersonation;
mod model;
mod recorded;
mod support;
