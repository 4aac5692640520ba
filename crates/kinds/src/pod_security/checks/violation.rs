//! The result of a failed check.

use std::fmt;

/// A violation of a standard; prints as `privileged (container "a" must not set …)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The short reason, the same for all pods.
    pub reason: &'static str,
    /// The containers, volumes or values of this pod that violate the standard.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.detail)
    }
}
