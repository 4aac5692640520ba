//! `portcullis webhook` answers as a kube-apiserver decides, to those who may ask, and follows a cluster.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

mod callers;
mod configure;
mod deploy;
mod following;
mod recorded;
mod rehearsal;
mod replay;
mod replicas;
mod restrictions;
mod support;
