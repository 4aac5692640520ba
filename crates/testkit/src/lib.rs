//! Test support: recordings, the program under test, fake servers, clients. Never part of the product.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]
pub mod etcd;
pub mod exchanges;
pub mod fake_tpm;
pub mod health;
pub mod http2;
pub mod https;
pub mod killable;
pub mod kms;
pub mod kubelet;
pub mod linearizability;
pub mod metrics;
pub mod mutate;
pub mod pages;
pub mod ports;
pub mod process;
pub mod program;
pub mod protobuf;
pub mod recorded;
pub mod request;
pub mod scratch;
pub mod software_tpm;
pub mod tcp_proxy;
pub mod tls;
pub mod tool;
pub mod upgrade;
pub mod wait;
pub mod watch_proxy;
pub mod webhook;
pub mod websocket;
