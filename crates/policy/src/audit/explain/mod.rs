//! By what a user may make a request: every way, or what comes nearest (AU-100 to AU-102). [`Explain::ask`] says it.
//!
//! Explanations name bindings, roles, rules and other nodes, so they are for whoever holds the state. No server uses this module
//! (AU-103): what a refused caller may know is in [`Outcome::reason`](crate::chain::Outcome::reason).

mod answer;
mod hidden;
mod inputs;
mod miss;
mod misses;
mod ways;

use hashbrown::HashMap;

use super::pending::pending;
use super::who_can::{Inventory, Way};
use super::{Incomplete, Why};
use crate::chain::{Chain, MASTERS_GROUP, Member};
use crate::decision::{Authorizer, Decision, Reason};
use crate::features::FeatureGates;
use crate::identity::NodeIdentity;
use crate::objects::Kind;
use crate::objects::rbac::PolicyRule;
use crate::rbac::RbacIndex;
use crate::request::Attributes;
use crate::restriction;

pub use answer::{Answer, List, Listed, Needed, Note, RULE, Verdict};
pub use hidden::HiddenPaths;
pub use inputs::{deciding_kinds, kinds};
pub use miss::{Miss, MissKind, Place};

/// How much is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The ways of one mode (AU-100).
    pub paths: usize,
    /// The near misses (AU-101).
    pub misses: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { paths: 20, misses: 5 }
    }
}

/// Explains decisions over one state. See the module.
pub struct Explain<'c> {
    chain: &'c Chain,
    gates: FeatureGates,
    inventory: &'c Inventory,
    hidden: &'c HiddenPaths,
    /// The rules that the aggregation controller is to add, by the name of the ClusterRole (AU-25).
    pending: HashMap<String, Vec<PolicyRule>>,
}

/// What the modes that were asked so far leave to the later ones.
#[derive(Default)]
struct Before {
    /// Why mode Deny denied the request.
    denial: Option<String>,
    /// Whether the denial is certain, and nothing before it could have allowed the request.
    is_certain: bool,
    /// Whether the denial is because the labels of the namespace are not known.
    is_namespace_unknown: bool,
    has_webhook: bool,
}

impl Before {
    /// What keeps the later modes from allowing the request, or may keep them.
    fn blocks(&self) -> Option<String> {
        match (&self.denial, self.has_webhook) {
            (Some(reason), _) => Some(reason.clone()),
            (None, true) => Some("the webhook, which is asked before, may deny it".to_owned()),
            (None, false) => None,
        }
    }
}

impl<'c> Explain<'c> {
    /// Prepares explanations over the modes of a chain, and what is known of the objects beside it.
    pub fn new(
        chain: &'c Chain,
        gates: FeatureGates,
        inventory: &'c Inventory,
        hidden: &'c HiddenPaths,
    ) -> Self {
        Self { chain, gates, inventory, hidden, pending: pending(chain, inventory.cluster_roles()) }
    }

    /// Explains the decision on a request. It is allowed exactly if the chain allows it ([`Chain::decide`]).
    pub fn ask(&self, attributes: &Attributes<'_>, limits: Limits) -> Answer {
        let (mut ways, mut blocked, mut pending) = (List::default(), List::default(), Vec::new());
        if self.chain.is_first(attributes) {
            ways.append(List::first(
                vec![Listed { is_first: true, ..Listed::of(Way::Masters) }],
                limits.paths,
                0,
            ));
        }
        let (mut before, mut incomplete) = (Before::default(), Vec::new());
        for member in self.chain.members() {
            match member {
                Member::Deny(deny) if before.denial.is_none() => {
                    if let Decision::Deny(reason) = deny.authorize(attributes) {
                        before.is_namespace_unknown = matches!(reason, Reason::NamespaceUnknown(_));
                        before.is_certain = !before.is_namespace_unknown && !before.has_webhook;
                        before.denial = Some(reason.render(attributes).to_string());
                    }
                }
                Member::Webhook => before.has_webhook = true,
                member => {
                    let mut found = ways::of(member, attributes, limits.paths);
                    let blocks = before.blocks();
                    // Only the ways of the first mode that allows it can be taken first.
                    let is_later = blocks.is_some() || !ways.is_empty();
                    for listed in &mut found.listed {
                        listed.is_first &= !is_later;
                        listed.blocked_by.clone_from(&blocks);
                    }
                    if blocks.is_none() {
                        ways.append(found);
                        pending.extend(ways::pending(member, &self.pending, attributes));
                    } else {
                        blocked.append(found);
                    }
                }
            }
        }
        let is_allowed = !ways.is_empty();
        incomplete.extend((before.has_webhook && !before.is_certain).then(webhook));
        let may_be_allowed = before.is_namespace_unknown && !blocked.is_empty();
        incomplete.extend(may_be_allowed.then(|| namespace_unknown(attributes)));
        let mut answer = Answer {
            answer: if is_allowed { Verdict::Yes } else { Verdict::No },
            ways,
            blocked,
            pending: List::first(pending, limits.paths, 0),
            needed: Vec::new(),
            misses: List::default(),
            admission: self.admission(attributes),
            incomplete: Vec::new(),
            notes: self.notes(attributes),
            is_denied: before.is_certain,
        };
        if !is_allowed {
            self.refused(&mut answer, before, attributes, limits.misses);
            incomplete.extend(self.without_cluster_roles(attributes));
        }
        answer.lacks(incomplete);
        answer
    }

    /// Adds what would be needed, and what comes near.
    fn refused(&self, answer: &mut Answer, before: Before, attributes: &Attributes<'_>, most: usize) {
        let mut misses = Vec::new();
        if let Some(reason) = before.denial {
            answer.needed.push(Needed::Deny { reason: reason.clone() });
            let place = Place::Reason { reason };
            misses.push(Miss { kind: MissKind::Denial, difference: None, subject: None, place });
        }
        // What would allow it is there already, if only something before it did not deny it.
        if answer.blocked.is_empty() {
            for member in self.chain.members() {
                answer.needed.extend(misses::needed(member, attributes));
                misses.extend(misses::of(member, self.hidden, attributes, most));
            }
        }
        misses.sort_by_cached_key(Miss::key);
        answer.misses = List::first(misses, most, 0);
    }

    fn admission(&self, attributes: &Attributes<'_>) -> Option<&'static str> {
        let request = attributes.resource?;
        let is_node = NodeIdentity::of(attributes.user).is_some();
        let may_refuse =
            restriction::may_refuse(attributes.verb, request.group, request.resource, self.gates);
        (is_node && may_refuse).then_some("NodeRestriction")
    }

    fn notes(&self, attributes: &Attributes<'_>) -> Vec<Note> {
        let is_master = attributes.user.in_group(MASTERS_GROUP) && !self.chain.is_first(attributes);
        is_master.then_some(Note::SystemMasters).into_iter().collect()
    }

    /// AU-24: a binding of the user names a ClusterRole, and the state has none at all.
    fn without_cluster_roles(&self, attributes: &Attributes<'_>) -> Option<Incomplete> {
        let is_missing = self.chain.members().iter().any(|member| {
            let names_one = |index: &RbacIndex| {
                let own = index.own_bindings(attributes).into_iter();
                own.filter(|own| own.is_dangling).any(|own| own.binding.role_ref().kind == "ClusterRole")
            };
            member.with_rbac(names_one).unwrap_or(false)
        });
        (is_missing && !self.inventory.has(Kind::ClusterRole)).then(|| {
            let detail = "the state has no ClusterRole, so bindings of ClusterRoles grant nothing here";
            unresolved("clusterroles", detail.to_owned())
        })
    }
}

fn unresolved(input: &str, detail: String) -> Incomplete {
    Incomplete { input: input.to_owned(), why: Why::Unresolved, rules: vec![RULE], detail }
}

/// AU-93
fn webhook() -> Incomplete {
    let detail =
        "a webhook cannot be asked here: it may allow the request, and deny what modes after it allow";
    unresolved("authorization-webhook", detail.to_owned())
}

fn namespace_unknown(attributes: &Attributes<'_>) -> Incomplete {
    let namespace = attributes.resource.map_or("", |request| request.namespace);
    let detail = format!(
        "a deny rule selects namespaces by their labels, and namespace {namespace:?} is not in the state"
    );
    unresolved("namespaces", detail)
}
