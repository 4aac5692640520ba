//! The same grants after a change of some roles and bindings: a fix is tried without reading everything again.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::asks;
use super::grants::Grants;
use super::key::keys;
use super::roles::{Bound, Roles};
use crate::audit::Subject;
use crate::audit::kubelet_access::Objects;
use crate::objects::rbac::Role;

impl Grants {
    /// The same for objects of which some changed: `roles` by namespace (empty for ClusterRoles) and name, and `bindings`, also new
    /// ones. Nothing else is read again. Also returns the subjects of the bindings that changed, or whose role did.
    pub(in crate::audit) fn revised(
        &self,
        objects: &Objects,
        roles: &BTreeSet<(String, String)>,
        bindings: &BTreeSet<(String, String)>,
    ) -> (Self, BTreeSet<Subject>) {
        let mut revised = self.clone();
        let mut subjects = BTreeSet::new();
        let built_in = self.built_in.clone();
        let mut compiled = Roles::new(objects, &built_in);
        let touched = with_aggregated(objects, roles);
        let mut known = BTreeSet::new();
        for place in 0..revised.bindings.len() {
            let Some(bound) = revised.bindings.get(place).cloned() else { continue };
            let key = (bound.namespace.as_deref().unwrap_or_default().to_owned(), bound.name.clone());
            let of_role = if bound.role_kind == "Role" { key.0.clone() } else { String::new() };
            let is_touched = touched.contains(&(of_role, bound.role_name.clone()));
            if bindings.contains(&key) {
                known.insert(key.clone());
                subjects.extend(bound.subjects.iter().cloned());
                revised.unbind(place, &bound);
                let Some(binding) = objects.binding(&key.0, &key.1) else { continue };
                let made = compiled.bound(binding, &built_in);
                revised.rebind(place, made);
            } else if is_touched {
                let role = compiled.role(&bound.role_kind, &key.0, &bound.role_name);
                subjects.extend(bound.subjects.iter().cloned());
                let made = Bound { role, subjects: bound.subjects.clone(), ..Bound::like(&bound) };
                if let Some(kept) = revised.bindings.get_mut(place) {
                    *kept = Arc::new(made);
                }
            }
        }
        for (namespace, name) in bindings.difference(&known) {
            if let Some(binding) = objects.binding(namespace, name) {
                let place = revised.bindings.len();
                let made = compiled.bound(binding, &built_in);
                subjects.extend(made.subjects.iter().cloned());
                revised.bindings.push(Arc::new(Bound::like(&made)));
                revised.rebind(place, made);
            }
        }
        let is_full = |name: &str| {
            let role = objects.cluster_role(name);
            role.is_some_and(|role| compiled.in_force().rules(role).any(asks::is_full))
        };
        for (_, name) in touched.iter().filter(|(namespace, _)| namespace.is_empty()) {
            if !is_full(name) {
                revised.full_roles.remove(name);
            }
        }
        for ((namespace, name), role) in &mut revised.bindable {
            let key = (namespace.clone().unwrap_or_default(), name.clone());
            if touched.contains(&key) {
                let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
                *role = compiled.role(kind, &key.0, name).unwrap_or_default();
            }
        }
        (revised, subjects)
    }

    fn unbind(&mut self, place: usize, bound: &Bound) {
        for subject in &bound.subjects {
            let places = keys(subject).into_iter().next().and_then(|key| self.by_subject.get_mut(&key));
            if let Some(places) = places {
                places.retain(|other| *other as usize != place);
            }
        }
    }

    pub(super) fn rebind(&mut self, place: usize, bound: Bound) {
        let Ok(number) = u32::try_from(place) else { return };
        for subject in &bound.subjects {
            if let Some(key) = keys(subject).into_iter().next() {
                self.by_subject.entry(key).or_default().push(number);
            }
        }
        if let Some(kept) = self.bindings.get_mut(place) {
            *kept = Arc::new(bound);
        }
    }
}

/// The roles, and those that aggregate them, and so on.
fn with_aggregated(objects: &Objects, roles: &BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    let mut all = roles.clone();
    loop {
        let sources = all.iter().filter(|(namespace, _)| namespace.is_empty());
        let sources: Vec<&Role> = sources.filter_map(|(_, name)| objects.cluster_role(name)).collect();
        let collects = |role: &&Role| sources.iter().any(|source| role.selects(source));
        let aggregated = objects.cluster_roles().filter(|role| role.is_aggregated()).filter(collects);
        let found: Vec<(String, String)> =
            aggregated.map(|role| (String::new(), role.metadata.name.clone())).collect();
        let before = all.len();
        all.extend(found);
        if all.len() == before {
            return all;
        }
    }
}
