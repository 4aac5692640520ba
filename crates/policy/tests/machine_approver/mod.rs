//! The machine approver's rules (NB-50 to NB-127).
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]

mod client;
mod config;
mod intake;
mod limits;
mod machines;
mod property;
mod seed;
mod serving;
mod support;
mod threats;
