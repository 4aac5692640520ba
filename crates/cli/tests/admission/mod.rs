//! `portcullis serve` asks admission webhooks.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

mod changes;
mod matching;
mod replies;
mod restriction;
mod reviews;
mod support;
mod under_load;
