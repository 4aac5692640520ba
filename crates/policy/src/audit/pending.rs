//! The rules that aggregated ClusterRoles are to get (AU-25).

use hashbrown::{HashMap, HashSet};

use crate::chain::Chain;
use crate::objects::rbac::{PolicyRule, Role, RoleRef};
use crate::rbac::{RbacIndex, aggregation};

/// The rules that the aggregation controller is to add to each ClusterRole: those that it collects and that the role does not have
/// (RB-79). A role with an invalid selector gets none.
pub(super) fn pending(chain: &Chain, mut roles: Vec<Role>) -> HashMap<String, Vec<PolicyRule>> {
    aggregation::aggregate(&mut roles);
    let due = |index: &RbacIndex| {
        let missing = |role: &Role| {
            let name = role.metadata.name.clone();
            let reference = RoleRef { kind: "ClusterRole".to_owned(), name, ..RoleRef::default() };
            let stored = index.resolve(&reference, None)?;
            let stored: HashSet<&PolicyRule> = stored.rules.iter().collect();
            let missing: Vec<PolicyRule> =
                role.rules.iter().filter(|rule| !stored.contains(rule)).cloned().collect();
            (!missing.is_empty()).then_some((reference.name, missing))
        };
        roles.iter().filter(|role| role.aggregation_rule.is_some()).filter_map(missing).collect()
    };
    chain.members().iter().find_map(|member| member.with_rbac(due)).unwrap_or_default()
}
