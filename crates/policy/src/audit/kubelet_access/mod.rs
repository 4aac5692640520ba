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

use crate::identity::ACCOUNT_PREFIX;
use crate::objects::rbac;

pub use evidence::{Evidence, Use, Way};
pub use objects::Objects;
pub use replacement::{Basis, Replacement, replacements};

/// The holder of a permission. Service accounts are users with special names (RB-21), and are always shown as service
/// accounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind")]
pub enum Subject {
    /// The members of a group.
    Group {
        /// Its name.
        name: String,
    },
    /// A service account.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A user.
    User {
        /// The name.
        name: String,
    },
}

impl Subject {
    /// The subject of a binding; none if it matches nobody (RB-20 to RB-23). The namespace is that of a RoleBinding, and empty for
    /// a ClusterRoleBinding.
    pub fn of(subject: &rbac::Subject, binding_namespace: &str) -> Option<Self> {
        let rbac::Subject { kind, name, namespace, .. } = subject;
        match kind.as_str() {
            "User" => Some(Self::of_user(name)),
            "Group" => Some(Self::Group { name: name.clone() }),
            "ServiceAccount" => {
                let namespace = if namespace.is_empty() { binding_namespace } else { namespace };
                (!namespace.is_empty()).then(|| Self::of_user(&format!("{ACCOUNT_PREFIX}{namespace}:{name}")))
            }
            _ => None,
        }
    }

    /// The subjects of a binding that match somebody.
    pub fn all_of(binding: &rbac::Binding) -> impl Iterator<Item = Self> {
        let namespace = &binding.metadata.namespace;
        binding.subjects.iter().filter_map(move |subject| Self::of(subject, namespace))
    }

    /// Creates the subject of a user name: a user or a service account.
    pub fn of_user(name: &str) -> Self {
        let account = name.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
        match account {
            Some((namespace, account))
                if !namespace.is_empty() && !account.is_empty() && !account.contains(':') =>
            {
                Self::ServiceAccount { namespace: namespace.to_owned(), name: account.to_owned() }
            }
            _ => Self::User { name: name.to_owned() },
        }
    }

    /// Returns whether the subject matches a user of this name and these groups.
    pub fn means(&self, user: &str, groups: &[String]) -> bool {
        match self {
            Self::Group { name } => groups.contains(name),
            _ => *self == Self::of_user(user),
        }
    }

    /// Describes the members of a built-in group of Kubernetes.
    pub fn meaning(&self) -> Option<&'static str> {
        let Self::Group { name } = self else { return None };
        Some(match name.as_str() {
            "system:authenticated" => "everybody who is logged in",
            "system:unauthenticated" => "everybody who is not logged in",
            "system:serviceaccounts" => "every service account",
            "system:nodes" => "every kubelet",
            "system:masters" => "everybody with a certificate for this group",
            name if name.starts_with("system:serviceaccounts:") => "every service account of the namespace",
            _ => return None,
        })
    }
}

impl fmt::Display for Subject {
    /// `group/NAME`, `user/NAME`, `serviceaccount/NAMESPACE/NAME`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group { name } => write!(f, "group/{name}"),
            Self::ServiceAccount { namespace, name } => write!(f, "serviceaccount/{namespace}/{name}"),
            Self::User { name } => write!(f, "user/{name}"),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rb_21_service_accounts_are_users_of_a_certain_name() {
        let account = Subject::ServiceAccount { namespace: "ns".to_owned(), name: "sa".to_owned() };
        assert_eq!(Subject::of_user("system:serviceaccount:ns:sa"), account);
        assert!(
            account.means("system:serviceaccount:ns:sa", &[]) && !account.means("sa", &["sa".to_owned()])
        );
        for name in
            ["sa", "system:serviceaccount:ns", "system:serviceaccount::sa", "system:serviceaccount:ns:a:b"]
        {
            assert_eq!(Subject::of_user(name), Subject::User { name: name.to_owned() });
        }
    }
}
