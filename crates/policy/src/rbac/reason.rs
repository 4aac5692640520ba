//! The reasons of RBAC decisions. Passing a reason on costs a reference count; the text is rendered when it is printed.

use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;

use super::bound::{Bound, SubjectKey};
use super::subjects::Subject;
use crate::request::{Attributes, User};
use crate::rules;

/// The bindings with missing roles, by subject. Service accounts are users (RB-21).
#[derive(Clone, Debug, Default)]
pub(super) struct Unresolved {
    users: HashMap<Box<str>, Vec<Arc<Bound>>>,
    groups: HashMap<Box<str>, Vec<Arc<Bound>>>,
}

/// The binding by which RBAC allowed a request, or the roles that were not found.
#[derive(Clone, Debug)]
pub struct RbacReason(pub(super) Why);

#[derive(Clone, Debug)]
pub(super) enum Why {
    /// Granted by the binding at this index among those of a subject (RB-36).
    Granted { subject: Arc<Subject>, place: usize },
    /// Not granted, and roles of the user's bindings are missing (RB-37): those missing at that time, of
    /// ClusterRoleBindings and of the RoleBindings in the request's namespace. DIVERGES from AU-103, by which no answer
    /// names a role: those that do not exist are named, as Kubernetes does (RB-38).
    Unresolved { cluster: Option<Arc<Unresolved>>, namespaced: Option<Arc<Unresolved>> },
}

impl RbacReason {
    /// The binding that granted the request, if one did.
    pub fn binding(&self) -> Option<&Bound> {
        match &self.0 {
            Why::Granted { subject, place } => subject.grants.get(*place).map(|grant| &*grant.bound),
            Why::Unresolved { .. } => None,
        }
    }

    /// Writes the reason in the format of Kubernetes (RB-36, RB-37).
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, attributes: &Attributes<'_>) -> fmt::Result {
        match &self.0 {
            Why::Granted { .. } => {
                let Some(bound) = self.binding() else { return Ok(()) };
                match bound.first_subject(attributes.user) {
                    Some(subject) => write!(f, "RBAC: allowed by {}", bound.describe(&subject)),
                    None => Ok(()),
                }
            }
            Why::Unresolved { cluster, namespaced } => {
                let errors: Vec<String> = [cluster, namespaced]
                    .into_iter()
                    .flatten()
                    .flat_map(|unresolved| unresolved.of(attributes.user))
                    .flatten()
                    .map(|bound| bound.resolution_error())
                    .collect();
                match rules::aggregate(&errors) {
                    Some(text) => write!(f, "RBAC: {text}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Unresolved {
    /// The entries of the user, then of each of the user's groups.
    fn of<'a>(&'a self, user: &User) -> impl Iterator<Item = &'a Vec<Arc<Bound>>> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        self.users.get(user.name.as_str()).into_iter().chain(groups)
    }

    pub(super) fn add(&mut self, key: &SubjectKey, bound: Arc<Bound>) {
        let (map, name) = self.map(key);
        map.entry(name.into()).or_default().push(bound);
    }

    pub(super) fn remove(&mut self, key: &SubjectKey, bound: &Arc<Bound>) {
        let (map, name) = self.map(key);
        let Some(bindings) = map.get_mut(name) else { return };
        if let Some(place) = bindings.iter().position(|other| Arc::ptr_eq(other, bound)) {
            bindings.swap_remove(place);
        }
        if bindings.is_empty() {
            map.remove(name);
        }
    }

    /// All bindings, once for each of their subjects.
    pub(super) fn bindings(&self) -> impl Iterator<Item = &Arc<Bound>> {
        self.users.values().chain(self.groups.values()).flatten()
    }

    /// Returns whether no role is missing.
    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    fn map<'a>(&mut self, key: &'a SubjectKey) -> (&mut HashMap<Box<str>, Vec<Arc<Bound>>>, &'a str) {
        match key {
            SubjectKey::User(name) => (&mut self.users, name),
            SubjectKey::Group(name) => (&mut self.groups, name),
        }
    }
}
