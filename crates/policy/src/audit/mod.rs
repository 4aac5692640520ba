//! Audits of a cluster's objects for excessive permissions. Nothing here decides a request.
//!
//! * [`kubelet_access`] finds who can run code through kubelets, and which rights would be enough.
//! * [`missing`] says what an answer lacks.
//! * [`state`] is the cluster as an audit reads it.
//! * [`rights`] says what each subject may do, of all that leads further.
//! * [`reach`] says what a stolen node reaches: by itself, and in the end.

pub mod kubelet_access;
pub mod missing;
pub mod reach;
pub mod rights;
pub mod state;
