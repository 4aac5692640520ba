//! What a user may do, as a list of rules (RB-40 to RB-43). For display and for the escalation check.

use super::index::RbacIndex;
use crate::objects::rbac::PolicyRule;
use crate::request::User;
use crate::rules::{NonResourceRule, ResourceRule, RuleListing};

impl RbacIndex {
    /// The rules of a user in a namespace (RB-40, RB-41): those of all ClusterRoleBindings of the user, then those of
    /// the RoleBindings there; only the former when the namespace is empty. Never incomplete, even with errors (RB-42).
    pub fn rules_for(&self, user: &User, namespace: &str) -> RuleListing {
        let (rules, errors) = self.policy_rules_for(user, namespace);
        let mut listing = RuleListing { errors, ..RuleListing::default() };
        for rule in rules {
            if !rule.resources.is_empty() {
                listing.resource_rules.push(ResourceRule {
                    verbs: rule.verbs.clone(),
                    api_groups: rule.api_groups,
                    resources: rule.resources,
                    resource_names: rule.resource_names,
                });
            }
            if !rule.non_resource_urls.is_empty() {
                listing
                    .non_resource_rules
                    .push(NonResourceRule { verbs: rule.verbs, non_resource_urls: rule.non_resource_urls });
            }
        }
        listing
    }

    /// The rules of a user in a namespace as roles hold them, and what could not be resolved. Unmerged; the rules of
    /// a binding come once, however often it means the user.
    pub fn policy_rules_for(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for (bound, role) in self.grants(user, namespace) {
            match self.role(role) {
                Some(role) => rules.extend(role.rules),
                None => errors.push(bound.resolution_error()),
            }
        }
        (rules, errors)
    }
}
