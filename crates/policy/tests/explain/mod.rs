//! Explanations: every way by which a user may make a request, and what comes nearest (AU-100 to AU-102).
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where its own set-up fails"
)]

mod fixes;
mod misses;
mod nodes;
mod rules;
mod support;
mod ways;
