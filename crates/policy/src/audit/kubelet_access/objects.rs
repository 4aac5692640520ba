//! Finds the holders of `nodes/proxy` in RBAC objects.

use std::collections::BTreeMap;

use super::{Grant, Holder, Note, Report};
use crate::audit::Subject;
use crate::objects::Object;
use crate::objects::rbac::{Binding, PolicyRule, Role};
use crate::rbac::aggregation;

/// RBAC objects by name; a later one replaces an earlier one of the same name.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    cluster_roles: BTreeMap<String, Role>,
    cluster_role_bindings: BTreeMap<String, Binding>,
    roles: BTreeMap<(String, String), Role>,
    role_bindings: BTreeMap<(String, String), Binding>,
}

impl Objects {
    /// Adds an object of an RBAC kind; others are ignored. Returns whether it was one.
    pub fn take(&mut self, object: Object<'_>) -> bool {
        match object {
            Object::ClusterRole(role) => drop(self.cluster_roles.insert(role.metadata.name.clone(), role)),
            Object::ClusterRoleBinding(binding) => {
                self.cluster_role_bindings.insert(binding.metadata.name.clone(), binding);
            }
            Object::Role(role) => {
                let key = (role.metadata.namespace.clone(), role.metadata.name.clone());
                self.roles.insert(key, role);
            }
            Object::RoleBinding(binding) => {
                let key = (binding.metadata.namespace.clone(), binding.metadata.name.clone());
                self.role_bindings.insert(key, binding);
            }
            _ => return false,
        }
        true
    }

    /// The ClusterRoles, sorted.
    pub(in crate::audit) fn cluster_roles(&self) -> impl Iterator<Item = &Role> {
        self.cluster_roles.values()
    }

    /// A ClusterRole.
    pub(in crate::audit) fn cluster_role(&self, name: &str) -> Option<&Role> {
        self.cluster_roles.get(name)
    }

    /// The Roles, sorted by namespace and name.
    pub(in crate::audit) fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// A Role.
    pub(in crate::audit) fn role(&self, namespace: &str, name: &str) -> Option<&Role> {
        self.roles.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The ClusterRoleBindings, sorted.
    pub(in crate::audit) fn cluster_role_bindings(&self) -> impl Iterator<Item = &Binding> {
        self.cluster_role_bindings.values()
    }

    /// The RoleBindings, sorted by namespace and name.
    pub(in crate::audit) fn role_bindings(&self) -> impl Iterator<Item = &Binding> {
        self.role_bindings.values()
    }

    /// Sets the rules of a role; of a ClusterRole without a namespace.
    pub(in crate::audit) fn set_rules(&mut self, namespace: &str, name: &str, rules: Vec<PolicyRule>) {
        let role = match namespace {
            "" => self.cluster_roles.get_mut(name),
            namespace => self.roles.get_mut(&(namespace.to_owned(), name.to_owned())),
        };
        if let Some(role) = role {
            role.rules = rules;
        }
    }

    /// The role of a binding; none if it grants nothing, because there is no such role (RB-32, RB-33).
    pub(in crate::audit) fn role_of(&self, binding: &Binding) -> Option<&Role> {
        let namespace = binding.metadata.namespace.as_str();
        match (binding.role_ref.kind.as_str(), namespace) {
            ("ClusterRole", _) => self.cluster_role(&binding.role_ref.name),
            ("Role", "") => None,
            ("Role", namespace) => self.role(namespace, &binding.role_ref.name),
            _ => None,
        }
    }

    /// The bindings: first ClusterRoleBindings, then RoleBindings, each sorted.
    pub(in crate::audit) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.cluster_role_bindings().chain(self.role_bindings())
    }

    /// A binding; a ClusterRoleBinding without a namespace.
    pub(in crate::audit) fn binding(&self, namespace: &str, name: &str) -> Option<&Binding> {
        match namespace {
            "" => self.cluster_role_bindings.get(name),
            namespace => self.role_bindings.get(&(namespace.to_owned(), name.to_owned())),
        }
    }

    /// Sets the subjects of a binding.
    pub(in crate::audit) fn set_subjects(
        &mut self,
        namespace: &str,
        name: &str,
        subjects: Vec<crate::objects::rbac::Subject>,
    ) {
        let binding = match namespace {
            "" => self.cluster_role_bindings.get_mut(name),
            namespace => self.role_bindings.get_mut(&(namespace.to_owned(), name.to_owned())),
        };
        if let Some(binding) = binding {
            binding.subjects = subjects;
        }
    }

    /// Removes a role; a ClusterRole without a namespace.
    pub(in crate::audit) fn remove_role(&mut self, namespace: &str, name: &str) {
        match namespace {
            "" => drop(self.cluster_roles.remove(name)),
            namespace => drop(self.roles.remove(&(namespace.to_owned(), name.to_owned()))),
        }
    }

    /// Removes a binding; a ClusterRoleBinding without a namespace.
    pub(in crate::audit) fn remove_binding(&mut self, namespace: &str, name: &str) {
        match namespace {
            "" => drop(self.cluster_role_bindings.remove(name)),
            namespace => drop(self.role_bindings.remove(&(namespace.to_owned(), name.to_owned()))),
        }
    }

    /// Reports all holders of `nodes/proxy`, with any verb and by any means: `*`, `*/proxy`, or by name; through
    /// groups; through aggregated roles, with the rules that they contain and those that they will aggregate.
    pub fn report(&self) -> Report {
        let (cluster_roles, mut notes) = self.in_force();
        let mut holders: BTreeMap<Subject, Vec<Grant>> = BTreeMap::new();
        for binding in self.cluster_role_bindings.values().filter(|b| b.role_ref.kind == "ClusterRole") {
            let Some(role) = cluster_roles.get(&*binding.role_ref.name) else { continue };
            let grants: Vec<Grant> = self.grants(binding, role);
            let mut subjects: Vec<Subject> = Subject::all_of(binding).collect();
            subjects.sort();
            subjects.dedup();
            for subject in subjects.into_iter().filter(|_| !grants.is_empty()) {
                holders.entry(subject).or_default().extend(grants.iter().cloned());
            }
        }
        for ((namespace, name), binding) in &self.role_bindings {
            let reference = &binding.role_ref;
            let rules = match reference.kind.as_str() {
                "ClusterRole" => cluster_roles.get(&*reference.name).map(|role| &role.rules),
                "Role" => {
                    self.roles.get(&(namespace.clone(), reference.name.clone())).map(|role| &role.rules)
                }
                _ => None,
            };
            if rules
                .into_iter()
                .flatten()
                .any(|rule| rule.resources.iter().any(|entry| entry == "nodes/proxy"))
            {
                let role = format!("{} {}", reference.kind, reference.name);
                notes.push(Note::RoleBinding { namespace: namespace.clone(), name: name.clone(), role });
            }
        }
        let stars = |role: &&Role| {
            role.rules.iter().any(|rule| rule.resources.iter().any(|entry| entry == "nodes/*"))
        };
        notes.extend(
            cluster_roles
                .values()
                .filter(stars)
                .map(|role| Note::NodesStar { role: role.metadata.name.clone() }),
        );
        notes.push(Note::Masters);
        notes.sort();
        let holders = holders.into_iter().map(|(subject, grants)| Holder { subject, grants }).collect();
        Report { holders, notes }
    }

    /// The ClusterRoles with all rules that they contain or will aggregate (RB-79).
    pub(in crate::audit) fn in_force(&self) -> (BTreeMap<String, Role>, Vec<Note>) {
        let mut roles: Vec<Role> = self.cluster_roles.values().cloned().collect();
        let faults = aggregation::aggregate(&mut roles);
        let notes = faults
            .into_iter()
            .map(|(role, fault)| Note::Selector { role, fault: fault.to_string() })
            .collect();
        for role in &mut roles {
            // The rules stored in an aggregated role are in force until the controller reconciles it.
            let Some(stored) = self.cluster_roles.get(&role.metadata.name) else { continue };
            let held: Vec<_> =
                stored.rules.iter().filter(|rule| !role.rules.contains(rule)).cloned().collect();
            role.rules.extend(held);
        }
        (roles.into_iter().map(|role| (role.metadata.name.clone(), role)).collect(), notes)
    }

    fn grants(&self, binding: &Binding, role: &Role) -> Vec<Grant> {
        let stored = self.cluster_roles.get(&role.metadata.name);
        let of_rule = |rule: &PolicyRule| {
            let (resources, resource_names) = proxy_entries(rule)?;
            Some(Grant {
                binding: binding.metadata.name.clone(),
                role: role.metadata.name.clone(),
                rule: stored.and_then(|stored| stored.rules.iter().position(|other| other == rule)),
                aggregated_from: self.sources(role, rule),
                resources,
                verbs: rule.verbs.clone(),
                resource_names,
            })
        };
        role.rules.iter().filter_map(of_rule).collect()
    }

    /// The roles that an aggregated role selects and that have this rule.
    pub(in crate::audit) fn sources(&self, role: &Role, rule: &PolicyRule) -> Vec<String> {
        if !role.is_aggregated() {
            return Vec::new();
        }
        let is_source = |other: &&Role| other.rules.contains(rule) && role.selects(other);
        self.cluster_roles.values().filter(is_source).map(|other| other.metadata.name.clone()).collect()
    }
}

/// Returns the entries of a rule that match `nodes/proxy`, and its resource names; `None` if it matches no node (RB-10
/// to RB-15). Every node has a name, so a rule for the empty name matches none.
fn proxy_entries(rule: &PolicyRule) -> Option<(Vec<String>, Vec<String>)> {
    let is_core = rule.api_groups.iter().any(|group| matches!(group.as_str(), "" | "*"));
    let means_proxy = |entry: &&String| matches!(entry.as_str(), "*" | "*/proxy" | "nodes/proxy");
    let entries: Vec<String> = rule.resources.iter().filter(means_proxy).cloned().collect();
    let names: Vec<String> = rule.resource_names.iter().filter(|name| !name.is_empty()).cloned().collect();
    let is_for_no_node = names.is_empty() && !rule.resource_names.is_empty();
    (is_core && !entries.is_empty() && !rule.verbs.is_empty() && !is_for_no_node).then_some((entries, names))
}
