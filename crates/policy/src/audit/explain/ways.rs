//! Every way by which the members of a chain allow a request (AU-100).

use std::sync::Arc;

use hashbrown::HashMap;

use super::answer::{List, Listed};
use crate::abac::AbacPolicyFile;
use crate::audit::Subject;
use crate::audit::who_can::{RuleWay, Way};
use crate::chain::Member;
use crate::identity::NodeIdentity;
use crate::node::NodeAuthorizer;
use crate::objects::rbac::PolicyRule;
use crate::rbac::{Bound, GrantingRule, RbacIndex};
use crate::request::Attributes;

/// The ways by which one member allows a request, at most so many. The first one is marked if it is certain that it is taken first
/// among them.
pub(super) fn of(member: &Member, attributes: &Attributes<'_>, most: usize) -> List<Listed> {
    match member {
        Member::Abac(file) => by_abac(file, attributes, most),
        Member::AlwaysAllow => {
            List::first(vec![Listed { is_first: true, ..Listed::of(Way::AlwaysAllow) }], most, 0)
        }
        Member::Node(node) => by_node(node, attributes, most),
        Member::Rbac(_) | Member::LiveRbac(_) => {
            member.with_rbac(|index| by_rbac(index, attributes, most)).unwrap_or_default()
        }
        Member::AlwaysDeny | Member::Deny(_) | Member::Webhook => List::default(),
    }
}

fn by_abac(file: &AbacPolicyFile, attributes: &Attributes<'_>, most: usize) -> List<Listed> {
    let ways = file.allowing(attributes).enumerate().map(|(at, policy)| {
        let subject = match (policy.user.as_str(), policy.group.as_str()) {
            ("", group) => Subject::group(group),
            (user, _) => Subject::of_user(user),
        };
        let way = Way::Abac { line: policy.line };
        // The lines are asked in the order of the file.
        Listed { subject: Some(subject), is_first: at == 0, ..Listed::of(way) }
    });
    List::first(ways.collect(), most, 0)
}

fn by_node(node: &NodeAuthorizer, attributes: &Attributes<'_>, most: usize) -> List<Listed> {
    let Some((paths, count)) = node.ways(attributes, most) else { return List::default() };
    let name = NodeIdentity::of(attributes.user).map_or("", NodeIdentity::name);
    let listed = |path: Option<String>| Listed {
        subject: Some(Subject::Node { name: name.to_owned() }),
        // The graph counts paths: it takes none of several first.
        is_first: count <= 1,
        ..Listed::of(Way::Node { path })
    };
    if count == 0 {
        return List::first(vec![listed(None)], most, 0);
    }
    let left_out = count.saturating_sub(paths.len());
    List::first(paths.into_iter().map(|path| listed(Some(path))).collect(), most, left_out)
}

fn by_rbac(index: &RbacIndex, attributes: &Attributes<'_>, most: usize) -> List<Listed> {
    let mut ways = Vec::new();
    index.each_own(attributes, |own| {
        if own.differs.is_empty() {
            ways.push(by_rule(own.binding, &own.subject, own.shown()));
        }
    });
    ways.sort_by_cached_key(|listed: &Listed| listed.way.key());
    mark_first(&mut ways);
    if index.is_super_user(attributes.user) {
        ways.iter_mut().for_each(|listed| listed.is_first = false);
        let user = Some(Subject::of_user(&attributes.user.name));
        ways.insert(0, Listed { subject: user, is_first: true, ..Listed::of(Way::SuperUser) });
    }
    List::first(ways, most, 0)
}

/// The ways by rules that ClusterRoles do not have yet, by the name of the role (AU-25).
pub(super) fn pending(
    member: &Member,
    rules: &HashMap<String, Vec<PolicyRule>>,
    attributes: &Attributes<'_>,
) -> Vec<Listed> {
    let pending = |index: &RbacIndex| {
        let mut ways = Vec::new();
        for own in index.own_bindings(attributes) {
            let role = own.binding.role_ref();
            let rules = rules.get(&role.name).filter(|_| role.kind == "ClusterRole");
            let allowing =
                rules.into_iter().flatten().filter_map(|rule| GrantingRule::of(rule, None, attributes));
            let allowing = allowing.filter(|rule| rule.names.is_empty());
            ways.extend(allowing.map(|rule| by_rule(own.binding, &own.subject, rule)));
        }
        ways.sort_by_cached_key(|listed| (listed.way.key(), listed.way.to_string()));
        ways
    };
    member.with_rbac(pending).unwrap_or_default()
}

fn by_rule(binding: &Arc<Bound>, subject: &crate::objects::rbac::Subject, rule: GrantingRule) -> Listed {
    let subject = Subject::of(subject, binding.namespace());
    Listed { subject, ..Listed::of(Way::Rule(RuleWay::of(binding, rule))) }
}

/// Marks the first rule of the only binding of the scope that is asked first: ClusterRoleBindings come before RoleBindings, and
/// nothing is said about the order of either (RB-30, RB-31). The ways are sorted.
fn mark_first(ways: &mut [Listed]) {
    let binding = |listed: &Listed| match &listed.way {
        Way::Rule(way) => Some(way.binding()),
        _ => None,
    };
    let Some(first) = ways.first().and_then(binding) else { return };
    let is_alone = ways.iter().filter_map(binding).all(|other| other == first || other.kind != first.kind);
    if let Some(way) = ways.first_mut() {
        way.is_first = is_alone;
    }
}
