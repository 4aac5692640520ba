//! To whom bindings grant a request. Goes through all bindings once and tests each role once (AU-90); decisions never use this.

use std::sync::Arc;

use hashbrown::HashMap;

use super::bound::Bound;
use super::escalation::describe;
use super::index::RbacIndex;
use super::matching::{may_allow_by, rule_allows};
use super::packed::PackedRules;
use super::roles::RoleId;
use super::subjects::Subject;
use crate::objects::rbac::PolicyRule;
use crate::request::Attributes;

/// A rule of a role that grants a request, or that would grant it for some names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantingRule {
    /// The index of the rule in the role, from 0; none for a rule that the role does not have yet (RB-79).
    pub index: Option<usize>,
    /// The rule as text.
    pub text: String,
    /// The names for which it would grant a request that has none. Empty: it grants the request as it is.
    pub names: Vec<String>,
}

/// A user or a group, and the bindings that grant a request to it.
#[derive(Debug)]
pub(crate) struct GrantedTo<'i> {
    /// The name. Service accounts are users (RB-21).
    pub(crate) name: &'i str,
    /// Whether it is a group.
    pub(crate) is_group: bool,
    /// The bindings, each with the rules of its role.
    pub(crate) by: Vec<(&'i Arc<Bound>, Arc<[GrantingRule]>)>,
}

impl GrantingRule {
    /// The rule, if it grants a request, or would for some names: those that it lists, if the request has none (RB-15, AU-94). The
    /// user of the request plays no part.
    pub(crate) fn of(rule: &PolicyRule, index: Option<usize>, attributes: &Attributes<'_>) -> Option<Self> {
        let names = match rule_allows(rule, attributes) {
            true => Vec::new(),
            false if is_nameless(attributes) && may_allow_by(rule, attributes) => rule.resource_names.clone(),
            false => return None,
        };
        Some(Self { names, ..Self::new(rule, index) })
    }

    /// A rule, whatever it grants.
    pub(crate) fn new(rule: &PolicyRule, index: Option<usize>) -> Self {
        Self { index, text: describe(rule), names: Vec::new() }
    }
}

/// Whether a request is for a resource and has no name.
fn is_nameless(attributes: &Attributes<'_>) -> bool {
    attributes.resource.is_some_and(|request| request.name.is_empty())
}

impl RbacIndex {
    /// Passes everybody to `take` to whom bindings grant a request, or would for some names; a subject of bindings of both
    /// scopes (RB-30) is passed twice. The user of the request plays no part, and neither does the super-user.
    pub(crate) fn each_granted<'i>(
        &'i self,
        attributes: &Attributes<'_>,
        mut take: impl FnMut(GrantedTo<'i>),
    ) {
        let mut tested: HashMap<RoleId, Option<Arc<[GrantingRule]>>> = HashMap::new();
        let mut granting = |role: Option<RoleId>| {
            let test = || granting_rules(self.packed(role)?, attributes);
            tested.entry(role?).or_insert_with(test).clone()
        };
        self.each_subject(attributes, |name, is_group, subject| {
            let grants = subject.grants.iter();
            let by: Vec<_> = grants.filter_map(|grant| Some((&grant.bound, granting(grant.role)?))).collect();
            if !by.is_empty() {
                take(GrantedTo { name, is_group, by });
            }
        });
    }

    /// Like [`RbacIndex::each_granted`], for rules that ClusterRoles do not have yet, by the name of the role.
    pub(crate) fn each_granted_by<'i>(
        &'i self,
        rules: &HashMap<String, Arc<[GrantingRule]>>,
        attributes: &Attributes<'_>,
        mut take: impl FnMut(GrantedTo<'i>),
    ) {
        if rules.is_empty() {
            return;
        }
        self.each_subject(attributes, |name, is_group, subject| {
            let granted = |bound: &'i Arc<Bound>| {
                let [kind, _, role] = bound.role_words();
                let rules = rules.get(role).filter(|_| kind == "ClusterRole")?;
                Some((bound, Arc::clone(rules)))
            };
            let by: Vec<_> = subject.grants.iter().filter_map(|grant| granted(&grant.bound)).collect();
            if !by.is_empty() {
                take(GrantedTo { name, is_group, by });
            }
        });
    }

    /// Every subject of the bindings that count for a request: its name, and whether it is a group.
    fn each_subject<'i>(
        &'i self,
        attributes: &Attributes<'_>,
        mut take: impl FnMut(&'i str, bool, &'i Subject),
    ) {
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        for subjects in self.subjects(namespace) {
            let (users, groups) = subjects.all();
            // RB-24: the empty user has no permissions, even if a binding names it.
            let users = users.filter(|user| !user.name().is_empty());
            users.for_each(|user| take(user.name(), false, user));
            groups.for_each(|group| take(group.name(), true, group));
        }
    }
}

/// The rules of a role that grant a request, or would for some names; none if there is no such rule.
pub(super) fn granting_rules(role: &PackedRules, attributes: &Attributes<'_>) -> Option<Arc<[GrantingRule]>> {
    // Most roles have nothing to do with the request, and are not unpacked.
    let may_grant = role.allow(attributes) || (is_nameless(attributes) && role.may_allow(attributes));
    if !may_grant {
        return None;
    }
    let rules = role.unpack();
    let granting = rules.iter().enumerate();
    let granting = granting.filter_map(|(index, rule)| GrantingRule::of(rule, Some(index), attributes));
    let granting: Arc<[GrantingRule]> = granting.collect();
    (!granting.is_empty()).then_some(granting)
}
