//! A binding in force.

use std::fmt;

use super::matching::{effective_namespace, service_account_user, subject_matches};
use super::quote::Quoted;
use crate::objects::rbac::{Binding, RoleRef, Subject};
use crate::request::User;

/// A RoleBinding or ClusterRoleBinding in force: what decisions and their reasons need of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Bound {
    name: String,
    /// Nothing for a ClusterRoleBinding. A RoleBinding's namespace may be empty; it then serves no request.
    namespace: Option<String>,
    subjects: Vec<Subject>,
    role_ref: RoleRef,
}

/// Which index entry a subject of a binding belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SubjectKey {
    /// A user of this name; service accounts are users of a certain name (RB-21).
    User(String),
    /// The members of this group.
    Group(String),
}

impl Bound {
    pub(super) fn cluster_wide(binding: Binding) -> Self {
        Self {
            name: binding.metadata.name,
            namespace: None,
            subjects: binding.subjects,
            role_ref: binding.role_ref,
        }
    }

    pub(super) fn namespaced(binding: Binding) -> Self {
        Self {
            name: binding.metadata.name,
            namespace: Some(binding.metadata.namespace),
            subjects: binding.subjects,
            role_ref: binding.role_ref,
        }
    }

    /// `ClusterRoleBinding` or `RoleBinding`.
    pub fn kind(&self) -> &'static str {
        if self.is_cluster_wide() { "ClusterRoleBinding" } else { "RoleBinding" }
    }

    /// Whether this is a ClusterRoleBinding: it grants everywhere, and for requests without a namespace.
    pub fn is_cluster_wide(&self) -> bool {
        self.namespace.is_none()
    }

    /// The binding's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The binding's namespace; empty for a ClusterRoleBinding.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Where a Role is looked for; nowhere from a ClusterRoleBinding (RB-32).
    pub(super) fn role_namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Who gets the role.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// The role granted.
    pub fn role_ref(&self) -> &RoleRef {
        &self.role_ref
    }

    /// The first subject that means this user (RB-30).
    pub fn first_subject(&self, user: &User) -> Option<&Subject> {
        self.subjects.iter().find(|s| subject_matches(s, self.namespace(), user))
    }

    /// The index entries of the subjects, each once. Subjects that can match nobody have none (RB-21, RB-23).
    pub(super) fn keys(&self) -> Vec<SubjectKey> {
        let key = |subject: &Subject| match subject.kind.as_str() {
            "User" => Some(SubjectKey::User(subject.name.clone())),
            "Group" => Some(SubjectKey::Group(subject.name.clone())),
            "ServiceAccount" => service_account_user(subject, self.namespace()).map(SubjectKey::User),
            _ => None,
        };
        let mut keys: Vec<_> = self.subjects.iter().filter_map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// What is said when the role cannot be found (RB-32, RB-37).
    pub(super) fn resolution_error(&self) -> String {
        let RoleRef { kind, name, .. } = &self.role_ref;
        match kind.as_str() {
            "ClusterRole" => format!("clusterrole.rbac.authorization.k8s.io {} not found", Quoted(name)),
            "Role" => format!("role.rbac.authorization.k8s.io {} not found", Quoted(name)),
            _ => format!("unsupported role reference kind: {}", Quoted(kind)),
        }
    }

    /// The binding, its role and one of its subjects, as reasons name them (RB-36).
    pub(super) fn describe<'a>(&'a self, subject: &'a Subject) -> impl fmt::Display + 'a {
        Description { bound: self, subject }
    }
}

struct Description<'a> {
    bound: &'a Bound,
    subject: &'a Subject,
}

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, subject } = self;
        match &bound.namespace {
            None => write!(f, "ClusterRoleBinding {}", Quoted(&bound.name))?,
            // Name first, then namespace: that is how Kubernetes prints it.
            Some(namespace) => {
                write!(f, "RoleBinding {}", Quoted(&format!("{}/{namespace}", bound.name)))?;
            }
        }
        write!(f, " of {} {} to ", bound.role_ref.kind, Quoted(&bound.role_ref.name))?;
        match subject.kind.as_str() {
            "ServiceAccount" => {
                let namespace = effective_namespace(subject, bound.namespace());
                write!(f, "ServiceAccount {}", Quoted(&format!("{}/{namespace}", subject.name)))
            }
            kind => write!(f, "{kind} {}", Quoted(&subject.name)),
        }
    }
}
