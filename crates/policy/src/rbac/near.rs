//! What grants a request to its user, and what comes near to that: rules of the user that differ from the request, rules that
//! others have or nobody, and bindings without a role (AU-100, AU-101). Walks the whole index; decisions never do.

use std::sync::Arc;

use super::bound::Bound;
use super::escalation::describe;
use super::granted::{GrantingRule, granting_rules};
use super::index::RbacIndex;
use super::matching::{
    ALL, group_matches, name_matches, resource_matches, rule_allows, url_matches, verb_matches,
};
use crate::factor::{Difference, Factor, TypingError};
use crate::objects::rbac::{PolicyRule, RoleRef, Subject};
use crate::request::{Attributes, ResourceRequest};

/// A rule of a role that is bound to the user of a request.
#[derive(Debug)]
pub(crate) struct OwnRule<'i> {
    pub(crate) binding: &'i Arc<Bound>,
    /// The first subject of the binding that is the user (RB-30).
    pub(crate) subject: Subject,
    /// The index of the rule in the role, from 0.
    pub(crate) index: usize,
    pub(crate) rule: PolicyRule,
    /// In what it differs from the request. Empty: it grants the request.
    pub(crate) differs: Vec<Factor>,
}

/// A binding of the user of a request.
#[derive(Debug)]
pub(crate) struct OwnBinding<'i> {
    pub(crate) binding: &'i Arc<Bound>,
    /// The first subject of the binding that is the user (RB-30).
    pub(crate) subject: Subject,
    /// Whether its role is missing (RB-33).
    pub(crate) is_dangling: bool,
}

impl OwnRule<'_> {
    /// The rule as reports show it.
    pub(crate) fn shown(&self) -> GrantingRule {
        GrantingRule { index: Some(self.index), text: describe(&self.rule), names: Vec::new() }
    }

    /// The difference, if there is exactly one.
    pub(crate) fn difference(&self, attributes: &Attributes<'_>) -> Option<Difference> {
        let [factor] = *self.differs else { return None };
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        Some(match factor {
            Factor::Namespace => {
                Difference::new(factor, vec![self.binding.namespace().to_owned()], namespace)
            }
            factor => difference(&self.rule, factor, attributes),
        })
    }
}

impl RbacIndex {
    /// Passes every rule of the user's bindings to `take`: those that count for the request, and then those of the RoleBindings of
    /// other namespaces. In no particular order.
    pub(crate) fn each_own<'i>(&'i self, attributes: &Attributes<'i>, mut take: impl FnMut(OwnRule<'i>)) {
        let user = attributes.user;
        // RB-24
        if user.name.is_empty() && user.groups.is_empty() {
            return;
        }
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        let here = self.grants(user, namespace).map(|held| (held, None));
        let elsewhere = self.grants_elsewhere(user, namespace).map(|held| (held, Some(Factor::Namespace)));
        for ((binding, role), place) in here.chain(elsewhere) {
            let (Some(role), Some(subject)) = (self.packed(role), binding.first_subject(user)) else {
                continue;
            };
            for (index, rule) in role.unpack().into_iter().enumerate() {
                let differs = place.into_iter().chain(differing(&rule, attributes)).collect();
                take(OwnRule { binding, subject: subject.clone(), index, rule, differs });
            }
        }
    }

    /// The user's bindings that count for the request, each with the first subject that is the user (RB-30), and whether the role is
    /// there.
    pub(crate) fn own_bindings<'i>(&'i self, attributes: &Attributes<'i>) -> Vec<OwnBinding<'i>> {
        let user = attributes.user;
        // RB-24
        if user.name.is_empty() && user.groups.is_empty() {
            return Vec::new();
        }
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        let own = self.grants(user, namespace).filter_map(|(binding, role)| {
            let subject = binding.first_subject(user)?;
            Some(OwnBinding { binding, subject, is_dangling: self.packed(role).is_none() })
        });
        own.collect()
    }

    /// The bindings that would grant the request if the user were among their subjects, with the rules.
    pub(crate) fn granting_others(
        &self,
        attributes: &Attributes<'_>,
    ) -> Vec<(&Arc<Bound>, Arc<[GrantingRule]>)> {
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        let others = self.bindings_of(namespace).filter_map(|(binding, role)| {
            let rules = granting_now(granting_rules(self.packed(role)?, attributes)?)?;
            let is_other = !binding.keys().is_empty() && binding.first_subject(attributes.user).is_none();
            is_other.then_some((binding, rules))
        });
        others.collect()
    }

    /// The roles with rules that allow the request and that no subject is bound to where the request is; a Role counts in its own
    /// namespace alone.
    pub(crate) fn granting_unbound(
        &self,
        attributes: &Attributes<'_>,
    ) -> Vec<(RoleRef, Arc<[GrantingRule]>)> {
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        let counts = |bound: &Bound| bound.is_cluster_wide() || bound.namespace() == namespace;
        let unbound = self.roles().all().filter_map(|(of, name, rules, bound_by)| {
            let is_here = of.is_none_or(|of| !namespace.is_empty() && of == namespace);
            let is_bound = bound_by.iter().any(|bound| counts(bound) && !bound.keys().is_empty());
            if !is_here || is_bound {
                return None;
            }
            let kind = if of.is_none() { "ClusterRole" } else { "Role" };
            let role = RoleRef { kind: kind.to_owned(), name: name.to_owned(), ..RoleRef::default() };
            Some((role, granting_now(granting_rules(rules, attributes)?)?))
        });
        unbound.collect()
    }

    /// The names of the roles that a binding in a namespace can refer to, by kind; `None` is the place of ClusterRoleBindings.
    pub(crate) fn role_names(&self, kind: &str, namespace: Option<&str>) -> Vec<&str> {
        let is_of_kind = |of: Option<&str>| match kind {
            "ClusterRole" => of.is_none(),
            _ => of.is_some() && of == namespace,
        };
        self.roles().all().filter(|(of, ..)| is_of_kind(*of)).map(|(_, name, ..)| name).collect()
    }
}

/// The rules that grant the request as it is, and not only for some names; none if there is none.
fn granting_now(rules: Arc<[GrantingRule]>) -> Option<Arc<[GrantingRule]>> {
    if rules.iter().all(|rule| rule.names.is_empty()) {
        return Some(rules);
    }
    let rules: Arc<[GrantingRule]> = rules.iter().filter(|rule| rule.names.is_empty()).cloned().collect();
    (!rules.is_empty()).then_some(rules)
}

/// In what a rule differs from a request (RB-10 to RB-18). Empty: it allows the request.
fn differing(rule: &PolicyRule, attributes: &Attributes<'_>) -> Vec<Factor> {
    if rule_allows(rule, attributes) {
        return Vec::new();
    }
    let verb = (Factor::Verb, verb_matches(rule, attributes.verb));
    let Some(request) = &attributes.resource else {
        let path = (Factor::Path, url_matches(rule, attributes.path));
        return [verb, path].into_iter().filter(|(_, fits)| !fits).map(|(factor, _)| factor).collect();
    };
    let (is_resource, is_subresource) = match resource_matches(rule, request) {
        true => (true, true),
        // Of two entries, one may fit in the resource and the other in the subresource: the subresource differs then.
        false if rule.resources.iter().any(|entry| is_of_resource(entry, request)) => (true, false),
        false => (false, rule.resources.iter().any(|entry| parts(entry).1 == request.subresource)),
    };
    let factors = [
        (Factor::Name, name_matches(rule, request)),
        (Factor::Subresource, is_subresource),
        verb,
        (Factor::ApiGroup, group_matches(rule, request)),
        (Factor::Resource, is_resource),
    ];
    factors.into_iter().filter(|(_, fits)| !fits).map(|(factor, _)| factor).collect()
}

/// Both values of a factor of a rule.
fn difference(rule: &PolicyRule, factor: Factor, attributes: &Attributes<'_>) -> Difference {
    let request = attributes.resource.unwrap_or_default();
    let all = |list: &[String], wanted: &str| Difference::new(factor, list.to_vec(), wanted);
    match factor {
        Factor::Name => all(&rule.resource_names, request.name),
        Factor::ApiGroup => all(&rule.api_groups, request.group),
        Factor::Path => all(&rule.non_resource_urls, attributes.path),
        Factor::Subresource => {
            let entries = rule.resources.iter().filter(|entry| is_of_resource(entry, &request));
            let has: Vec<String> = entries.cloned().collect();
            let typed = |entry: &String| TypingError::of(factor, parts(entry).1, request.subresource);
            Difference { factor, typing_error: has.iter().find_map(typed), has, wanted: entry_of(&request) }
        }
        Factor::Resource => {
            let entries = rule.resources.iter().filter(|entry| parts(entry).1 == request.subresource);
            let has: Vec<String> = entries.cloned().collect();
            let typed = |entry: &String| TypingError::of(factor, parts(entry).0, request.resource);
            Difference { factor, typing_error: has.iter().find_map(typed), has, wanted: entry_of(&request) }
        }
        _ => all(&rule.verbs, attributes.verb),
    }
}

/// Resource and subresource of an entry of a rule.
fn parts(entry: &str) -> (&str, &str) {
    entry.split_once('/').unwrap_or((entry, ""))
}

/// Whether an entry of a rule is about the resource of a request, whatever its subresource. `*` alone covers subresources too.
fn is_of_resource(entry: &str, request: &ResourceRequest<'_>) -> bool {
    let (resource, subresource) = parts(entry);
    resource == request.resource || (resource == ALL && !subresource.is_empty())
}

/// The entry of a rule that covers the resource of a request and no other (RB-12).
fn entry_of(request: &ResourceRequest<'_>) -> String {
    match request.subresource {
        "" => request.resource.to_owned(),
        subresource => format!("{}/{subresource}", request.resource),
    }
}

/// The smallest rule that allows a request (AU-101).
pub(crate) fn needed(attributes: &Attributes<'_>) -> PolicyRule {
    let one = |text: &str| vec![text.to_owned()];
    let rule = PolicyRule { verbs: one(attributes.verb), ..PolicyRule::default() };
    match &attributes.resource {
        Some(request) => PolicyRule {
            api_groups: one(request.group),
            resources: vec![entry_of(request)],
            resource_names: if request.name.is_empty() { Vec::new() } else { one(request.name) },
            ..rule
        },
        None => PolicyRule { non_resource_urls: one(attributes.path), ..rule },
    }
}
