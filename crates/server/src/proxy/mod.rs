//! Requests that are passed on to another server, and its answers back: what may be passed on, where to, and over which
//! connection. Used by the guard of a kubelet, and by the API server for logs, exec, port forwarding and proxies.
//!
//! It decides nothing about rights: its callers ask first. No credentials of a caller are passed on, no redirect is followed,
//! and an address is checked before anything is sent to it.

pub mod addresses;
pub(crate) mod dial;
pub(crate) mod headers;
pub mod kubelets;
pub mod tls_files;
pub(crate) mod upgrade;
