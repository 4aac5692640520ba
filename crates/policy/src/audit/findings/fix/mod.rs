//! Fixes (section 7 of the audit's rules): what to change so that a finding is gone.
//!
//! No fix is printed as a patch that was not tried: it is applied to the objects in memory, and must end its finding, add none, and
//! widen nobody's reach (AU-85). What cannot be shown is text for people, not a patch.

mod change;
mod cut;
mod part;
mod plan;
mod prover;
mod workload;

pub use self::part::{Fix, FixKind, FixPart};
pub(super) use self::prover::{Proven, Prover};
