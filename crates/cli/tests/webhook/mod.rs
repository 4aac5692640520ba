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
mod cold_start;
mod configure;
mod crowds;
mod deploy;
mod etcd;
mod faults;
mod following;
mod recorded;
mod rehearsal;
mod renewal;
mod replay;
mod replicas;
mod restrictions;
mod support;
