//! Attacks on `portcullis serve`, `portcullis guard` and `portcullis webhook`, each with the bounds of what it may cost: while
//! it runs, honest clients are answered in time, and the memory of the server stays bounded.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests"
)]

mod connections;
mod honest;
mod served;
#[path = "../guard/support.rs"]
#[expect(dead_code, reason = "the rest is for the tests of the guard")]
mod support;
#[path = "../webhook/support.rs"]
#[expect(dead_code, reason = "the rest is for the tests of the webhook")]
mod webhook_support;

/// The tests. `./test` runs them beside all others, which leave them out by this name.
mod under_attack {
    mod guard;
    mod objects;
    mod serve;
    mod soak;
    mod webhook;
}

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One attack at a time: times are measured.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
