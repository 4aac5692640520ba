//! `who-can` against recorded questions, against the authorizer chain, and by the rules of its lists.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod deny;
mod lists;
mod properties;
mod recorded;
mod support;
