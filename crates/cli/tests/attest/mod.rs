//! `portcullis credential --attestor` against `portcullis serve --approver attested` and `portcullis attest`, with software
//! TPMs, and openssl and tpm2-tools as referees.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test that cannot be set up must stop"
)]

mod attacks;
mod cache;
mod clusters;
mod duties;
mod nodes;
mod operation;
mod pages;
mod proxy;
mod serving;
mod support;
