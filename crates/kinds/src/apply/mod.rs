//! Server-side apply: who manages which fields of an object (`managedFields`), and how a configuration is merged into an
//! object.
//!
//! Pure functions over JSON values and a [`Schema`]. Nothing here knows of requests.

mod compare;
mod config;
mod endpoint;
mod entries;
mod fields;
mod fields_v1;
mod found;
mod last_applied;
mod managers;
mod merge;
mod remove;
pub mod schema;
mod set;
mod step;
mod typed;
mod update;

pub use compare::Comparison;
pub use config::{Application, ApplyError, Conflicts};
pub use endpoint::{Endpoint, Versions};
pub use entries::ManagedFieldsText;
pub use fields::{faults, fields};
pub use managers::{Managed, Manager, Managers, Operation, Unreadable};
pub use schema::Schema;
pub use set::FieldSet;
pub use typed::Typed;
pub use update::{Write, differ_in_times_only};
