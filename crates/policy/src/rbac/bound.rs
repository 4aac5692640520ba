//! A binding in force.

use std::fmt;

use super::matching::{effective_namespace, service_account_user, subject_matches};
use super::quote::Quoted;
use super::words::{Reader, Writer};
use crate::objects::rbac::{Binding, RoleRef, Subject};
use crate::request::User;

/// A RoleBinding or ClusterRoleBinding in force: what reasons and changes need of it. Decisions do not read it.
///
/// Its words one after another: the name; the namespace, as a list that is empty for a ClusterRoleBinding; the role's
/// kind, group and name; the number of subjects, and of each its kind, group, name and namespace.
#[derive(PartialEq, Eq)]
pub struct Bound(Box<[u8]>);

/// Which index entry a subject of a binding belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SubjectKey {
    /// A user of this name; service accounts are users of a certain name (RB-21).
    User(String),
    /// The members of this group.
    Group(String),
}

impl Bound {
    pub(super) fn cluster_wide(binding: &Binding) -> Self {
        Self::pack(binding, &[])
    }

    /// A RoleBinding's namespace may be empty; it then serves no request.
    pub(super) fn namespaced(binding: &Binding) -> Self {
        Self::pack(binding, std::slice::from_ref(&binding.metadata.namespace))
    }

    fn pack(binding: &Binding, namespace: &[String]) -> Self {
        let mut packed = Writer::default();
        packed.word(&binding.metadata.name);
        packed.list(namespace);
        let RoleRef { kind, api_group, name } = &binding.role_ref;
        [kind, api_group, name].into_iter().for_each(|word| packed.word(word));
        packed.number(binding.subjects.len());
        for Subject { kind, api_group, name, namespace } in &binding.subjects {
            [kind, api_group, name, namespace].into_iter().for_each(|word| packed.word(word));
        }
        Self(packed.bytes().into())
    }

    /// The name, the namespace, and a reader of what follows.
    fn head(&self) -> (&str, Option<&str>, Reader<'_>) {
        let mut reader = Reader::new(&self.0);
        let name = reader.word().map(str_of).unwrap_or_default();
        let namespace = reader.list().unwrap_or_default().next().map(str_of);
        (name, namespace, reader)
    }

    /// `ClusterRoleBinding` or `RoleBinding`.
    pub fn kind(&self) -> &'static str {
        if self.is_cluster_wide() { "ClusterRoleBinding" } else { "RoleBinding" }
    }

    /// Whether this is a ClusterRoleBinding: it grants everywhere, and for requests without a namespace.
    pub fn is_cluster_wide(&self) -> bool {
        self.role_namespace().is_none()
    }

    /// The binding's name.
    pub fn name(&self) -> &str {
        self.head().0
    }

    /// The binding's namespace; empty for a ClusterRoleBinding.
    pub fn namespace(&self) -> &str {
        self.role_namespace().unwrap_or_default()
    }

    /// Where a Role is looked for; nowhere from a ClusterRoleBinding (RB-32).
    pub(super) fn role_namespace(&self) -> Option<&str> {
        self.head().1
    }

    /// Who gets the role.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> {
        let (_, _, mut reader) = self.head();
        let _ = read_role_ref(&mut reader);
        let count = reader.number().unwrap_or(0);
        (0..count).map_while(move |_| {
            Some(Subject {
                kind: reader.text()?,
                api_group: reader.text()?,
                name: reader.text()?,
                namespace: reader.text()?,
            })
        })
    }

    /// The role granted.
    pub fn role_ref(&self) -> RoleRef {
        read_role_ref(&mut self.head().2).unwrap_or_default()
    }

    /// The first subject that means this user (RB-30).
    pub fn first_subject(&self, user: &User) -> Option<Subject> {
        self.subjects().find(|s| subject_matches(s, self.namespace(), user))
    }

    /// The index entries of the subjects, each once. Subjects that can match nobody have none (RB-21, RB-23).
    pub(super) fn keys(&self) -> Vec<SubjectKey> {
        let key = |subject: Subject| match subject.kind.as_str() {
            "User" => Some(SubjectKey::User(subject.name)),
            "Group" => Some(SubjectKey::Group(subject.name)),
            "ServiceAccount" => service_account_user(&subject, self.namespace()).map(SubjectKey::User),
            _ => None,
        };
        let mut keys: Vec<_> = self.subjects().filter_map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// What is said when the role cannot be found (RB-32, RB-37).
    pub(super) fn resolution_error(&self) -> String {
        let RoleRef { kind, name, .. } = self.role_ref();
        match kind.as_str() {
            "ClusterRole" => format!("clusterrole.rbac.authorization.k8s.io {} not found", Quoted(&name)),
            "Role" => format!("role.rbac.authorization.k8s.io {} not found", Quoted(&name)),
            _ => format!("unsupported role reference kind: {}", Quoted(&kind)),
        }
    }

    /// The binding, its role and one of its subjects, as reasons name them (RB-36).
    pub(super) fn describe<'a>(&'a self, subject: &'a Subject) -> impl fmt::Display + 'a {
        Description { bound: self, subject }
    }
}

fn read_role_ref(reader: &mut Reader<'_>) -> Option<RoleRef> {
    Some(RoleRef { kind: reader.text()?, api_group: reader.text()?, name: reader.text()? })
}

fn str_of(word: &[u8]) -> &str {
    // What was written was text.
    str::from_utf8(word).unwrap_or_default()
}

impl fmt::Debug for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind(), self.namespace(), self.name())
    }
}

struct Description<'a> {
    bound: &'a Bound,
    subject: &'a Subject,
}

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, subject } = self;
        match bound.role_namespace() {
            None => write!(f, "ClusterRoleBinding {}", Quoted(bound.name()))?,
            // Name first, then namespace: that is how Kubernetes prints it.
            Some(namespace) => {
                write!(f, "RoleBinding {}", Quoted(&format!("{}/{namespace}", bound.name())))?;
            }
        }
        let RoleRef { kind, name, .. } = bound.role_ref();
        write!(f, " of {kind} {} to ", Quoted(&name))?;
        match subject.kind.as_str() {
            "ServiceAccount" => {
                let namespace = effective_namespace(subject, bound.namespace());
                write!(f, "ServiceAccount {}", Quoted(&format!("{}/{namespace}", subject.name)))
            }
            kind => write!(f, "{kind} {}", Quoted(&subject.name)),
        }
    }
}
