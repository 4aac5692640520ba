//! Measuring decisions: made-up clusters, and what the measuring needs.

pub mod histogram;
pub mod synthetic;
