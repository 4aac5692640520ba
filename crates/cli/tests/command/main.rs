//! The `portcullis` command as people and scripts meet it: the real binary, its output and its exit codes.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]

mod bad_input;
mod bench;
mod can_i;
mod completions;
mod conformance;
mod review;
mod state;
mod support;
mod vectors;
