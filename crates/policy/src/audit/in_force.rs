//! The rules of roles: those stored, and those that aggregated ClusterRoles are to get (AU-25).

use std::cell::OnceCell;

use hashbrown::{HashMap, HashSet};

use super::kubelet_access::Objects;
use crate::objects::rbac::{PolicyRule, Role};
use crate::rbac::aggregation;

/// The rules of the roles of a cluster. Roles are aggregated once, when an aggregated one is asked about.
#[derive(Debug)]
pub(in crate::audit) struct InForce<'o> {
    pub(in crate::audit) objects: &'o Objects,
    /// For each aggregated ClusterRole, the rules that its controller will add.
    pending: OnceCell<HashMap<String, Vec<PolicyRule>>>,
}

impl<'o> InForce<'o> {
    pub(in crate::audit) fn new(objects: &'o Objects) -> Self {
        Self { objects, pending: OnceCell::new() }
    }

    /// The rules of a role: first those stored, in order.
    pub(in crate::audit) fn rules<'r>(&'r self, role: &'r Role) -> impl Iterator<Item = &'r PolicyRule> {
        role.rules.iter().chain(self.pending(role))
    }

    /// The rules that the aggregation controller is to add to a role (RB-79).
    pub(in crate::audit) fn pending(&self, role: &Role) -> &[PolicyRule] {
        if !role.is_aggregated() {
            return &[];
        }
        let pending = self.pending.get_or_init(|| pending(self.objects));
        pending.get(&role.metadata.name).map(Vec::as_slice).unwrap_or_default()
    }
}

fn pending(objects: &Objects) -> HashMap<String, Vec<PolicyRule>> {
    let mut roles: Vec<Role> = objects.cluster_roles().cloned().collect();
    // A role whose selector is invalid keeps its rules.
    let _ = aggregation::aggregate(&mut roles);
    let missing = |role: Role| {
        let stored: HashSet<&PolicyRule> = objects.cluster_role(&role.metadata.name)?.rules.iter().collect();
        let missing = role.rules.into_iter().filter(|rule| !stored.contains(rule)).collect();
        Some((role.metadata.name, missing))
    };
    roles.into_iter().filter(Role::is_aggregated).filter_map(missing).collect()
}
