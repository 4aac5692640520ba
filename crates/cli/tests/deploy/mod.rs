//! The manifests in `deploy/`. Kustomize and the Helm chart render the same objects. A server accepts them, accepts an upgrade, and has
//! none of them left after they are deleted.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

mod chart;
mod kustomize;
mod page;
mod release;
mod support;
