//! The stored ClusterRoles, and the rules of the aggregated ones, updated incrementally (RB-79).
//!
//! This is separate from the index, which contains the rules in force. A change of a role that no aggregation selects
//! costs one match per selector; otherwise the cost is proportional to the aggregated roles and the roles that they
//! select.

use std::collections::{BTreeMap, BTreeSet};

use super::aggregation::{aggregate, aggregated_rules};
use crate::objects::rbac::{PolicyRule, Role};

/// See the module.
#[derive(Debug, Default)]
pub struct ClusterRoles {
    /// As written.
    roles: BTreeMap<String, Role>,
    /// The aggregated roles, with the roles that they select.
    feeders: BTreeMap<String, BTreeSet<String>>,
    /// The rules in force of the aggregated roles.
    in_force: BTreeMap<String, Vec<PolicyRule>>,
}

/// The consequences of a change of one ClusterRole.
#[derive(Debug, Default)]
pub struct Changes {
    /// The roles whose rules in force changed, with the new rules.
    pub in_force: Vec<Role>,
    /// The aggregated roles whose stored rules are outdated.
    pub due: Vec<AggregatedRules>,
}

/// The rules that an aggregated ClusterRole should have, if they differ from the stored ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedRules {
    /// The ClusterRole.
    pub name: String,
    /// The rules to write. Empty if no role matches: then rules written by the aggregation controller are to be
    /// removed, and rules written by another user stay in force (RB-79).
    pub rules: Vec<PolicyRule>,
}

impl ClusterRoles {
    /// Applies a stored ClusterRole, replacing one of the same name.
    pub fn apply(&mut self, role: Role) -> Changes {
        let name = role.metadata.name.clone();
        let old = self.roles.insert(name.clone(), role);
        self.changed(&name, old)
    }

    /// Deletes a ClusterRole.
    pub fn delete(&mut self, name: &str) -> Changes {
        match self.roles.remove(name) {
            Some(old) => self.changed(name, Some(old)),
            None => Changes::default(),
        }
    }

    fn changed(&mut self, name: &str, old: Option<Role>) -> Changes {
        let aggregated = |role: Option<&Role>| role.is_some_and(|role| role.aggregation_rule.is_some());
        let mut is_concerned = aggregated(old.as_ref()) || aggregated(self.roles.get(name));
        // Update the roles that aggregate this one.
        for (other, feeders) in &mut self.feeders {
            let Some(collector) = self.roles.get(other).filter(|_| other != name) else { continue };
            is_concerned |= match self.roles.get(name) {
                Some(role) if selects(collector, role) => {
                    feeders.insert(name.to_owned());
                    true
                }
                _ => feeders.remove(name),
            };
        }
        // Update the roles that this one aggregates.
        match self.roles.get(name).filter(|role| role.aggregation_rule.is_some()) {
            Some(role) => {
                let others = self.roles.values().filter(|other| other.metadata.name != name);
                let feeders = others.filter(|other| selects(role, other));
                self.feeders.insert(name.to_owned(), feeders.map(|o| o.metadata.name.clone()).collect());
            }
            None => {
                self.feeders.remove(name);
                self.in_force.remove(name);
            }
        }
        let mut changes = if is_concerned { self.aggregate() } else { Changes::default() };
        if let Some(role) = self.roles.get(name).filter(|role| role.aggregation_rule.is_none()) {
            changes.in_force.push(role.clone());
        }
        changes
    }

    /// Aggregates again from the stored rules, so that the rules in force depend only on these and never on the order
    /// of changes.
    fn aggregate(&mut self) -> Changes {
        let concerned: BTreeSet<&String> =
            self.feeders.iter().flat_map(|(name, f)| f.iter().chain([name])).collect();
        let mut roles: Vec<Role> =
            concerned.into_iter().filter_map(|name| self.roles.get(name)).cloned().collect();
        // A role with an invalid selector keeps its rules.
        let _ = aggregate(&mut roles);
        let mut changes = Changes::default();
        for role in roles.iter().filter(|role| role.aggregation_rule.is_some()) {
            let name = &role.metadata.name;
            if self.in_force.get(name) != Some(&role.rules) {
                self.in_force.insert(name.clone(), role.rules.clone());
                changes.in_force.push(role.clone());
            }
            let written = self.roles.get(name).map(|role| &role.rules);
            if let Ok(Some(rules)) = aggregated_rules(role, &roles)
                && written != Some(&rules)
            {
                changes.due.push(AggregatedRules { name: name.clone(), rules });
            }
        }
        changes
    }
}

/// Returns whether one role aggregates another. An invalid selector may match any role.
fn selects(collector: &Role, other: &Role) -> bool {
    let selectors = collector.aggregation_rule.iter().flat_map(|rule| &rule.cluster_role_selectors);
    selectors.into_iter().any(|selector| selector.matches(&other.metadata.labels).unwrap_or(true))
}
