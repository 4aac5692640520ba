//! Fixes (section 7 of the audit's rules): what to change so that a finding is gone.
//!
//! A change of permissions is printed as a patch only after it was tried: it is applied to the objects in memory, and must end its
//! finding, add none, and widen nobody's reach (AU-85). A patch of a workload only takes settings away, from the only object that has
//! them. A patch of an API server's flags is tried against the rules about API servers. What cannot be shown is text for people,
//! not a patch.

mod change;
mod cut;
mod part;
mod plan;
mod prover;
mod server;
mod workload;

pub use self::part::{Fix, FixKind, FixPart};
pub(super) use self::prover::{Proven, Prover};
