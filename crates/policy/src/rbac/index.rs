//! The subject index: the roles and bindings in force, found by who asks.
//!
//! A decision looks only at the bindings of the user and of the user's groups, so its cost does not grow with the
//! number of bindings. A change costs what the changed object itself is worth: its subjects, and for a role that
//! comes or goes the bindings that name it; never the size of the index.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use super::bound::{Bound, SubjectKey};
use super::reason::{RbacReason, Unresolved, Why};
use super::roles::{RoleId, RoleKey, Roles};
use crate::decision::{Authorizer, Decision, Reason};
use crate::objects::Object;
use crate::objects::rbac::{Binding, Role, RoleRef};
use crate::request::{Attributes, User};

/// The roles and bindings in force.
#[derive(Debug, Default)]
pub struct RbacIndex {
    roles: Roles,
    cluster: Scope,
    namespaces: HashMap<Box<str>, Scope>,
    super_user: Option<Box<str>>,
}

/// Something per subject. Service accounts are users (RB-21).
#[derive(Clone, Debug)]
pub(super) struct BySubject<T> {
    users: HashMap<Box<str>, T>,
    groups: HashMap<Box<str>, T>,
}

/// The bindings of one namespace, or the ClusterRoleBindings.
#[derive(Debug, Default)]
struct Scope {
    bindings: HashMap<Box<str>, Grant>,
    grants: BySubject<SmallVec<[Grant; 1]>>,
    /// Shared with the reasons given out; copied when it changes while one of them is still held.
    unresolved: Arc<Unresolved>,
}

/// A binding and where its role is kept.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) bound: Arc<Bound>,
    /// Nothing when the reference can never be resolved.
    role: Option<RoleId>,
}

impl RbacIndex {
    /// The same index with a user who is allowed everything (RB-125). An empty name is none.
    #[must_use]
    pub fn with_super_user(mut self, name: &str) -> Self {
        self.super_user = (!name.is_empty()).then(|| name.into());
        self
    }

    /// Whether this user is the one allowed everything (RB-125).
    pub fn is_super_user(&self, user: &User) -> bool {
        self.super_user.as_deref().is_some_and(|name| name == user.name)
    }

    /// Takes in a Role, in place of one of the same namespace and name.
    pub fn apply_role(&mut self, role: Role) {
        let key = RoleKey::role(&role.metadata.namespace, &role.metadata.name);
        self.set_role(key, Some(role));
    }

    /// Takes in a ClusterRole, in place of one of the same name.
    pub fn apply_cluster_role(&mut self, role: Role) {
        self.set_role(RoleKey::cluster_role(&role.metadata.name), Some(role));
    }

    /// Forgets a Role.
    pub fn delete_role(&mut self, namespace: &str, name: &str) {
        self.set_role(RoleKey::role(namespace, name), None);
    }

    /// Forgets a ClusterRole.
    pub fn delete_cluster_role(&mut self, name: &str) {
        self.set_role(RoleKey::cluster_role(name), None);
    }

    /// Takes in a RoleBinding, in place of one of the same namespace and name.
    pub fn apply_binding(&mut self, binding: Binding) {
        self.delete_binding(&binding.metadata.namespace, &binding.metadata.name);
        self.bind(Bound::namespaced(binding));
    }

    /// Takes in a ClusterRoleBinding, in place of one of the same name.
    pub fn apply_cluster_role_binding(&mut self, binding: Binding) {
        self.delete_cluster_role_binding(&binding.metadata.name);
        self.bind(Bound::cluster_wide(binding));
    }

    /// Forgets a RoleBinding.
    pub fn delete_binding(&mut self, namespace: &str, name: &str) {
        let Some(scope) = self.namespaces.get_mut(namespace) else { return };
        scope.unbind(name, &mut self.roles);
        if scope.bindings.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    /// Forgets a ClusterRoleBinding.
    pub fn delete_cluster_role_binding(&mut self, name: &str) {
        self.cluster.unbind(name, &mut self.roles);
    }

    /// Takes in an object of an RBAC kind; others are left alone. Returns whether it was one.
    pub fn apply(&mut self, object: Object<'_>) -> bool {
        match object {
            Object::ClusterRole(role) => self.apply_cluster_role(role),
            Object::ClusterRoleBinding(binding) => self.apply_cluster_role_binding(binding),
            Object::Role(role) => self.apply_role(role),
            Object::RoleBinding(binding) => self.apply_binding(binding),
            _ => return false,
        }
        true
    }

    /// All bindings in force, in no order.
    pub fn bindings(&self) -> impl Iterator<Item = &Bound> {
        self.scopes().flat_map(|scope| scope.bindings.values()).map(|grant| &*grant.bound)
    }

    /// The role that a binding grants, if there is one (RB-32).
    pub fn role_of(&self, bound: &Bound) -> Option<&Role> {
        self.resolve(bound.role_ref(), bound.role_namespace())
    }

    /// The role that a reference from a binding names (RB-32). `namespace` is the RoleBinding's, or nothing for a
    /// ClusterRoleBinding: no Role can be found from there.
    pub fn resolve(&self, role_ref: &RoleRef, namespace: Option<&str>) -> Option<&Role> {
        self.roles.find(&RoleKey::of(role_ref, namespace)?)
    }

    /// The bindings that may serve a user's requests: all ClusterRoleBindings of the user, then the RoleBindings in
    /// the namespace (RB-30, RB-40). Each comes once, however often it means the user.
    pub(super) fn grants<'a>(
        &'a self,
        user: &User,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Arc<Bound>, Option<&'a Role>)> {
        let mut seen = HashSet::new();
        [Some(&self.cluster), self.namespace(namespace)]
            .into_iter()
            .flatten()
            .flat_map(|scope| self.grants_in(scope, user))
            .filter(move |(bound, _)| seen.insert(Arc::as_ptr(bound)))
    }

    /// The user's RoleBindings in all namespaces but one. Walks all namespaces: for explaining only.
    pub(super) fn grants_elsewhere<'a>(
        &'a self,
        user: &User,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a Arc<Bound>, Option<&'a Role>)> {
        let mut seen = HashSet::new();
        self.namespaces
            .iter()
            .filter(move |(name, _)| &***name != namespace)
            .flat_map(|(_, scope)| self.grants_in(scope, user))
            .filter(move |(bound, _)| seen.insert(Arc::as_ptr(bound)))
    }

    fn grants_in<'a>(
        &'a self,
        scope: &'a Scope,
        user: &User,
    ) -> impl Iterator<Item = (&'a Arc<Bound>, Option<&'a Role>)> {
        scope.grants.of(user).flatten().map(|grant| (&grant.bound, self.roles.role(grant.role)))
    }

    /// The bindings of a namespace. A request without one is served by ClusterRoleBindings only (RB-34, RB-35).
    fn namespace(&self, namespace: &str) -> Option<&Scope> {
        if namespace.is_empty() { None } else { self.namespaces.get(namespace) }
    }

    fn scopes(&self) -> impl Iterator<Item = &Scope> {
        std::iter::once(&self.cluster).chain(self.namespaces.values())
    }

    fn set_role(&mut self, key: RoleKey, role: Option<Role>) {
        let Some(change) = self.roles.set(key, role) else { return };
        for bound in &change.bound_by {
            let scope = if bound.is_cluster_wide() {
                Some(&mut self.cluster)
            } else {
                self.namespaces.get_mut(bound.namespace())
            };
            if let Some(scope) = scope {
                scope.note_resolution(bound, change.is_there);
            }
        }
    }

    fn bind(&mut self, bound: Bound) {
        let bound = Arc::new(bound);
        let grant = Grant { role: self.roles.bind(&bound), bound };
        let is_resolved = self.roles.packed(grant.role).is_some();
        let scope = if grant.bound.is_cluster_wide() {
            &mut self.cluster
        } else {
            self.namespaces.entry(grant.bound.namespace().into()).or_default()
        };
        for key in grant.bound.keys() {
            scope.grants.entry(&key).push(grant.clone());
        }
        if !is_resolved {
            scope.note_resolution(&grant.bound, false);
        }
        scope.bindings.insert(grant.bound.name().into(), grant);
    }

    /// Decides by the bindings of one scope: the first that grants, or whether a role was missing on the way.
    fn decide<'a>(&'a self, scope: &'a Scope, attributes: &Attributes<'_>) -> Result<&'a Arc<Bound>, bool> {
        let mut missing = false;
        for grant in scope.grants.of(attributes.user).flatten() {
            match self.roles.packed(grant.role) {
                Some(rules) if rules.allow(attributes) => return Ok(&grant.bound),
                Some(_) => {}
                None => missing = true,
            }
        }
        Err(missing)
    }
}

impl Authorizer for RbacIndex {
    /// RB-30 to RB-39, RB-125. The order of a user's bindings is that of the index (RB-31).
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let user = attributes.user;
        // RB-24: nobody is nobody, even if a binding names the empty user.
        if user.name.is_empty() && user.groups.is_empty() {
            return Decision::NO_OPINION;
        }
        if self.is_super_user(user) {
            return Decision::Allow(Reason::None);
        }
        let granted = |bound| Decision::Allow(Reason::Rbac(RbacReason(Why::Granted(Arc::clone(bound)))));
        let unresolved = |scope: &Scope| Some(Arc::clone(&scope.unresolved));
        let cluster = match self.decide(&self.cluster, attributes) {
            Ok(bound) => return granted(bound),
            Err(missing) => missing.then_some(&self.cluster).and_then(unresolved),
        };
        let mut namespaced = None;
        if let Some(scope) = attributes.resource.and_then(|request| self.namespace(request.namespace)) {
            match self.decide(scope, attributes) {
                Ok(bound) => return granted(bound),
                Err(missing) => namespaced = missing.then_some(scope).and_then(unresolved),
            }
        }
        if cluster.is_none() && namespaced.is_none() {
            return Decision::NO_OPINION;
        }
        Decision::NoOpinion(Reason::Rbac(RbacReason(Why::Unresolved { cluster, namespaced })))
    }
}

impl Scope {
    fn unbind(&mut self, name: &str, roles: &mut Roles) {
        let Some(grant) = self.bindings.remove(name) else { return };
        let is_this = |other: &Arc<Bound>| Arc::ptr_eq(other, &grant.bound);
        for key in grant.bound.keys() {
            self.grants.remove_from(&key, |grants| {
                if let Some(place) = grants.iter().position(|g| is_this(&g.bound)) {
                    grants.swap_remove(place);
                }
                grants.is_empty()
            });
        }
        if roles.packed(grant.role).is_none() {
            self.note_resolution(&grant.bound, true);
        }
        roles.unbind(&grant.bound, grant.role);
    }

    /// Remembers that the role of a binding is missing, or no longer is.
    fn note_resolution(&mut self, bound: &Arc<Bound>, is_resolved: bool) {
        let unresolved = Arc::make_mut(&mut self.unresolved);
        for key in bound.keys() {
            if !is_resolved {
                unresolved.entry(&key).push(Arc::clone(bound));
                continue;
            }
            unresolved.remove_from(&key, |bindings| {
                if let Some(place) = bindings.iter().position(|b| Arc::ptr_eq(b, bound)) {
                    bindings.swap_remove(place);
                }
                bindings.is_empty()
            });
        }
    }
}

impl<T> Default for BySubject<T> {
    fn default() -> Self {
        Self { users: HashMap::new(), groups: HashMap::new() }
    }
}

impl<T> BySubject<T> {
    /// What there is for the user, then for each of the user's groups.
    pub(super) fn of<'a>(&'a self, user: &User) -> impl Iterator<Item = &'a T> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        self.users.get(user.name.as_str()).into_iter().chain(groups)
    }

    fn entry(&mut self, key: &SubjectKey) -> &mut T
    where
        T: Default,
    {
        match key {
            SubjectKey::User(name) => self.users.entry(name.as_str().into()).or_default(),
            SubjectKey::Group(name) => self.groups.entry(name.as_str().into()).or_default(),
        }
    }

    /// Changes what there is for a subject, and drops it when `remove` says that it is empty now.
    fn remove_from(&mut self, key: &SubjectKey, remove: impl FnOnce(&mut T) -> bool) {
        let (map, name) = match key {
            SubjectKey::User(name) => (&mut self.users, name.as_str()),
            SubjectKey::Group(name) => (&mut self.groups, name.as_str()),
        };
        if map.get_mut(name).is_some_and(remove) {
            map.remove(name);
        }
    }
}
