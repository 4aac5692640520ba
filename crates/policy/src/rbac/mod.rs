//! Role-based access control: who may do what by Roles and bindings, and who may hand that on.
//!
//! * [`RbacIndex`] holds the objects in force and decides by them (RB-10 to RB-38).
//! * [`covers`] tells whether one set of rules holds all that another grants (RB-65 to RB-67).
//! * [`escalation`] tells whether a caller may write a role or a binding (RB-50 to RB-64).
//! * [`aggregation`] computes the rules of aggregated ClusterRoles (RB-79).
//! * [`default_policy`] is what a new cluster starts with (RB-80 to RB-97).
//! * [`legacy`] reads manifests of the versions before `v1` (RB-120 to RB-124).
//!
//! Nothing here validates objects, writes them or reconciles them at start-up: it only decides.

pub mod aggregation;
mod bound;
mod covers;
pub mod default_policy;
pub mod escalation;
mod explain;
mod index;
pub mod legacy;
mod listing;
mod matching;
mod packed;
pub mod quote;
mod reason;
mod roles;

pub use bound::Bound;
pub use covers::covers;
pub use explain::{Explanation, Factor, Granted, Miss, Refused};
pub use index::RbacIndex;
pub use matching::rule_allows;
pub use reason::RbacReason;
