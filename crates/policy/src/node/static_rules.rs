//! The static rules: the requests allowed for every node, whatever is bound to it (NA-104). They are the rules of
//! ClusterRole `system:node` (RB-95).

use portcullis_apimachinery::text::is_same;

use crate::features::FeatureGates;
use crate::objects::rbac::PolicyRule;
use crate::rbac::default_policy;
use crate::request::ResourceRequest;

/// The enabled rules that take effect. Rules for a resource with its own branch (NA-73) never do (NA-104, the shadowed
/// rows).
pub(super) fn live(gates: FeatureGates, has_branch: impl Fn(&str, &str) -> bool) -> Vec<PolicyRule> {
    let mut rules = default_policy::node_rules(gates);
    rules.retain(|rule| {
        rule.api_groups
            .iter()
            .any(|group| rule.resources.iter().any(|r| !has_branch(group, r.split('/').next().unwrap_or(r))))
    });
    rules
}

/// Whether a rule covers a request (NA-104, NA-105): namespace, name and version play no part, and nothing is a wildcard.
pub(super) fn covers(rule: &PolicyRule, verb: &str, request: &ResourceRequest<'_>) -> bool {
    // The resource key: the resource, combined with the subresource if there is one.
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
