//! Role-based access control: who may do what by Roles and bindings, and who may hand that on.
//!
//! * [`RbacIndex`] holds the objects in force and decides by them (RB-10 to RB-38).
//! * [`covers`] tells whether one set of rules holds all that another grants (RB-65 to RB-67).
//! * [`escalation`] tells whether a caller may write a role or a binding (RB-50 to RB-64).
//! * [`aggregation`] computes the rules of aggregated ClusterRoles (RB-79), and [`ClusterRoles`] keeps them up to date.
//! * [`default_policy`] is what a new cluster starts with (RB-80 to RB-97), and [`reconcile`] what an old one has to
//!   change at start-up (RB-100 to RB-109).
//! * [`legacy`] reads manifests of the versions before `v1` (RB-120 to RB-124).
//!
//! Nothing here validates objects or writes them: it decides, and says what there is to write.

pub mod aggregation;
mod bound;
mod cluster_roles;
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
pub mod reconcile;
mod roles;
mod short;
mod subjects;
mod words;

pub use bound::Bound;
pub use cluster_roles::{AggregatedRules, Changes, ClusterRoles};
pub use covers::covers;
pub use explain::{Explanation, Factor, Granted, Miss, Refused};
pub use index::RbacIndex;
pub use matching::rule_allows;
pub use reason::RbacReason;
