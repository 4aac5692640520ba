//! What every node may do, whatever is bound to it (NA-104). The rules are those of ClusterRole `system:node` (RB-95).

use crate::features::FeatureGates;
use crate::objects::rbac::PolicyRule;
use crate::rbac::default_policy;
use crate::request::{ResourceRequest, is_same};

/// The rules in force that can be reached: of a resource with a branch of its own (NA-73) none is (NA-104, the
/// shadowed rows).
pub(super) fn live(gates: FeatureGates, has_branch: impl Fn(&str, &str) -> bool) -> Vec<PolicyRule> {
    let mut rules = default_policy::node_rules(gates);
    rules.retain(|rule| {
        rule.api_groups
            .iter()
            .any(|group| rule.resources.iter().any(|r| !has_branch(group, r.split('/').next().unwrap_or(r))))
    });
    rules
}

/// Whether a rule covers a request (NA-104): namespace, name and version play no part, and nothing is a wildcard.
pub(super) fn covers(rule: &PolicyRule, verb: &str, request: &ResourceRequest<'_>) -> bool {
    // The resource key: the resource alone, or combined with the subresource when there is one.
    let is_key = |r: &String| {
        if request.subresource.is_empty() {
            r == request.resource
        } else {
            r.split_once('/') == Some((request.resource, request.subresource))
        }
    };
    rule.verbs.iter().any(|v| v == verb)
        && rule.api_groups.iter().any(|g| is_same(g, request.group))
        && rule.resources.iter().any(is_key)
}
