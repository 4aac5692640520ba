//! Test support: recordings, builders, started servers. Never part of the product.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]

pub mod https;
pub mod kubelet;
pub mod mutate;
pub mod pages;
pub mod recorded;
pub mod scratch;
pub mod upgrade;
pub mod webhook;
pub mod websocket;
