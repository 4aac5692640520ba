//! The machine approver's rules (NB-50 to NB-127).

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
