//! The answer: whether a user may make a request, by what, or what comes near, and what the answer lacks.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::miss::Miss;
use crate::audit::who_can::Way;
use crate::audit::{Incomplete, Subject, Why};
use crate::chain::MASTERS_GROUP;
use crate::objects::rbac::PolicyRule;

/// The name of the question in lists of what is incomplete.
pub const RULE: &str = "explain";

/// Whether the request is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is allowed.
    Yes,
    /// It is not, as far as the state tells: see [`Answer::incomplete`].
    No,
    /// Nothing here allows it, and something that may is not known: it depends on a webhook, or could not be read.
    Unknown,
}

/// By what a user may make a request, or what it would need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Whether it is allowed.
    pub answer: Verdict,
    /// Every way by which it is allowed (AU-100).
    pub ways: List<Listed>,
    /// What would allow it, if nothing asked before denied it or might.
    pub blocked: List<Listed>,
    /// Ways once the aggregation controller has added rules to a role (AU-25).
    pub pending: List<Listed>,
    /// What would be enough, one for each mode that could give it; empty if the request is allowed (AU-101).
    pub needed: Vec<Needed>,
    /// What comes near, the nearest first; empty if the request is allowed (AU-101).
    pub misses: List<Miss>,
    /// `NodeRestriction` if that admission plugin may refuse what is allowed here (AU-92).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<&'static str>,
    /// What the answer lacks (AU-21).
    pub incomplete: Vec<Incomplete>,
    /// What else there is to know.
    pub notes: Vec<Note>,
    /// Whether it is denied before anything is asked that is not known.
    #[serde(skip)]
    pub(super) is_denied: bool,
}

/// The first of several, and the number of those left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    /// Those that are listed.
    pub listed: Vec<T>,
    /// How many there are beside them.
    pub left_out: usize,
}

/// One way, and to whom it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// The way.
    #[serde(flatten)]
    pub way: Way,
    /// The user, or the group of the user, that it names. Of a binding, the first subject that is the user (RB-30).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Whether the authorizer certainly takes this way first. Of several bindings of one scope none is (RB-31).
    #[serde(rename = "first", skip_serializing_if = "std::ops::Not::not")]
    pub is_first: bool,
    /// What is asked before and denies it, or might.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
}

/// Something that would be enough.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by")]
pub enum Needed {
    /// That nothing denies the request.
    Deny {
        /// What denies it.
        reason: String,
    },
    /// A line of the ABAC policy file.
    #[serde(rename = "ABAC")]
    Abac {
        /// The line.
        line: Value,
    },
    /// Something on the node.
    Node {
        /// What it is.
        object: &'static str,
    },
    /// A rule of a role, bound to the user.
    #[serde(rename = "RBAC")]
    Rule {
        /// The smallest rule that is enough.
        rule: PolicyRule,
        /// The same as text.
        text: String,
        /// The namespace where a RoleBinding is enough; without one it must be a ClusterRoleBinding (RB-34, RB-35).
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
    },
}

/// Something that is to be known beside the lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Note {
    /// The user is in group `system:masters`, which API servers allow everything before they ask a mode (AC-63). As by `can-i`,
    /// that does not count here.
    SystemMasters,
}

impl Answer {
    /// Adds what could not be read. Nothing that is not known is taken for a no.
    pub fn lacks(&mut self, incomplete: impl IntoIterator<Item = Incomplete>) {
        self.incomplete.extend(incomplete);
        self.incomplete.sort_unstable();
        self.incomplete.dedup();
        let is_unknown = self.incomplete.iter().any(|missing| missing.why != Why::NotGiven);
        if self.answer == Verdict::No && is_unknown && !self.is_denied {
            self.answer = Verdict::Unknown;
        }
    }
}

impl Verdict {
    /// The word in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

impl<T> List<T> {
    /// The first of these, at most so many. `left_out` were left out before.
    pub(super) fn first(mut listed: Vec<T>, most: usize, left_out: usize) -> Self {
        let left_out = left_out + listed.len().saturating_sub(most);
        listed.truncate(most);
        Self { listed, left_out }
    }

    /// Appends another list.
    pub(super) fn append(&mut self, other: Self) {
        self.listed.extend(other.listed);
        self.left_out += other.left_out;
    }

    /// Whether there is none, not even one that is left out.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.left_out == 0
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { listed: Vec::new(), left_out: 0 }
    }
}

impl Listed {
    /// A way that names nobody.
    pub(super) fn of(way: Way) -> Self {
        Self { way, subject: None, is_first: false, blocked_by: None }
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deny { reason } => write!(f, "that mode Deny does not deny it: {reason}"),
            Self::Abac { line } => write!(f, "the line {line} in the ABAC policy file"),
            Self::Node { object } => f.write_str(object),
            Self::Rule { text, namespace: Some(namespace), .. } => {
                write!(f, "{text} by a RoleBinding in namespace {namespace} or by a ClusterRoleBinding")
            }
            Self::Rule { text, namespace: None, .. } => write!(f, "{text} by a ClusterRoleBinding"),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SystemMasters => write!(
                f,
                "API servers allow members of {MASTERS_GROUP} everything before they ask a mode; that does not count here"
            ),
        }
    }
}
