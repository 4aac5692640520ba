//! The ClusterRoles as they were written, and what those that aggregate make of them, change by change (RB-79).
//!
//! Kept beside the index, which holds the rules in force. A change that no aggregation selects costs one match against
//! each selector; one that does costs what the aggregated roles and those that feed them are worth.

use std::collections::{BTreeMap, BTreeSet};

use super::aggregation::{aggregate, aggregated_rules};
use crate::objects::rbac::{PolicyRule, Role};

/// See the module.
#[derive(Debug, Default)]
pub struct ClusterRoles {
    /// As written.
    roles: BTreeMap<String, Role>,
    /// The roles that aggregate, with those that their selectors take.
    feeders: BTreeMap<String, BTreeSet<String>>,
    /// The rules in force of the roles that aggregate.
    in_force: BTreeMap<String, Vec<PolicyRule>>,
}

/// What a change of one ClusterRole comes to.
#[derive(Debug, Default)]
pub struct Changes {
    /// The roles whose rules in force changed, with these rules.
    pub in_force: Vec<Role>,
    /// The aggregated roles that are not written as they should be.
    pub due: Vec<AggregatedRules>,
}

/// The rules that an aggregated ClusterRole should have, other than those that it was written with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregatedRules {
    /// The ClusterRole.
    pub name: String,
    /// The rules to write. None when no role feeds this one: then rules that the aggregation controller has written
    /// before are to be taken away, and those that somebody else has written stay, and in force (RB-79).
    pub rules: Vec<PolicyRule>,
}

impl ClusterRoles {
    /// Takes in a ClusterRole as it was written, in place of one of the same name.
    pub fn apply(&mut self, role: Role) -> Changes {
        let name = role.metadata.name.clone();
        let old = self.roles.insert(name.clone(), role);
        self.changed(&name, old)
    }

    /// Forgets a ClusterRole.
    pub fn delete(&mut self, name: &str) -> Changes {
        match self.roles.remove(name) {
            Some(old) => self.changed(name, Some(old)),
            None => Changes::default(),
        }
    }

    fn changed(&mut self, name: &str, old: Option<Role>) -> Changes {
        let aggregated = |role: Option<&Role>| role.is_some_and(|role| role.aggregation_rule.is_some());
        let mut is_concerned = aggregated(old.as_ref()) || aggregated(self.roles.get(name));
        // What this role feeds now, and no longer.
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
        // What feeds this role.
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

    /// Aggregates anew, from the rules as written: what is in force depends on these only, never on the order of
    /// changes.
    fn aggregate(&mut self) -> Changes {
        let concerned: BTreeSet<&String> =
            self.feeders.iter().flat_map(|(name, f)| f.iter().chain([name])).collect();
        let mut roles: Vec<Role> =
            concerned.into_iter().filter_map(|name| self.roles.get(name)).cloned().collect();
        // A selector that means nothing leaves the rules of its role as they are.
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

/// Whether one role takes the rules of another. A selector that means nothing may take any.
fn selects(collector: &Role, other: &Role) -> bool {
    let selectors = collector.aggregation_rule.iter().flat_map(|rule| &rule.cluster_role_selectors);
    selectors.into_iter().any(|selector| selector.matches(&other.metadata.labels).unwrap_or(true))
}
