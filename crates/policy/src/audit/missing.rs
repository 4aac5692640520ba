//! What an audit lacks (AU-21): a question is never answered as if all were known.

use serde::Serialize;

/// An input that was missing, in whole or in part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// The resource, or the name of another input such as `kube-apiserver-version`.
    pub input: &'static str,
    /// Why it is missing.
    pub why: Why,
    /// The findings, or `reach`, or `who-can`, that are not complete because of it.
    pub rules: Vec<&'static str>,
    /// What that means.
    pub detail: String,
}

/// Why an input is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// Nothing of it is in the state.
    NotGiven,
    /// The cluster refused to show it.
    Refused,
    /// It could not be read.
    Failed,
    /// It could not be understood.
    Undecodable,
    /// Something that it refers to is not there.
    Unresolved,
}

impl Why {
    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotGiven => "not-given",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Undecodable => "undecodable",
            Self::Unresolved => "unresolved",
        }
    }
}
