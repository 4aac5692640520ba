//! What a cluster's own objects say about who could do too much. Nothing here decides a request.

pub mod kubelet_access;
