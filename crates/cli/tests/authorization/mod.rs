//! The authorization modes in the running server, alone and combined, with a webhook that answers correctly, wrongly,
//! late or not at all.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

mod configuration;
mod modes;
mod replies;
mod restrictions;
pub mod support;
mod webhook;
