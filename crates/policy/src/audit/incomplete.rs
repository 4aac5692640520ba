//! What an answer lacks (AU-21).

use serde::Serialize;

/// Something that an answer lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Incomplete {
    /// The resource, or another input of that name (AU-21).
    pub input: String,
    /// Why it is missing.
    pub why: Why,
    /// What could not be answered in full: `who-can`, or the ids of findings.
    pub rules: Vec<&'static str>,
    /// The same for people.
    pub detail: String,
}

/// Why an input is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// There is nothing of it in the state (AU-23).
    NotGiven,
    /// The server refused it: 401 or 403.
    Refused,
    /// It could not be read for another reason.
    Failed,
    /// It was read and makes no sense.
    Undecodable,
    /// It refers to something that is not there, or depends on something that cannot be asked.
    Unresolved,
}

impl Why {
    /// The word in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotGiven => "not-given",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Undecodable => "undecodable",
            Self::Unresolved => "unresolved",
        }
    }

    /// Whether the answer is not to be taken for a pass (AU-22).
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Refused | Self::Failed)
    }
}
