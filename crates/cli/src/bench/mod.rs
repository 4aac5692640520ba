//! Measuring decisions: made-up clusters, the requests to ask, and the clock.

pub mod histogram;
pub mod memory;
pub mod questions;
pub mod run;
pub mod synthetic;
pub mod writer;
