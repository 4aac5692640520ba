//! Evidence of software TPMs, verified in whole, and every way of cheating refused with its reason (AT-119.1 to AT-119.15,
//! AT-205, AT-206, ST-N1 to ST-N8, ST-30, ST-31).
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop, and runs at the time of its chips"
)]

mod accepted;
mod certificates;
mod fixture;
mod refused;
