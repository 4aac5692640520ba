//! Rules for nodes that grant nothing (PC136).

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Evidence;
use super::found::{All, Found};
use super::names::{of_binding, of_role, scope};
use super::severity::Severity;
use super::standing::Standing;
use crate::audit::Subject;
use crate::features::FeatureGates;
use crate::objects::Object;
use crate::objects::rbac::{PolicyRule, Role};
use crate::rbac::default_policy;

pub(super) fn find(standing: &Standing<'_>, all: &mut All) {
    let rbac = &standing.state.facts().rbac;
    let default = Defaults::new();
    for role in rbac.cluster_roles().chain(rbac.roles()) {
        let of_default = default.roles.get(&key(role)).map(Vec::as_slice).unwrap_or_default();
        let own = role.rules.iter().enumerate().filter(|(_, rule)| !of_default.contains(rule));
        for (number, rule) in own {
            let is_core = rule.api_groups.iter().any(|group| group.is_empty() || group == "*");
            let entry = rule.resources.iter().find(|entry| matches!(entry.as_str(), "nodes/*" | "*/*"));
            let Some(entry) = entry.filter(|_| is_core) else { continue };
            // It stands in the role that this one aggregates, too.
            if !rbac.sources(role, rule).is_empty() {
                continue;
            }
            let instance = scope(&role.metadata.namespace);
            let evidence = Evidence::field(of_role(role), format!("/rules/{number}"), entry.as_str());
            all.add(Found::of_object("PC136", Severity::Info, of_role(role), instance, evidence));
        }
    }
    for binding in rbac.role_bindings() {
        let namespace = &binding.metadata.namespace;
        let name = (namespace.clone(), binding.metadata.name.clone());
        let role = rbac.role_of(binding).filter(|_| !default.bindings.contains(&name));
        let Some(role) = role.filter(|_| Subject::all_of(binding).next().is_some()) else { continue };
        let mut entries = standing.in_force.rules(role).flat_map(|rule| &rule.resources);
        let Some(entry) = entries.find(|entry| entry.starts_with("nodes/")) else { continue };
        let subject = of_binding(binding);
        let evidence =
            vec![Evidence::object(subject.clone()), Evidence::field(of_role(role), "/rules", entry.as_str())];
        all.add(Found::of_object("PC136", Severity::Info, subject, scope(namespace), evidence));
    }
}

fn key(role: &Role) -> (String, String) {
    (role.metadata.namespace.clone(), role.metadata.name.clone())
}

/// The default policy by namespace and name: the rules of its roles, and its RoleBindings.
struct Defaults {
    roles: BTreeMap<(String, String), Vec<PolicyRule>>,
    bindings: BTreeSet<(String, String)>,
}

impl Defaults {
    fn new() -> Self {
        let mut defaults = Self { roles: BTreeMap::new(), bindings: BTreeSet::new() };
        for object in default_policy::objects(FeatureGates::default()) {
            match object {
                Object::ClusterRole(role) | Object::Role(role) => {
                    defaults.roles.insert(key(&role), role.rules);
                }
                Object::RoleBinding(binding) => {
                    defaults.bindings.insert((binding.metadata.namespace, binding.metadata.name));
                }
                _ => {}
            }
        }
        defaults
    }
}
