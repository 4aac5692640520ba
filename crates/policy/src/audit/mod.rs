//! Audits of a cluster's objects: who holds which permissions, and by what. Nothing here decides a request.

mod incomplete;
pub mod kubelet_access;
mod subject;
pub mod who_can;

pub use incomplete::{Incomplete, Why};
pub use subject::Subject;
