//! Benchmarks: synthetic clusters, requests and measurement.

pub mod histogram;
pub mod memory;
pub mod questions;
pub mod run;
pub mod simulate;
pub mod synthetic;
pub mod writer;
