//! `portcullis store` over a real etcd and over data directories (ET-60), and etcd as a source of the commands that decide
//! without a server (ET-61).
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]

mod damaged;
mod interrupted;
mod moving;
mod rewriting;
mod sources;
mod support;
