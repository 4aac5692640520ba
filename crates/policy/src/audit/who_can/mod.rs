//! Who can make a request (AU-90 to AU-97): [`WhoCan::ask`] names every subject to whom the modes allow it, each asked alone, and
//! by what.
//!
//! The list is of those to whom it was granted: a user as a binding or a policy file names it, without groups; a group; a node.
//! Members of a listed group can too. Bindings are gone through once and roles tested once, whatever the number of subjects
//! (AU-153).
//!
//! Deny rules are asked about every subject with the groups that an API server always gives it: whoever is denied as a member of
//! such a group cannot.

mod answer;
mod found;
mod inventory;
mod notes;
mod way;

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use self::found::{Before, Found, Given};
use super::Subject;
use super::pending::pending;
use crate::abac::AbacPolicyFile;
use crate::chain::{Chain, MASTERS_GROUP, Member};
use crate::features::FeatureGates;
use crate::identity::{AUTHENTICATED, NODES_GROUP, UNAUTHENTICATED};
use crate::node::{AllowedNodes, NodeAuthorizer};
use crate::objects::rbac::PolicyRule;
use crate::rbac::{GrantedTo, GrantingRule, RbacIndex};
use crate::request::Attributes;
use crate::restriction;

pub use answer::{Answer, Listed, Lists, Note};
pub use inventory::{Inventory, Scope, kinds};
pub use way::{ObjectName, RuleWay, Way};

/// The name of the question in lists of what is incomplete.
pub const RULE: &str = "who-can";

/// Answers who can, over one state. See the module.
pub struct WhoCan<'c> {
    chain: &'c Chain,
    gates: FeatureGates,
    inventory: &'c Inventory,
    /// The rules that the aggregation controller is to add, by the name of the ClusterRole (AU-25).
    pending: HashMap<String, Vec<PolicyRule>>,
}

impl<'c> WhoCan<'c> {
    /// Prepares answers over the modes of a chain, and what is known of the objects beside it.
    pub fn new(chain: &'c Chain, gates: FeatureGates, inventory: &'c Inventory) -> Self {
        Self { chain, gates, inventory, pending: pending(chain, inventory.cluster_roles()) }
    }

    /// Everybody who can make a request. The user in it plays no part. With `expand` also the accounts of the state that can
    /// through a group (AU-90).
    pub fn ask(&self, attributes: &Attributes<'_>, expand: bool) -> Answer {
        let mut found = self.found(attributes);
        if expand {
            self.expand(attributes, &mut found);
        }
        let (incomplete, notes) = (self.incomplete(attributes, &found), self.notes(attributes, &found));
        let may_be_refused = attributes.resource.is_some_and(|request| {
            restriction::may_refuse(attributes.verb, request.group, request.resource, self.gates)
        });
        let admission = |subject: &Subject| {
            let is_node = match subject {
                Subject::Node { .. } => true,
                Subject::Group { name } => name == NODES_GROUP,
                _ => false,
            };
            (is_node && may_be_refused).then_some("NodeRestriction")
        };
        Answer { lists: found.lists(admission), incomplete, notes }
    }

    /// Goes through the modes in order.
    fn found(&self, attributes: &Attributes<'_>) -> Found {
        let mut found = Found::default();
        // AU-91: whatever the modes say.
        found.can(Subject::group(MASTERS_GROUP), Way::Masters);
        let mut before = Before::default();
        for member in self.chain.members() {
            let mut give = |subject: Subject, way: Way| {
                let given = Given { way, names: &[], is_pending: false };
                found.give(subject, given, &before, attributes);
            };
            match member {
                Member::Abac(file) => by_abac(file, attributes, give),
                // AU-93
                Member::AlwaysAllow => [AUTHENTICATED, UNAUTHENTICATED]
                    .into_iter()
                    .for_each(|group| give(Subject::group(group), Way::AlwaysAllow)),
                Member::AlwaysDeny => {}
                Member::Deny(deny) => before.denies.push(deny),
                Member::Node(node) => by_node(node, attributes, give),
                Member::Rbac(_) | Member::LiveRbac(_) => {
                    member.with_rbac(|index| self.by_rbac(index, attributes, &before, &mut found));
                }
                Member::Webhook => before.has_webhook = true,
            }
        }
        found
    }

    fn by_rbac(
        &self,
        index: &RbacIndex,
        attributes: &Attributes<'_>,
        before: &Before<'_>,
        found: &mut Found,
    ) {
        if let Some(user) = index.super_user() {
            let given = Given { way: Way::SuperUser, names: &[], is_pending: false };
            found.give(Subject::of_user(user), given, before, attributes);
        }
        let mut take = |granted: &GrantedTo<'_>, is_pending: bool| {
            let subject = match granted.is_group {
                true => Subject::group(granted.name),
                false => Subject::of_user(granted.name),
            };
            for (binding, rules) in &granted.by {
                for (way, rule) in RuleWay::each(binding, rules) {
                    let given = Given { way: Way::Rule(way), names: &rule.names, is_pending };
                    found.give(subject.clone(), given, before, attributes);
                }
            }
        };
        index.each_granted(attributes, |granted| take(&granted, false));
        let due = self.pending.iter().filter_map(|(role, rules)| {
            let rules = rules.iter().filter_map(|rule| GrantingRule::of(rule, None, attributes));
            let rules: Arc<[GrantingRule]> = rules.collect();
            (!rules.is_empty()).then(|| (role.clone(), rules))
        });
        index.each_granted_by(&due.collect(), attributes, |granted| take(&granted, true));
    }

    /// Adds the accounts of the state that can through a group (AU-90).
    fn expand(&self, attributes: &Attributes<'_>, found: &mut Found) {
        let groups: HashSet<String> = found
            .subjects()
            .filter_map(|subject| match subject {
                Subject::Group { name } => Some(name.clone()),
                _ => None,
            })
            .collect();
        let others: Vec<&Subject> = self.inventory.accounts().filter(|account| !found.has(account)).collect();
        for account in others {
            let user = account.identity();
            if !self.chain.decide(&Attributes { user: &user, ..*attributes }).is_allow() {
                continue;
            }
            let through = user.groups.iter().filter(|group| groups.contains(*group));
            let through = through.map(|group| Way::Member { group: group.clone() });
            let both = self
                .abac_lines(attributes)
                .filter(|line| line.user == user.name && user.in_group(&line.group));
            let both = both.map(|line| Way::Abac { line: line.line });
            through.chain(both).for_each(|way| found.can(account.clone(), way));
        }
    }
}

/// AU-93: the users and the groups of the lines that cover the request, each alone. A line that names both allows it to neither.
fn by_abac(file: &AbacPolicyFile, attributes: &Attributes<'_>, mut give: impl FnMut(Subject, Way)) {
    for line in file.covering(attributes) {
        let way = Way::Abac { line: line.line };
        match (line.user.as_str(), line.group.as_str()) {
            ("", "") => {}
            (user, "") => give(Subject::of_user(user), way),
            ("", group) => give(Subject::group(group), way),
            _ => {}
        }
    }
}

/// AU-92
fn by_node(node: &NodeAuthorizer, attributes: &Attributes<'_>, mut give: impl FnMut(Subject, Way)) {
    let Some(request) = &attributes.resource else { return };
    match node.allowed_nodes(attributes.verb, request) {
        AllowedNodes::Every => give(Subject::group(NODES_GROUP), Way::Node { path: None }),
        AllowedNodes::These(nodes) => {
            nodes.into_iter().for_each(|(name, path)| give(Subject::Node { name }, Way::Node { path }));
        }
    }
}
