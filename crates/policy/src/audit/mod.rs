//! Audits of a cluster's objects: who holds which permissions, by what, and where that leads. Nothing here decides a request.
//!
//! * [`diff`] says what differs between two clusters: who may do what, and what nodes reach.
//! * [`kubelet_access`] finds who can run code through kubelets, and which rights would be enough.
//! * [`who_can`] finds who may make a request.
//! * [`inputs`] is what is asked of a cluster for that.
//! * [`explain`] finds by what a user may make a request, or what comes nearest to that.
//! * [`state`] is the cluster as an audit of everything reads it.
//! * [`rights`] says what each subject may do, of all that leads further.
//! * [`reach`] says what a stolen node reaches: by itself, and in the end.
//! * [`findings`] names what gives a thief more than that node, and what to change.
//!
//! What an answer lacks is [`Incomplete`].

pub mod diff;
pub mod explain;
pub mod findings;
mod in_force;
mod incomplete;
pub mod inputs;
pub mod kubelet_access;
mod pending;
pub mod reach;
pub mod rights;
pub mod state;
mod subject;
pub mod who_can;

pub use incomplete::{Incomplete, Why};
pub use subject::Subject;
