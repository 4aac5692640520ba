//! What a cluster has for an audit: read once, reduced at once, and sorted (AU-17 to AU-20).
//!
//! Objects are reduced to the fields that the audit reads as soon as their page is there. Nothing is written to the cluster, and
//! nothing is asked only to find out whether it is allowed (AU-10).

mod archive;
mod cluster;
mod computed;
mod fields;
mod keep;

pub(crate) use self::archive::{check, write};
pub(crate) use self::cluster::{Collection, Wants};
