//! How bad a finding is.

use std::fmt;

use serde::Serialize;

/// How bad a finding is. The order is rising.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, and no danger by itself.
    Info,
    /// Not as it should be.
    Low,
    /// Helps a thief further.
    Medium,
    /// Gives a thief the machines or the secrets of others.
    High,
    /// Gives a thief the cluster.
    Critical,
}

impl Severity {
    /// All of them, rising.
    pub const ALL: [Self; 5] = [Self::Info, Self::Low, Self::Medium, Self::High, Self::Critical];

    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
