//! `portcullis guard` between clients, a fake kubelet and `portcullis serve`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests"
)]

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
mod tunnels;
