//! What is known of the list of a kind, beside its objects.

use crate::audit::Why;

/// Whether all objects of a kind are in the state. From files alone nobody can tell (AU-23).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listing {
    /// All are: a kind without objects has none.
    Whole,
    /// Some are missing, or all: why, and the same for people (AU-21).
    Lacking(Why, String),
}
