//! What a software TPM and tpm2-tools make is read and verified, and what we make is opened by them (AT-120, AT-205, AT-206).
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

mod bench;
mod credentials;
mod statements;
mod structures;
