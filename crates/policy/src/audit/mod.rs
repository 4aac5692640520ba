//! Audits of a cluster's objects for excessive permissions. Nothing here decides a request.

pub mod kubelet_access;
