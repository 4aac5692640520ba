//! `portcullis credential` against a running `portcullis serve`, checked with openssl and kubectl.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test that cannot be set up must stop"
)]

mod faults;
mod files;
mod node;
mod support;
mod time;
