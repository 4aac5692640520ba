//! Lists the rules of a user (RB-40 to RB-43), for display and for the escalation check.

use super::index::RbacIndex;
use crate::objects::rbac::PolicyRule;
use crate::request::User;
use crate::rules::{NonResourceRule, ResourceRule, RuleListing};

impl RbacIndex {
    /// Lists the rules of a user in a namespace (RB-40, RB-41): those of all ClusterRoleBindings of the user, then
    /// those of the RoleBindings in the namespace; only the former if the namespace is empty. Never incomplete, even
    /// with errors (RB-42).
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

    /// Returns the rules of a user in a namespace as they are in roles, and the resolution errors. Unmerged; the rules
    /// of a binding occur once, even if several of its subjects match the user.
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
