//! A store in etcd does what every backend must do, and several servers that share one see one truth (ET-20 to ET-40). All tests
//! use a real etcd.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails must stop"
)]

#[path = "etcd/cluster.rs"]
mod cluster;
#[path = "etcd/direct.rs"]
mod direct;
#[path = "etcd/faults.rs"]
mod faults;
#[path = "etcd/layout.rs"]
mod layout;
#[path = "etcd/suite.rs"]
mod suite;
#[path = "etcd/together.rs"]
mod together;
