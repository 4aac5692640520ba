//! The `portcullis` command on the command line: output and exit codes.
#![expect(
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
mod diff;
mod explain;
mod manual_pages;
mod preflight;
mod review;
mod state;
mod support;
mod units;
mod vectors;
mod who_can;
