//! Explains why a request is allowed, or what it would need. Explanations may walk the whole index; decisions never do.

use std::fmt;

use super::bound::Bound;
use super::escalation::describe;
use super::index::RbacIndex;
use super::matching::{
    group_matches, name_matches, resource_matches, rule_allows, url_matches, verb_matches,
};
use crate::objects::rbac::{PolicyRule, Role, Subject};
use crate::request::Attributes;
use crate::rules;

/// How many near misses are shown.
const NEAREST: usize = 5;

/// The factors in which a rule and a request can differ.
const VERB: &str = "verb";
const API_GROUP: &str = "API group";
const RESOURCE: &str = "resource";
const NAME: &str = "name";
const URL: &str = "path";
/// The binding is a RoleBinding of another namespace, or the request needs a ClusterRoleBinding (RB-34, RB-35).
const NAMESPACE: &str = "namespace";

/// A rule that the user has, and the binding that grants it to the user.
struct Held<'a> {
    binding: &'a Bound,
    subject: Subject,
    /// The index of the rule in the role, from 0.
    index: usize,
    rule: PolicyRule,
}

impl RbacIndex {
    /// Explains the decision on a request: the rule that allows it, or what it would need and the rules of the user that
    /// are closest to a match.
    pub fn explain(&self, attributes: &Attributes<'_>) -> String {
        let user = attributes.user;
        if self.is_super_user(user) {
            return "allowed: the user is the RBAC super-user".to_owned();
        }
        let namespace = attributes.resource.map_or("", |request| request.namespace);
        let (mut misses, mut unresolved) = (Vec::new(), Vec::new());
        let is_nobody = user.name.is_empty() && user.groups.is_empty();
        for (bound, role) in self.grants(user, namespace).filter(|_| !is_nobody) {
            let Some(role) = self.role(role) else {
                unresolved.push(bound.resolution_error());
                continue;
            };
            for held in rules_of(bound, role, attributes) {
                if rule_allows(&held.rule, attributes) {
                    return format!("allowed by {held}");
                }
                misses.push((failed(&held.rule, attributes), held));
            }
        }
        for (bound, role) in self.grants_elsewhere(user, namespace).filter(|_| !is_nobody) {
            for held in self.role(role).into_iter().flat_map(|role| rules_of(bound, role, attributes)) {
                misses.push(([vec![NAMESPACE], failed(&held.rule, attributes)].concat(), held));
            }
        }
        misses.retain(|(failed, _)| is_near(failed));
        misses.sort_by_key(|(failed, _)| failed.len());
        unresolved.sort_unstable();

        let mut text = "no rule of the user or of the user's groups allows this".to_owned();
        for (failed, held) in misses.iter().take(NEAREST) {
            text.push_str(&format!("\nnear miss, other {}: {held}", failed.join(" and ")));
        }
        if let Some(errors) = rules::aggregate(&unresolved) {
            text.push_str(&format!("\nnot found: {errors}"));
        }
        text.push_str(&format!("\nneeded: {} by a ", describe(&needed(attributes))));
        if !namespace.is_empty() {
            text.push_str(&format!("RoleBinding in namespace {namespace} or by a "));
        }
        text + "ClusterRoleBinding"
    }
}

/// A rule that matches neither the group nor the resource, or not the path, is unrelated to the request.
fn is_near(failed: &[&str]) -> bool {
    let differs = |factor| failed.contains(&factor);
    failed.len() <= 2 && !differs(URL) && !(differs(API_GROUP) && differs(RESOURCE))
}

fn rules_of<'a>(binding: &'a Bound, role: Role, attributes: &Attributes<'_>) -> Vec<Held<'a>> {
    let Some(subject) = binding.first_subject(attributes.user) else { return Vec::new() };
    let rules = role.rules.into_iter().enumerate();
    rules.map(|(index, rule)| Held { binding, subject: subject.clone(), index, rule }).collect()
}

fn failed(rule: &PolicyRule, attributes: &Attributes<'_>) -> Vec<&'static str> {
    let verb = (VERB, verb_matches(rule, attributes.verb));
    let factors = match &attributes.resource {
        Some(request) => vec![
            verb,
            (API_GROUP, group_matches(rule, request)),
            (RESOURCE, resource_matches(rule, request)),
            (NAME, name_matches(rule, request)),
        ],
        None => vec![verb, (URL, url_matches(rule, attributes.path))],
    };
    factors.into_iter().filter(|(_, fits)| !fits).map(|(factor, _)| factor).collect()
}

fn needed(attributes: &Attributes<'_>) -> PolicyRule {
    let one = |text: &str| vec![text.to_owned()];
    let rule = PolicyRule { verbs: one(attributes.verb), ..PolicyRule::default() };
    match &attributes.resource {
        Some(request) => PolicyRule {
            api_groups: one(request.group),
            resources: match request.subresource {
                "" => one(request.resource),
                subresource => vec![format!("{}/{subresource}", request.resource)],
            },
            resource_names: if request.name.is_empty() { Vec::new() } else { one(request.name) },
            ..rule
        },
        None => PolicyRule { non_resource_urls: one(attributes.path), ..rule },
    }
}

impl fmt::Display for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { binding, subject, index, rule } = self;
        write!(f, "{}\n  rule {index}: {}", binding.describe(subject), describe(rule))
    }
}
