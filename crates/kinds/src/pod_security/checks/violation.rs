//! What a check finds.

use std::fmt;

/// Why a pod violates a standard; prints as `privileged (container "a" must not set …)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// In a few words, alike for all pods.
    pub reason: &'static str,
    /// What of this pod is meant.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.detail)
    }
}
