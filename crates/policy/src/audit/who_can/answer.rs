//! The answer: who can, by what, and what the answer lacks.

use std::fmt;

use serde::Serialize;

use super::way::{ObjectName, Way};
use crate::audit::{Incomplete, Subject};

/// Who can make a request, and what else there is to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Who can.
    #[serde(flatten)]
    pub lists: Lists,
    /// What the answer lacks (AU-21).
    pub incomplete: Vec<Incomplete>,
    /// What else there is to know.
    pub notes: Vec<Note>,
}

/// The subjects. All lists are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lists {
    /// Those who can (AU-90).
    pub subjects: Vec<Listed>,
    /// Those who could for some names only (AU-94).
    pub limited: Vec<Listed>,
    /// Those who can once the aggregation controller has added rules to a role (AU-25).
    pub pending: Vec<Listed>,
    /// Those of whom it is not known: it depends on what a webhook says, or on labels or tokens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undecided: Vec<Listed>,
}

/// A subject, and by what it can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// The subject.
    #[serde(flatten)]
    pub subject: Subject,
    /// The names for which it could; empty for a request that it can make as it is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// `NodeRestriction` if that admission plugin may refuse what is allowed here (AU-92).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<&'static str>,
    /// What it depends on, if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends: Option<String>,
    /// By what, each way once (AU-97).
    pub through: Vec<Way>,
}

/// Something that is to be known beside the lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Note {
    /// Bindings whose role is not in the state: they grant nothing until somebody creates it (AU-24).
    DanglingBinding {
        /// The role.
        role: ObjectName,
        /// The bindings.
        bindings: Vec<ObjectName>,
        /// Who may create a role in that place.
        may_create: Vec<String>,
    },
    /// A deny rule about this request. It denies it to those whom it binds, also if they are members of a listed group.
    DenyRule {
        /// The name of the rule.
        rule: String,
    },
    /// An ABAC line that allows this to one user as member of one group. So neither is listed.
    AbacLine {
        /// The line of the policy file.
        line: usize,
        /// The user.
        user: String,
        /// The group.
        group: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DanglingBinding { role, bindings, may_create } => {
                let bindings: Vec<String> = bindings.iter().map(ObjectName::to_string).collect();
                write!(
                    f,
                    "{role} is not in the state, so {} grants nothing; who may create such a role: {}",
                    bindings.join(", "),
                    if may_create.is_empty() { "nobody".to_owned() } else { may_create.join(", ") }
                )
            }
            Self::DenyRule { rule } => write!(
                f,
                "deny rule {rule:?} is about this request: whom it binds cannot make it, also as a member of a group that is \
                 listed"
            ),
            Self::AbacLine { line, user, group } => write!(
                f,
                "line {line} of the ABAC policy file allows it to user {user:?} as a member of group {group:?}; alone neither can"
            ),
        }
    }
}
