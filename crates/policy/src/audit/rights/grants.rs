//! The bindings and roles of a cluster, by subject.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use std::sync::Arc;

use super::asks;
use super::built_in::BuiltIn;
use super::grant::{Grant, GrantId};
use super::held::{Held, Names, Rights};
use super::key::{Key, keys};
use super::roles::{Bound, Compiled, Roles};
use crate::audit::Subject;
use crate::audit::kubelet_access::Objects;
use crate::objects::rbac::Role;

/// The bindings and roles of a cluster, prepared for questions about subjects.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    pub(super) bindings: Vec<Arc<Bound>>,
    pub(super) by_subject: HashMap<Key, Vec<u32>>,
    pub(super) full_roles: HashSet<String>,
    /// The roles that somebody may bind by name: with the namespace of a Role.
    pub(super) bindable: BTreeMap<(Option<String>, String), Arc<Compiled>>,
    pub(super) built_in: Arc<BuiltIn>,
}

impl Grants {
    /// Prepares the roles and bindings of a cluster.
    pub fn new(objects: &Objects) -> Self {
        let built_in = Arc::new(BuiltIn::new());
        let mut roles = Roles::new(objects, &built_in);
        let is_full = |role: &&Role| roles.in_force().rules(role).any(asks::is_full);
        let full_roles =
            objects.cluster_roles().filter(is_full).map(|role| role.metadata.name.clone()).collect();
        let mut grants = Self { full_roles, built_in: built_in.clone(), ..Self::default() };
        for binding in objects.bindings() {
            let made = roles.bound(binding, &built_in);
            let place = grants.bindings.len();
            grants.bindings.push(Arc::new(Bound::like(&made)));
            grants.rebind(place, made);
        }
        grants.bindable = roles.bindable();
        grants
    }

    /// Whether the default policy has a role of this name; a ClusterRole without a namespace.
    pub(in crate::audit) fn is_default_role(&self, namespace: &str, name: &str) -> bool {
        self.built_in.has_role(namespace, name)
    }

    /// The namespaces (empty for ClusterRoleBindings) and names of the bindings of a role.
    pub(in crate::audit) fn bindings_of_role(
        &self,
        namespace: &str,
        name: &str,
    ) -> Vec<(&str, &str, &[Subject])> {
        let is_of_role = |bound: &&Arc<Bound>| {
            let own = bound.namespace.as_deref().unwrap_or_default();
            let of_role = if bound.role_kind == "Role" { own } else { "" };
            bound.role_name == name && of_role == namespace
        };
        self.bindings
            .iter()
            .filter(is_of_role)
            .map(|bound| {
                (
                    bound.namespace.as_deref().unwrap_or_default(),
                    bound.name.as_str(),
                    bound.subjects.as_slice(),
                )
            })
            .collect()
    }

    /// The roles that somebody may bind by name, each with the namespace of a Role.
    pub fn bindable(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        self.bindable.keys().map(|(namespace, name)| (namespace.as_deref(), name.as_str()))
    }

    /// The rights that a role of [`Grants::bindable`] gives to whoever is bound to it, for the cluster or in a namespace. Their
    /// grants name no binding.
    pub fn of_bindable(&self, role: (Option<&str>, &str), namespace: Option<&str>) -> Rights {
        let mut rights = Rights::default();
        let key = (role.0.map(str::to_owned), role.1.to_owned());
        let Some(compiled) = self.bindable.get(&key) else { return rights };
        let grant = |rule: u32| GrantId { binding: u32::MAX, rule };
        let namespace: Option<Arc<str>> = namespace.map(Into::into);
        if namespace.is_none() {
            rights.full = compiled.full.map(grant);
            rights.aggregated = compiled.is_aggregated.then_some(grant(0));
        }
        rights.held.extend(compiled.held.iter().map(|(rule, ask, verbs, names)| Held {
            ask: *ask,
            verbs: *verbs,
            names: names.clone(),
            namespace: namespace.clone(),
            grant: grant(*rule),
            is_built_in: false,
        }));
        rights
    }

    /// Everybody whom a binding names, with repetitions.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject> {
        self.bindings.iter().flat_map(|bound| &bound.subjects)
    }

    /// Whether a binding names a subject.
    pub(in crate::audit) fn is_bound(&self, subject: &Subject) -> bool {
        let own = keys(subject).into_iter().next().and_then(|key| self.by_subject.get(&key));
        own.is_some_and(|bindings| !bindings.is_empty())
    }

    /// All rights of an identity that lead further.
    pub fn of(&self, subject: &Subject) -> Rights {
        let mut rights = Rights::default();
        for key in keys(subject) {
            for binding in self.by_subject.get(&key).into_iter().flatten() {
                self.add(*binding, &key, &mut rights);
            }
        }
        rights
    }

    /// Whether some binding for the whole cluster is for programs that talk to kubelets.
    pub(in crate::audit) fn has_talkers(&self) -> bool {
        let talks =
            |bound: &Arc<Bound>| bound.role.as_ref().is_some_and(|role| role.talks_to_kubelets.is_some());
        self.bindings.iter().any(|bound| bound.namespace.is_none() && talks(bound))
    }

    /// A grant, bound to the subject's own name for the whole cluster, that is for programs which talk to kubelets (E20).
    pub fn talks_to_kubelets(&self, subject: &Subject) -> Option<GrantId> {
        let own = keys(subject).into_iter().next()?;
        let bindings = self.by_subject.get(&own).into_iter().flatten();
        let grants = bindings.filter_map(|binding| {
            let bound = self.bindings.get(*binding as usize).filter(|bound| bound.namespace.is_none())?;
            Some(GrantId { binding: *binding, rule: bound.role.as_ref()?.talks_to_kubelets? })
        });
        grants.min()
    }

    fn add(&self, binding: u32, key: &Key, rights: &mut Rights) {
        let Some(bound) = self.bindings.get(binding as usize) else { return };
        let Some(role) = &bound.role else { return };
        let grant = |rule: u32| GrantId { binding, rule };
        let first = |found: &mut Option<GrantId>, rule: Option<u32>| {
            *found = (*found).into_iter().chain(rule.map(grant)).min();
        };
        if bound.namespace.is_none() {
            first(&mut rights.full, role.full);
            first(&mut rights.aggregated, role.is_aggregated.then_some(0));
        }
        let is_default = bound.default.as_ref().is_some_and(|default| default.binds(key));
        let is_built_in =
            |rule: u32| is_default && role.rules.get(rule as usize).is_some_and(|rule| rule.is_default);
        rights.held.extend(role.held.iter().map(|(rule, ask, verbs, names)| Held {
            ask: *ask,
            verbs: *verbs,
            names: names.clone(),
            namespace: bound.namespace.clone(),
            grant: grant(*rule),
            is_built_in: is_built_in(*rule),
        }));
    }

    /// Whether a right to bind is one for a role that grants everything: for every role, or for such a role by name.
    pub fn is_for_full_role(&self, names: &Names) -> bool {
        match names {
            Names::Free => true,
            Names::Only(names) => names.iter().any(|name| self.full_roles.contains(name)),
        }
    }

    /// A grant in words.
    pub fn grant(&self, id: GrantId) -> Option<Grant<'_>> {
        let bound = self.bindings.get(id.binding as usize)?;
        let source = bound.role.as_ref().and_then(|role| role.rules.get(id.rule as usize));
        Some(Grant {
            binding: match &bound.namespace {
                Some(namespace) => ("RoleBinding", namespace, &bound.name),
                None => ("ClusterRoleBinding", "", &bound.name),
            },
            role: (&bound.role_kind, &bound.role_name),
            rule: source.and_then(|source| source.index),
            aggregated_from: source.map(|source| source.from.as_slice()).unwrap_or_default(),
            text: source.map(|source| &source.rule),
        })
    }
}
