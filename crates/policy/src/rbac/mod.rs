//! Role-based access control: authorization by Roles and bindings, and the escalation check.
//!
//! * [`RbacIndex`] indexes the objects in force, and authorizes requests (RB-10 to RB-38).
//! * [`covers`] checks whether one set of rules covers another (RB-65 to RB-67).
//! * [`escalation`] checks whether a caller may write a role or a binding (RB-50 to RB-64).
//! * [`aggregation`] computes the rules of aggregated ClusterRoles (RB-79), and [`ClusterRoles`] keeps them up to date.
//! * [`default_policy`] is what a new cluster starts with (RB-80 to RB-97), and [`reconcile`] what an old one has to
//!   change at start-up (RB-100 to RB-109).
//!
//! Rules only add up: there is none that denies (RB-4). Those are in [`deny`](crate::deny).
//!
//! Nothing here validates or writes objects; writes are returned to the caller.

pub mod aggregation;
mod bound;
mod cluster_roles;
mod covers;
pub mod default_policy;
pub mod escalation;
mod explain;
mod granted;
mod held;
mod index;
mod listing;
pub(crate) mod matching;
mod near;
mod packed;
mod reason;
pub mod reconcile;
mod roles;
mod rule_set;
mod short;
mod subjects;
mod words;

pub use bound::Bound;
pub use cluster_roles::{AggregatedRules, Changes, ClusterRoles};
pub use covers::covers;
pub(crate) use covers::is_covered;
pub(crate) use escalation::describe;
pub(crate) use granted::GrantedTo;
pub use granted::GrantingRule;
pub use index::RbacIndex;
pub use matching::rule_allows;
pub(crate) use near::needed;
pub use reason::RbacReason;
