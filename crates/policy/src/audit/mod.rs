//! Audits of a cluster's objects: who holds which permissions, and by what. Nothing here decides a request.

pub mod kubelet_access;
mod subject;

pub use subject::Subject;
