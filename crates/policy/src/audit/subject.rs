//! Whom a report of an audit is about: users, groups, service accounts and nodes.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::identity::{ACCOUNT_PREFIX, ACCOUNTS, NODE_USER_PREFIX, NODES_GROUP, add_implied_groups};
use crate::objects::rbac;
use crate::request::User;

/// Whom a report is about. Service accounts are users with special names (RB-21), and are always shown as service
/// accounts (AU-30). The order is that of reports (AU-97).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind")]
pub enum Subject {
    /// The members of a group.
    Group {
        /// Its name.
        name: String,
    },
    /// A node: the user that its certificate names, with the group of all nodes.
    Node {
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
    /// Creates the subject of a group.
    pub fn group(name: impl Into<String>) -> Self {
        Self::Group { name: name.into() }
    }

    /// The subject of a binding; none if it matches nobody (RB-20 to RB-23). The namespace is that of a RoleBinding, and empty for
    /// a ClusterRoleBinding.
    pub fn of(subject: &rbac::Subject, binding_namespace: &str) -> Option<Self> {
        let rbac::Subject { kind, name, namespace, .. } = subject;
        match kind.as_str() {
            "User" => Some(Self::of_user(name)),
            "Group" => Some(Self::group(name)),
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
        let account = name.strip_prefix(ACCOUNT_PREFIX).and_then(|account| account.split_once(':'));
        match account {
            Some((namespace, account))
                if !namespace.is_empty() && !account.is_empty() && !account.contains(':') =>
            {
                Self::ServiceAccount { namespace: namespace.to_owned(), name: account.to_owned() }
            }
            _ => Self::User { name: name.to_owned() },
        }
    }

    /// The node whose user this is, else the subject itself (AU-31).
    #[must_use]
    pub fn or_node(self) -> Self {
        match &self {
            Self::User { name } => match name.strip_prefix(NODE_USER_PREFIX) {
                Some(node) => Self::Node { name: node.to_owned() },
                None => self,
            },
            _ => self,
        }
    }

    /// Returns whether the subject matches a user of this name and these groups.
    pub fn means(&self, user: &str, groups: &[String]) -> bool {
        match self {
            Self::Group { name } => groups.contains(name),
            Self::Node { name } => {
                user.strip_prefix(NODE_USER_PREFIX) == Some(name)
                    && groups.iter().any(|group| group == NODES_GROUP)
            }
            _ => *self == Self::of_user(user),
        }
    }

    /// The subject as a user, with the groups that an API server gives it (AU-31). The members of a group have a user name
    /// here that nobody has.
    pub fn identity(&self) -> User {
        let mut user = match self {
            Self::Group { name } => {
                let is_of_namespace =
                    name.strip_prefix(ACCOUNTS).is_some_and(|namespace| namespace.starts_with(':'));
                let all_accounts = is_of_namespace.then_some(ACCOUNTS);
                User::new(NOBODY, [name.as_str()].into_iter().chain(all_accounts))
            }
            Self::Node { name } => User::new(format!("{NODE_USER_PREFIX}{name}"), [NODES_GROUP]),
            Self::ServiceAccount { namespace, name } => {
                User::new(format!("{ACCOUNT_PREFIX}{namespace}:{name}"), Vec::<String>::new())
            }
            Self::User { name } => User::new(name.as_str(), Vec::<String>::new()),
        };
        add_implied_groups(&mut user);
        user
    }

    /// The subject as bindings name it.
    pub fn in_binding(&self) -> rbac::Subject {
        let of = |kind: &str, name: String| rbac::Subject {
            api_group: rbac::RBAC_GROUP.to_owned(),
            kind: kind.to_owned(),
            name,
            namespace: String::new(),
        };
        match self {
            Self::Group { name } => of("Group", name.clone()),
            Self::Node { name } => of("User", format!("{NODE_USER_PREFIX}{name}")),
            Self::ServiceAccount { namespace, name } => rbac::Subject {
                api_group: String::new(),
                namespace: namespace.clone(),
                ..of("ServiceAccount", name.clone())
            },
            Self::User { name } => of("User", name.clone()),
        }
    }

    /// A name for a role of the subject that is not taken yet: `PREFIX:KIND:NAME`, valid for RBAC (any path segment). It is taken then.
    pub(crate) fn role_name(&self, prefix: &str, taken: &mut BTreeSet<String>) -> String {
        let part = |text: &str| -> String {
            text.chars()
                .map(|c| if c.is_ascii_alphanumeric() || "-._:@".contains(c) { c } else { '-' })
                .collect()
        };
        let stem = match self {
            Self::Group { name } => format!("{prefix}:group:{}", part(name)),
            Self::Node { name } => format!("{prefix}:node:{}", part(name)),
            Self::ServiceAccount { namespace, name } => {
                format!("{prefix}:serviceaccount:{}:{}", part(namespace), part(name))
            }
            Self::User { name } => format!("{prefix}:user:{}", part(name)),
        };
        let mut name = stem.clone();
        let mut number = 1;
        while !taken.insert(name.clone()) {
            number += 1;
            name = format!("{stem}-{number}");
        }
        name
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

/// A user name that nobody has: no credential names a user with a NUL byte.
const NOBODY: &str = "\0";

impl fmt::Display for Subject {
    /// `group/NAME`, `node/NAME`, `user/NAME`, `serviceaccount/NAMESPACE/NAME` (AU-30).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group { name } => write!(f, "group/{name}"),
            Self::Node { name } => write!(f, "node/{name}"),
            Self::ServiceAccount { namespace, name } => write!(f, "serviceaccount/{namespace}/{name}"),
            Self::User { name } => write!(f, "user/{name}"),
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

    #[test]
    fn a_subject_has_the_groups_that_an_api_server_gives_it_au_31() {
        let groups = |subject: Subject| subject.identity().groups;
        let account = Subject::of_user("system:serviceaccount:ns:sa");
        let all = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
        assert_eq!(groups(account), all);
        let of_namespace = ["system:serviceaccounts:ns", "system:serviceaccounts", "system:authenticated"];
        assert_eq!(groups(Subject::group("system:serviceaccounts:ns")), of_namespace);
        for name in ["system:serviceaccounts", "system:nodes", "ops", "system:serviceaccountsx:y"] {
            assert_eq!(groups(Subject::group(name)), [name, "system:authenticated"]);
        }
        assert_eq!(groups(Subject::group("system:authenticated")), ["system:authenticated"]);
        assert_eq!(groups(Subject::group("system:unauthenticated")), ["system:unauthenticated"]);
        assert_eq!(groups(Subject::of_user("jane")), ["system:authenticated"]);
        assert_eq!(groups(Subject::of_user("system:anonymous")), ["system:unauthenticated"]);
        let node = Subject::Node { name: "n1".to_owned() };
        let user = node.identity();
        assert_eq!((user.name.as_str(), user.groups.len()), ("system:node:n1", 2));
        assert!(node.means(&user.name, &user.groups) && !node.means(&user.name, &[]));
    }
}
