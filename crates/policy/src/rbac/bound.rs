//! A binding in force.

use std::fmt;

use portcullis_apimachinery::quote::Quoted;

use super::matching::{effective_namespace, service_account_user, subject_matches};
use super::words::{Reader, Writer};
use crate::objects::rbac::{Binding, RoleRef, Subject};
use crate::request::User;

/// A RoleBinding or ClusterRoleBinding in the index: the parts that reasons and changes need. Decisions do not read it.
///
/// It is a sequence of words: the name; the namespace, as a list that is empty for a ClusterRoleBinding; the role's
/// kind, group and name; the number of subjects, and for each its kind, group, name and namespace.
#[derive(PartialEq, Eq)]
pub struct Bound(Box<[u8]>);

/// The index key of a subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SubjectKey {
    /// A user of this name; service accounts are users with special names (RB-21).
    User(String),
    /// The members of this group.
    Group(String),
}

impl Bound {
    /// A binding as the index keeps it: a ClusterRoleBinding if it has no namespace.
    pub(crate) fn of(binding: &Binding) -> Self {
        match binding.metadata.namespace.as_str() {
            "" => Self::cluster_wide(binding),
            _ => Self::namespaced(binding),
        }
    }

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

    /// The name, the namespace, and a reader of the rest.
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

    /// Returns whether this is a ClusterRoleBinding, which grants in all namespaces and for requests without one.
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

    /// The namespace in which a Role is looked up; `None` for a ClusterRoleBinding (RB-32).
    pub(super) fn role_namespace(&self) -> Option<&str> {
        self.head().1
    }

    /// The subjects of the binding.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> {
        self.subject_words().map(|[kind, api_group, name, namespace]| Subject {
            kind: kind.to_owned(),
            api_group: api_group.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
        })
    }

    /// Kind, group, name and namespace of each subject.
    fn subject_words(&self) -> impl Iterator<Item = [&str; 4]> {
        let (_, _, mut reader) = self.head();
        let _: Option<[&str; 3]> = read_words(&mut reader);
        let count = reader.number().unwrap_or(0);
        (0..count).map_while(move |_| read_words(&mut reader))
    }

    /// The role granted.
    pub fn role_ref(&self) -> RoleRef {
        let [kind, api_group, name] = self.role_words();
        RoleRef { kind: kind.to_owned(), api_group: api_group.to_owned(), name: name.to_owned() }
    }

    /// The kind, group and name of the role granted.
    pub(super) fn role_words(&self) -> [&str; 3] {
        read_words(&mut self.head().2).unwrap_or_default()
    }

    /// Returns the first subject that matches this user (RB-30).
    pub fn first_subject(&self, user: &User) -> Option<Subject> {
        self.subjects().find(|s| subject_matches(s, self.namespace(), user))
    }

    /// Returns the distinct index keys of the subjects. Subjects that cannot match any user have none (RB-21, RB-23).
    pub(super) fn keys(&self) -> Vec<SubjectKey> {
        let key = |[kind, _, name, namespace]: [&str; 4]| match kind {
            "User" => Some(SubjectKey::User(name.to_owned())),
            "Group" => Some(SubjectKey::Group(name.to_owned())),
            "ServiceAccount" => service_account_user(name, namespace, self.namespace()).map(SubjectKey::User),
            _ => None,
        };
        let mut keys: Vec<_> = self.subject_words().filter_map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The error message if the role is not found (RB-32, RB-37).
    pub(super) fn resolution_error(&self) -> String {
        let [kind, _, name] = self.role_words();
        match kind {
            "ClusterRole" => format!("clusterrole.rbac.authorization.k8s.io {} not found", Quoted(name)),
            "Role" => format!("role.rbac.authorization.k8s.io {} not found", Quoted(name)),
            _ => format!("unsupported role reference kind: {}", Quoted(kind)),
        }
    }

    /// Describes the binding, its role and one of its subjects, in the format of reasons (RB-36).
    pub(super) fn describe<'a>(&'a self, subject: &'a Subject) -> impl fmt::Display + 'a {
        Description { bound: self, subject }
    }
}

fn read_words<'a, const N: usize>(reader: &mut Reader<'a>) -> Option<[&'a str; N]> {
    let mut words = [""; N];
    for word in &mut words {
        *word = reader.word().map(str_of)?;
    }
    Some(words)
}

fn str_of(word: &[u8]) -> &str {
    // Words were written from text.
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
            // Name first, then namespace, as in Kubernetes.
            Some(namespace) => {
                write!(f, "RoleBinding {}", Quoted(&format!("{}/{namespace}", bound.name())))?;
            }
        }
        let [kind, _, name] = bound.role_words();
        write!(f, " of {kind} {} to ", Quoted(name))?;
        match subject.kind.as_str() {
            "ServiceAccount" => {
                let namespace = effective_namespace(subject, bound.namespace());
                write!(f, "ServiceAccount {}", Quoted(&format!("{}/{namespace}", subject.name)))
            }
            kind => write!(f, "{kind} {}", Quoted(&subject.name)),
        }
    }
}
