//! The server over the network, as clients meet it. One program with a module for each topic: it is linked once, and tests
//! of all topics run side by side.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]

mod access;
mod admission;
mod audit;
mod audit_flood;
mod authorizer;
mod bootstrap_credentials;
mod certificates;
mod cluster;
mod common;
mod connections;
mod custom_kinds_on_etcd;
mod discovery;
mod encryption;
mod ended_rights;
mod example_kind;
mod filtered_lists;
mod filtered_rights;
mod first_start;
mod freshness;
mod garbage;
mod hostile;
mod hostile_clients;
mod hostile_http2;
mod issued;
mod limits;
mod long_bodies;
mod long_lists;
mod macros;
mod managed_fields;
mod match_conditions;
mod metrics;
mod node_cves;
mod nodes;
mod objects;
mod pod_security;
mod policies;
mod protobuf;
mod quotas;
mod recorded_http;
mod requests;
mod reviews;
mod rights;
mod secrets;
mod several_servers;
mod state;
mod tokens;
mod watches;
mod ways_in;
mod workloads;
