//! The primitives of the Kubernetes API: strict JSON, quantities, times, durations, names, label and field selectors,
//! validation errors, request targets, names in expressions, percent-encoding, and quoting. Each of them has its one implementation here.
//!
//! Everything here is a pure function of its arguments: there is no clock, no I/O, no async runtime and no randomness
//! in this crate, and it depends on no other crate of the workspace. It says what a text means and whether it is well
//! formed; what an object may hold is for `kinds`, and who may do what is for `policy`.
//!
//! The rules are numbered (`AP-`, `AC-`, `NA-`, `WH-`, ...); each function names the ones that it implements. Where we
//! differ from Kubernetes on purpose the code says `DIVERGES:` and `docs/compatibility.md` lists it.

pub mod cel;
pub mod duration;
pub mod field_error;
pub mod json;
pub mod names;
pub mod percent;
pub mod quantity;
pub mod quote;
pub mod selector;
pub mod target;
pub mod text;
pub mod time;
pub mod well_known;
