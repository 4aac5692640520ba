//! What each subject may do by RBAC, of all that leads further (section 3 of the audit's rules).
//!
//! Rights are those of an identity as a whole: of its name and of the groups that the API server gives it (AU-31), from any
//! number of bindings, for the cluster or for a namespace (AU-32). A role is compared with the list of [`Ask`]s once, however many
//! bindings name it. Rules that the aggregation controller is to add count as if they were there (AU-25).

mod asks;
mod built_in;
mod grant;
mod grants;
mod held;
mod key;
mod revised;
mod roles;

pub(in crate::audit) use self::asks::asks_of;
pub use self::asks::{Ask, Verbs};
pub use self::grant::{Grant, GrantId};
pub use self::grants::Grants;
pub use self::held::{Held, Names, Rights};
