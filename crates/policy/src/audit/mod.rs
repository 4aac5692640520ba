//! Audits of a cluster's objects: who holds which permissions, by what, and where that leads. Nothing here decides a request.
//!
//! * [`kubelet_access`] finds who can run code through kubelets, and which rights would be enough.
//! * [`who_can`] finds who may make a request.
//! * [`explain`] finds by what a user may make a request, or what comes nearest to that.
//! * [`state`] is the cluster as an audit of everything reads it.
//! * [`rights`] says what each subject may do, of all that leads further.
//! * [`reach`] says what a stolen node reaches: by itself, and in the end.
//!
//! What an answer lacks is [`Incomplete`].

pub mod explain;
mod incomplete;
pub mod kubelet_access;
mod pending;
pub mod reach;
pub mod rights;
pub mod state;
mod subject;
pub mod who_can;

pub use incomplete::{Incomplete, Why};
pub use subject::Subject;
