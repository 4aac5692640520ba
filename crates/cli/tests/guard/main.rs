//! `portcullis guard` between clients, a kubelet that is none, and `portcullis serve`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests"
)]

#[path = "../common/mod.rs"]
mod common;

mod attacks;
mod audit;
mod faults;
mod identities;
mod kep;
mod operation;
mod paths;
mod recorded;
mod streams;
mod support;
