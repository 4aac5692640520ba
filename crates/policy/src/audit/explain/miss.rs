//! One near miss (AU-101, AU-102).

use std::fmt;

use serde::Serialize;

use crate::audit::Subject;
use crate::audit::who_can::{ObjectName, RuleWay};
use crate::factor::{Difference, Factor};

/// What comes near. The order is that of AU-101; a denial comes before all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MissKind {
    /// Mode Deny denies the request.
    Denial,
    /// A rule or a line of the user differs in one factor.
    OwnGrant,
    /// A rule or a line allows it to somebody else, or to a group that the user is not in.
    OtherSubject,
    /// A rule of a role allows it, and nobody is bound to the role.
    UnboundRole,
    /// A binding of the user names a role that does not exist.
    DanglingBinding,
    /// Mode Node would allow it if one thing were different.
    Node,
}

/// A near miss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Miss {
    /// What comes near.
    pub kind: MissKind,
    /// The factor, and both values.
    #[serde(flatten)]
    pub difference: Option<Difference>,
    /// The user, or the group of the user, that the binding names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
}

/// Where a near miss is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Place {
    /// A rule of a role, by a binding.
    Rule(RuleWay),
    /// A line of the ABAC policy file.
    Line {
        /// The line, from 1.
        line: usize,
    },
    /// A rule of a role without a binding.
    Role {
        /// The role.
        role: ObjectName,
        /// The index of the rule, from 0.
        rule_index: usize,
        /// The rule as text.
        rule: String,
    },
    /// A binding without a role.
    Binding {
        /// The binding.
        binding: ObjectName,
        /// The role that does not exist.
        role: ObjectName,
    },
    /// A path that does not count, from the pod to the object.
    Path {
        /// The path.
        path: String,
    },
    /// What a mode says of the request.
    Reason {
        /// The reason.
        reason: String,
    },
}

/// What near misses are sorted by.
pub(super) type Key = (MissKind, Option<Factor>, bool, Option<ObjectName>, usize, String);

impl Miss {
    /// What near misses are sorted by: the order of AU-101. Of those that differ in the same factor, typing errors come first.
    pub(super) fn key(&self) -> Key {
        let factor = self.difference.as_ref().map(|difference| difference.factor);
        let is_typed = self.difference.as_ref().is_some_and(|difference| difference.typing_error.is_some());
        let (object, number) = match &self.place {
            Place::Rule(way) => {
                let index = way.rule().and_then(|rule| rule.index);
                (Some(way.binding()), index.unwrap_or(usize::MAX))
            }
            Place::Line { line } => (None, *line),
            Place::Role { role, rule_index, .. } => (Some(role.clone()), *rule_index),
            Place::Binding { binding, .. } => (Some(binding.clone()), 0),
            Place::Path { .. } | Place::Reason { .. } => (None, 0),
        };
        (self.kind, factor, !is_typed, object, number, self.place.to_string())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(way) => write!(f, "RBAC: {way}"),
            Self::Line { line } => write!(f, "ABAC: line {line}"),
            Self::Role { role, rule_index, rule } => write!(f, "RBAC: {role} rules[{rule_index}] {rule}"),
            Self::Binding { binding, role } => write!(f, "RBAC: {binding} -> {role}, which does not exist"),
            Self::Path { path } => write!(f, "Node: {path}"),
            Self::Reason { reason } => f.write_str(reason),
        }
    }
}
