//! An unmodified kubectl against `portcullis serve`: no extra flags, only the kubeconfig that the server writes.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test that cannot be set up must stop"
)]

mod apply;
mod attacks;
mod bootstrap;
mod cascade;
mod changes;
mod confinement;
mod csr;
mod custom_kinds;
mod explaining;
mod guard;
mod identity;
mod krew;
mod kubelets;
mod namespaces;
mod old_manifests;
mod plugin;
mod policies;
mod posture;
mod reading;
mod starts;
pub(crate) mod support;
mod users;
mod webhook;
mod workloads;
