//! The RBAC index: the roles and bindings in force, indexed by subject.
//!
//! A decision reads only the bindings of the user and of the user's groups, so its cost does not grow with the number
//! of bindings. The cost of a change depends on the changed object: its subjects, and for a role that is added or
//! removed the bindings that refer to it; never on the size of the index.
//!
//! ```text
//!   scope: table ──▶ Subject {name, grants: [(binding, role)]}      deciding reads these three,
//!                                             │       └──▶ PackedRules   64 bytes or so of each
//!                                             ▼
//!                                           Bound                   naming, listing, changing
//! ```
//!
//! In a large cluster the cost of a decision is memory latency, so the data that decisions read is small and separate
//! from the rest: names and rules are stored inline unless they are long (see [`super::short`] and [`super::words`]).
//! Roles and bindings are reconstructed only for explanations and listings.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};

use super::bound::Bound;
use super::packed::PackedRules;
use super::reason::{RbacReason, Unresolved, Why};
use super::roles::{RoleId, RoleKey, Roles};
use super::subjects::{Asker, Grant, Subject, Subjects};
use crate::decision::{Authorizer, Decision, Reason};
use crate::extent::Extent;
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
    hasher: DefaultHashBuilder,
}

/// The bindings of one namespace, or the ClusterRoleBindings.
#[derive(Debug, Default)]
struct Scope {
    subjects: Subjects,
    /// By name.
    bindings: HashTable<Arc<Bound>>,
    /// Shared with returned reasons, and copied on write while one of them is still held.
    unresolved: Arc<Unresolved>,
}

/// A binding of a user, and the ID of its role.
pub(super) type Held<'a> = (&'a Arc<Bound>, Option<RoleId>);

impl RbacIndex {
    /// Sets the super-user, whose requests are all allowed (RB-125). An empty name means none.
    #[must_use]
    pub fn with_super_user(mut self, name: &str) -> Self {
        self.super_user = (!name.is_empty()).then(|| name.into());
        self
    }

    /// Returns whether this user is the super-user (RB-125).
    pub fn is_super_user(&self, user: &User) -> bool {
        self.super_user.as_deref().is_some_and(|name| name == user.name)
    }

    /// Applies a Role, replacing one of the same namespace and name.
    pub fn apply_role(&mut self, role: Role) {
        let key = RoleKey::role(&role.metadata.namespace, &role.metadata.name);
        self.set_role(key, Some(PackedRules::pack(&role.rules)));
    }

    /// Applies a ClusterRole, replacing one of the same name.
    pub fn apply_cluster_role(&mut self, role: Role) {
        let key = RoleKey::cluster_role(&role.metadata.name);
        self.set_role(key, Some(PackedRules::pack(&role.rules)));
    }

    /// Deletes a Role.
    pub fn delete_role(&mut self, namespace: &str, name: &str) {
        self.set_role(RoleKey::role(namespace, name), None);
    }

    /// Deletes a ClusterRole.
    pub fn delete_cluster_role(&mut self, name: &str) {
        self.set_role(RoleKey::cluster_role(name), None);
    }

    /// Applies a RoleBinding, replacing one of the same namespace and name.
    pub fn apply_binding(&mut self, binding: Binding) {
        self.delete_binding(&binding.metadata.namespace, &binding.metadata.name);
        self.bind(Bound::namespaced(&binding));
    }

    /// Applies a ClusterRoleBinding, replacing one of the same name.
    pub fn apply_cluster_role_binding(&mut self, binding: Binding) {
        self.delete_cluster_role_binding(&binding.metadata.name);
        self.bind(Bound::cluster_wide(&binding));
    }

    /// Deletes a RoleBinding.
    pub fn delete_binding(&mut self, namespace: &str, name: &str) {
        let Some(scope) = self.namespaces.get_mut(namespace) else { return };
        scope.unbind(name, &mut self.roles, &self.hasher);
        if scope.bindings.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    /// Deletes a ClusterRoleBinding.
    pub fn delete_cluster_role_binding(&mut self, name: &str) {
        self.cluster.unbind(name, &mut self.roles, &self.hasher);
    }

    /// Adds an object of an RBAC kind; others are ignored. Returns whether it was one.
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

    /// All bindings, in no particular order.
    pub fn bindings(&self) -> impl Iterator<Item = &Bound> {
        self.scopes().flat_map(|scope| &scope.bindings).map(|bound| &**bound)
    }

    /// Returns the role that a binding grants, if it exists (RB-32). Only its rules, name and namespace are set; the
    /// index keeps no more.
    pub fn role_of(&self, bound: &Bound) -> Option<Role> {
        self.role(self.roles.of(bound))
    }

    /// Resolves the role reference of a binding (RB-32), like [`RbacIndex::role_of`]. `namespace` is that of the
    /// RoleBinding, or `None` for a ClusterRoleBinding, which cannot refer to a Role.
    pub fn resolve(&self, role_ref: &RoleRef, namespace: Option<&str>) -> Option<Role> {
        self.role(self.roles.find(RoleKey::of(role_ref, namespace)?))
    }

    /// The subjects of the bindings that count for requests in a namespace, once for the ClusterRoleBindings and once for the
    /// RoleBindings in it (RB-30).
    pub(super) fn subjects(&self, namespace: &str) -> impl Iterator<Item = &Subjects> {
        self.scopes_of(namespace).map(|scope| &scope.subjects)
    }

    /// The bindings that count for requests in a namespace, name somebody, and whose role is missing (RB-33): each once, in no
    /// particular order.
    pub fn dangling(&self, namespace: &str) -> impl Iterator<Item = &Bound> {
        let mut seen = HashSet::new();
        let bindings = self.scopes_of(namespace).flat_map(|scope| scope.unresolved.bindings());
        bindings.filter(move |bound| seen.insert(Arc::as_ptr(bound))).map(|bound| &**bound)
    }

    /// The bindings that count for requests in a namespace, in no particular order.
    pub(super) fn bindings_of(&self, namespace: &str) -> impl Iterator<Item = (&Arc<Bound>, Option<RoleId>)> {
        let bindings = self.scopes_of(namespace).flat_map(|scope| &scope.bindings);
        bindings.map(|bound| (bound, self.roles.of(bound)))
    }

    /// All roles that exist.
    pub(super) fn roles(&self) -> &Roles {
        &self.roles
    }

    /// The super-user, if there is one (RB-125).
    pub fn super_user(&self) -> Option<&str> {
        self.super_user.as_deref()
    }

    /// The rules of a role, for decisions.
    pub(super) fn packed(&self, id: Option<RoleId>) -> Option<&PackedRules> {
        self.roles.packed(id)
    }

    /// Returns a role by its ID, like [`RbacIndex::role_of`].
    pub(super) fn role(&self, id: Option<RoleId>) -> Option<Role> {
        self.roles.role(id)
    }

    /// Where the objects are that a user may get. Names in the rules of a ClusterRoleBinding are looked for everywhere.
    pub fn extent(&self, attributes: &Attributes<'_>) -> Extent {
        let (user, asker) = (attributes.user, Asker::new(attributes.user, &self.hasher));
        let grants_any = |scope: &Scope| {
            let mut grants = scope.subjects.of(asker).flat_map(|subject| &subject.grants);
            grants.any(|grant| self.roles.packed(grant.role).is_some_and(|rules| rules.may_allow(attributes)))
        };
        if self.is_super_user(user) || grants_any(&self.cluster) {
            return Extent::everywhere();
        }
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        let namespaces = match namespace {
            "" => {
                let granting = self.namespaces.iter().filter(|(_, scope)| grants_any(scope));
                granting.map(|(name, _)| name.to_string()).collect()
            }
            one => {
                let granting = self.namespace(one).filter(|scope| grants_any(scope));
                granting.map(|_| one.to_owned()).into_iter().collect()
            }
        };
        Extent { namespaces, ..Extent::default() }
    }

    /// The bindings that apply to a user's requests: all ClusterRoleBindings of the user, then the RoleBindings in the
    /// namespace (RB-30, RB-40). Each is returned once, even if several of its subjects match the user.
    pub(super) fn grants<'a>(&'a self, user: &'a User, namespace: &str) -> impl Iterator<Item = Held<'a>> {
        let mut seen = HashSet::new();
        self.scopes_of(namespace)
            .flat_map(|scope| self.grants_in(scope, user))
            .filter(move |(bound, _)| seen.insert(Arc::as_ptr(bound)))
    }

    /// The user's RoleBindings in all namespaces but one. Walks all namespaces, so it is for explanations only.
    pub(super) fn grants_elsewhere<'a>(
        &'a self,
        user: &'a User,
        namespace: &str,
    ) -> impl Iterator<Item = Held<'a>> {
        let mut seen = HashSet::new();
        self.namespaces
            .iter()
            .filter(move |(name, _)| &***name != namespace)
            .flat_map(|(_, scope)| self.grants_in(scope, user))
            .filter(move |(bound, _)| seen.insert(Arc::as_ptr(bound)))
    }

    fn grants_in<'a>(&'a self, scope: &'a Scope, user: &'a User) -> impl Iterator<Item = Held<'a>> {
        let subjects = scope.subjects.of(Asker::new(user, &self.hasher));
        subjects.flat_map(|subject| &subject.grants).map(|grant| (&grant.bound, grant.role))
    }

    /// The bindings of a namespace. Only ClusterRoleBindings apply to a request without one (RB-34, RB-35).
    fn namespace(&self, namespace: &str) -> Option<&Scope> {
        if namespace.is_empty() { None } else { self.namespaces.get(namespace) }
    }

    /// The ClusterRoleBindings, and the RoleBindings of a namespace.
    fn scopes_of(&self, namespace: &str) -> impl Iterator<Item = &Scope> {
        [Some(&self.cluster), self.namespace(namespace)].into_iter().flatten()
    }

    fn scopes(&self) -> impl Iterator<Item = &Scope> {
        std::iter::once(&self.cluster).chain(self.namespaces.values())
    }

    fn set_role(&mut self, key: RoleKey<'_>, rules: Option<PackedRules>) {
        let Some(change) = self.roles.set(key, rules) else { return };
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
        let role = self.roles.bind(&bound);
        let hasher = &self.hasher;
        let scope = if bound.is_cluster_wide() {
            &mut self.cluster
        } else {
            self.namespaces.entry(bound.namespace().into()).or_default()
        };
        for key in bound.keys() {
            scope.subjects.grant(&key, Grant { bound: Arc::clone(&bound), role }, hasher);
        }
        if self.roles.packed(role).is_none() {
            scope.note_resolution(&bound, false);
        }
        let hash = hasher.hash_one(bound.name());
        scope.bindings.insert_unique(hash, bound, |bound| hasher.hash_one(bound.name()));
    }

    /// Decides by the bindings of one scope. Returns the first binding that grants, or whether a role was missing.
    #[inline]
    fn decide<'a>(
        &'a self,
        scope: &'a Scope,
        asker: Asker<'a>,
        attributes: &Attributes<'_>,
    ) -> Result<(&'a Arc<Subject>, usize), bool> {
        let mut missing = false;
        for subject in scope.subjects.of(asker) {
            for (place, grant) in subject.grants.iter().enumerate() {
                match self.roles.packed(grant.role) {
                    Some(rules) if rules.allow(attributes) => return Ok((subject, place)),
                    Some(_) => {}
                    None => missing = true,
                }
            }
        }
        Err(missing)
    }
}

impl Authorizer for RbacIndex {
    /// RB-30 to RB-39, RB-125. The order of a user's bindings is that of the index (RB-31).
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let user = attributes.user;
        // RB-24: the empty user has no permissions, even if a binding names it.
        if user.name.is_empty() && user.groups.is_empty() {
            return Decision::NO_OPINION;
        }
        if self.is_super_user(user) {
            return Decision::Allow(Reason::None);
        }
        let granted = |(subject, place): (&Arc<Subject>, usize)| {
            Decision::Allow(Reason::Rbac(RbacReason(Why::Granted { subject: Arc::clone(subject), place })))
        };
        let asker = Asker::new(user, &self.hasher);
        let unresolved = |scope: &Scope| Some(Arc::clone(&scope.unresolved));
        let cluster = match self.decide(&self.cluster, asker, attributes) {
            Ok(grant) => return granted(grant),
            Err(missing) => missing.then_some(&self.cluster).and_then(unresolved),
        };
        let mut namespaced = None;
        if let Some(scope) = attributes.resource.and_then(|request| self.namespace(request.namespace)) {
            match self.decide(scope, asker, attributes) {
                Ok(grant) => return granted(grant),
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
    fn unbind(&mut self, name: &str, roles: &mut Roles, hasher: &DefaultHashBuilder) {
        let Ok(entry) = self.bindings.find_entry(hasher.hash_one(name), |bound| bound.name() == name) else {
            return;
        };
        let (bound, _) = entry.remove();
        for key in bound.keys() {
            self.subjects.revoke(&key, &bound, hasher);
        }
        if roles.packed(roles.of(&bound)).is_none() {
            self.note_resolution(&bound, true);
        }
        roles.unbind(&bound);
    }

    /// Records that the role of a binding is missing, or no longer missing.
    fn note_resolution(&mut self, bound: &Arc<Bound>, is_resolved: bool) {
        if is_resolved && self.unresolved.is_empty() {
            return;
        }
        let unresolved = Arc::make_mut(&mut self.unresolved);
        for key in bound.keys() {
            if is_resolved {
                unresolved.remove(&key, bound);
            } else {
                unresolved.add(&key, Arc::clone(bound));
            }
        }
        if unresolved.is_empty() {
            // Free the memory that was needed while bindings were applied before their roles.
            *unresolved = Unresolved::default();
        }
    }
}
