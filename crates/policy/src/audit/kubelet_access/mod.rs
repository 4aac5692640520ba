//! Finds the holders of `nodes/proxy`, who of them can run code with it, and which rights would be enough (AU-8, KA-26,
//! NC-8).
//!
//! * [`Objects`] takes RBAC objects in, wherever they come from, and [`Objects::report`] names every holder.
//! * [`Evidence`] takes in what was seen in use: a guard's access log, an API server's audit log.
//! * [`Replacement`] is the smallest set of rules for a holder.
//!
//! Only RBAC permissions in force are considered, not who could grant them to themselves.

mod evidence;
mod objects;
mod replacement;

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use super::Subject;

pub use evidence::{Evidence, Use, Way};
pub use objects::Objects;
pub use replacement::{Basis, Replacement, replacements};

/// All holders of `nodes/proxy`, and rules that only appear to grant it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sorted by name.
    pub holders: Vec<Holder>,
    /// Additional findings.
    pub notes: Vec<Note>,
}

impl Report {
    /// Returns the report without these groups, and without grants through these ClusterRoles.
    #[must_use]
    pub fn without(mut self, groups: &[String], roles: &[String]) -> Self {
        let is_left_out =
            |subject: &Subject| matches!(subject, Subject::Group { name } if groups.contains(name));
        self.holders.retain(|holder| !is_left_out(&holder.subject));
        for holder in &mut self.holders {
            holder.grants.retain(|grant| !roles.contains(&grant.role));
        }
        self.holders.retain(|holder| !holder.grants.is_empty());
        let masters = groups.iter().any(|group| group == "system:masters");
        self.notes.retain(|note| !(masters && *note == Note::Masters));
        self
    }
}

/// A holder of `nodes/proxy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The subject.
    pub subject: Subject,
    /// The grants; never empty.
    pub grants: Vec<Grant>,
}

/// One grant of `nodes/proxy` to a subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// The ClusterRoleBinding.
    pub binding: String,
    /// The ClusterRole.
    pub role: String,
    /// The index of the rule in the role, from 0; `None` for a rule that the role will aggregate but does not contain
    /// yet (RB-79).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<usize>,
    /// The ClusterRoles from which an aggregated role has the rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aggregated_from: Vec<String>,
    /// The entries of the rule that match `nodes/proxy`: itself, `*/proxy` or `*` (RB-12, RB-13).
    pub resources: Vec<String>,
    /// The verbs.
    pub verbs: Vec<String>,
    /// The node names; empty for all (RB-14).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

/// The ways in which a subject can run code in the containers of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// By a WebSocket, which is a GET, so that `get` is enough without a guard (KA-26).
    pub by_websocket: bool,
    /// By a POST to `/exec` or `/run`, with the verb `create`.
    pub by_post: bool,
    /// Behind a guard that requires `create` for every method.
    pub behind_guard: bool,
}

impl Holder {
    /// All verbs, each once.
    pub fn verbs(&self) -> BTreeSet<&str> {
        self.grants.iter().flat_map(|grant| &grant.verbs).map(String::as_str).collect()
    }

    /// The nodes; `None` for all.
    pub fn nodes(&self) -> Option<BTreeSet<&str>> {
        let is_limited = self.grants.iter().all(|grant| !grant.resource_names.is_empty());
        is_limited
            .then(|| self.grants.iter().flat_map(|grant| &grant.resource_names).map(String::as_str).collect())
    }

    /// Returns the ways in which the subject can run code.
    pub fn execution(&self) -> Execution {
        let verbs = self.verbs();
        let holds = |verb| verbs.contains("*") || verbs.contains(verb);
        // KA-25: a POST needs `create` alone, so it also passes a check that requires `create` in addition to the
        // method's verb.
        Execution { by_websocket: holds("get"), by_post: holds("create"), behind_guard: holds("create") }
    }
}

impl Execution {
    /// Returns whether code can be run at a kubelet without a guard.
    pub fn at_bare_kubelet(self) -> bool {
        self.by_websocket || self.by_post
    }
}

/// A finding other than a holder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// A RoleBinding to a role that names `nodes/proxy`. It grants nothing, because nodes are cluster-scoped (RB-34).
    RoleBinding {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The role.
        role: String,
    },
    /// A ClusterRole with the entry `nodes/*`, which matches no subresource (RB-13).
    NodesStar {
        /// The role.
        role: String,
    },
    /// An aggregated ClusterRole with an invalid selector: the rules that it will aggregate are unknown.
    Selector {
        /// The role.
        role: String,
        /// A description of the error.
        fault: String,
    },
    /// The group whose requests an API server always allows, regardless of RBAC (AC-63).
    Masters,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoleBinding { namespace, name, role } => write!(
                f,
                "RoleBinding {namespace}/{name} names nodes/proxy through {role}, and grants nothing on nodes: they live in \
                 no namespace, so only a ClusterRoleBinding counts"
            ),
            Self::NodesStar { role } => write!(
                f,
                "ClusterRole {role} has the resource nodes/*, which grants nothing: RBAC knows *, */proxy and nodes/proxy"
            ),
            Self::Selector { role, fault } => {
                write!(f, "ClusterRole {role} has an aggregation rule that cannot be read: {fault}")
            }
            Self::Masters => f.write_str(
                "group/system:masters is allowed everything by the API server itself, with and without a binding",
            ),
        }
    }
}
