//! What differs between two states, compared with asking about every class of requests on both sides (AU-110 to AU-112).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests"
)]

mod brute_force;
mod properties;
mod reach;
mod rows;
mod support;
