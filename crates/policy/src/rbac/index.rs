//! The subject index: the roles and bindings in force, found by who asks.
//!
//! A decision looks only at the bindings of the user and of the user's groups, so its cost does not grow with the
//! number of bindings. A change costs what the changed object itself is worth: its subjects, and for a role that
//! comes or goes the bindings that name it; never the size of the index.
//!
//! ```text
//!   scope: table ──▶ Subject {name, grants: [(binding, role)]}      deciding reads these three,
//!                                             │       └──▶ PackedRules   64 bytes or so of each
//!                                             ▼
//!                                           Bound                   naming, listing, changing
//! ```
//!
//! What a large cluster's decisions cost is the way to memory, so what they read is apart from all else and small:
//! names and rules lie in place unless they are long (see [`super::short`] and [`super::words`]). Roles and bindings
//! are made whole again only to be explained or listed.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};

use super::bound::Bound;
use super::packed::PackedRules;
use super::reason::{RbacReason, Unresolved, Why};
use super::roles::{RoleId, RoleKey, Roles};
use super::subjects::{Asker, Grant, Subject, Subjects};
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
    hasher: DefaultHashBuilder,
}

/// The bindings of one namespace, or the ClusterRoleBindings.
#[derive(Debug, Default)]
struct Scope {
    subjects: Subjects,
    /// By name.
    bindings: HashTable<Arc<Bound>>,
    /// Shared with the reasons given out; copied when it changes while one of them is still held.
    unresolved: Arc<Unresolved>,
}

/// A binding of a user, and where its role is kept.
pub(super) type Held<'a> = (&'a Arc<Bound>, Option<RoleId>);

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
        self.set_role(key, Some(PackedRules::pack(&role.rules)));
    }

    /// Takes in a ClusterRole, in place of one of the same name.
    pub fn apply_cluster_role(&mut self, role: Role) {
        let key = RoleKey::cluster_role(&role.metadata.name);
        self.set_role(key, Some(PackedRules::pack(&role.rules)));
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
        self.bind(Bound::namespaced(&binding));
    }

    /// Takes in a ClusterRoleBinding, in place of one of the same name.
    pub fn apply_cluster_role_binding(&mut self, binding: Binding) {
        self.delete_cluster_role_binding(&binding.metadata.name);
        self.bind(Bound::cluster_wide(&binding));
    }

    /// Forgets a RoleBinding.
    pub fn delete_binding(&mut self, namespace: &str, name: &str) {
        let Some(scope) = self.namespaces.get_mut(namespace) else { return };
        scope.unbind(name, &mut self.roles, &self.hasher);
        if scope.bindings.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    /// Forgets a ClusterRoleBinding.
    pub fn delete_cluster_role_binding(&mut self, name: &str) {
        self.cluster.unbind(name, &mut self.roles, &self.hasher);
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
        self.scopes().flat_map(|scope| &scope.bindings).map(|bound| &**bound)
    }

    /// The role that a binding grants, if there is one (RB-32). Its rules, name and namespace: the index keeps no more.
    pub fn role_of(&self, bound: &Bound) -> Option<Role> {
        self.resolve(&bound.role_ref(), bound.role_namespace())
    }

    /// The role that a reference from a binding names (RB-32), as [`RbacIndex::role_of`] has it. `namespace` is the
    /// RoleBinding's, or nothing for a ClusterRoleBinding: no Role can be found from there.
    pub fn resolve(&self, role_ref: &RoleRef, namespace: Option<&str>) -> Option<Role> {
        self.role(self.roles.find(RoleKey::of(role_ref, namespace)?))
    }

    /// A role by its place, as [`RbacIndex::role_of`] has it.
    pub(super) fn role(&self, id: Option<RoleId>) -> Option<Role> {
        self.roles.role(id)
    }

    /// The bindings that may serve a user's requests: all ClusterRoleBindings of the user, then the RoleBindings in
    /// the namespace (RB-30, RB-40). Each comes once, however often it means the user.
    pub(super) fn grants<'a>(&'a self, user: &'a User, namespace: &str) -> impl Iterator<Item = Held<'a>> {
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

    /// The bindings of a namespace. A request without one is served by ClusterRoleBindings only (RB-34, RB-35).
    fn namespace(&self, namespace: &str) -> Option<&Scope> {
        if namespace.is_empty() { None } else { self.namespaces.get(namespace) }
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

    /// Decides by the bindings of one scope: the first that grants, or whether a role was missing on the way.
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
        // RB-24: nobody is nobody, even if a binding names the empty user.
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
        // Nothing is noted of a binding whose role is there.
        self.note_resolution(&bound, true);
        roles.unbind(&bound);
    }

    /// Remembers that the role of a binding is missing, or no longer is.
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
            // Room that was taken while bindings came before their roles is given back.
            *unresolved = Unresolved::default();
        }
    }
}
