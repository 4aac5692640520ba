//! Explains why a request is allowed, or what it would need. Explanations may walk the whole index; decisions never do.

use std::fmt;
use std::sync::Arc;

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

/// The explanation of an RBAC decision. Prints as lines of text.
#[derive(Clone, Debug)]
pub enum Explanation<'a> {
    /// A rule allows it.
    Granted(Granted<'a>),
    /// The user is the super-user, whose requests are all allowed (RB-125).
    SuperUser,
    /// Nothing allows it.
    Refused(Refused<'a>),
}

/// The rule that allows a request, and the binding that grants it to the user.
#[derive(Clone, Debug)]
pub struct Granted<'a> {
    /// The binding.
    pub binding: &'a Bound,
    /// The subject of the binding that matches the user.
    pub subject: Subject,
    /// The role, as returned by [`RbacIndex::role_of`].
    pub role: Arc<Role>,
    /// The index of the rule in the role, from 0.
    pub rule_index: usize,
    /// The rule.
    pub rule: PolicyRule,
}

/// Why nothing allows a request.
#[derive(Clone, Debug)]
pub struct Refused<'a> {
    /// The few rules of the user that are closest to a match, closest first.
    pub misses: Vec<Miss<'a>>,
    /// The roles of the user's bindings that were not found, each once.
    pub unresolved: Vec<String>,
    /// The smallest rule that would allow the request.
    pub needed: PolicyRule,
    /// The namespace in which a RoleBinding would be enough; empty if a ClusterRoleBinding is needed.
    pub namespace: String,
}

/// A rule that the user has, and why it does not allow the request.
#[derive(Clone, Debug)]
pub struct Miss<'a> {
    /// The rule, its role and its binding.
    pub held: Granted<'a>,
    /// The factors that do not match; never empty.
    pub failed: Vec<Factor>,
}

/// A factor in which a rule and a request can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// The API group.
    ApiGroup,
    /// The object's name.
    Name,
    /// The binding is a RoleBinding of another namespace, or the request needs a ClusterRoleBinding (RB-34, RB-35).
    Namespace,
    /// The resource or subresource.
    Resource,
    /// The URL path.
    Url,
    /// The verb.
    Verb,
}

impl RbacIndex {
    /// Explains the decision on a request.
    pub fn explain<'a>(&'a self, attributes: &'a Attributes<'a>) -> Explanation<'a> {
        let user = attributes.user;
        if self.is_super_user(user) {
            return Explanation::SuperUser;
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
                    return Explanation::Granted(held);
                }
                misses.push(Miss { failed: failed(&held.rule, attributes), held });
            }
        }
        for (bound, role) in self.grants_elsewhere(user, namespace).filter(|_| !is_nobody) {
            for held in self.role(role).into_iter().flat_map(|role| rules_of(bound, role, attributes)) {
                let failed = [vec![Factor::Namespace], failed(&held.rule, attributes)].concat();
                misses.push(Miss { held, failed });
            }
        }
        misses.retain(|miss| is_near(&miss.failed));
        misses.sort_by_key(|miss| miss.failed.len());
        misses.truncate(NEAREST);
        unresolved.sort_unstable();
        unresolved.dedup();
        Explanation::Refused(Refused {
            misses,
            unresolved,
            needed: needed(attributes),
            namespace: namespace.to_owned(),
        })
    }
}

/// A rule that matches neither the group nor the resource, or not the path, is unrelated to the request.
fn is_near(failed: &[Factor]) -> bool {
    let differs = |factor| failed.contains(&factor);
    failed.len() <= 2 && !differs(Factor::Url) && !(differs(Factor::ApiGroup) && differs(Factor::Resource))
}

fn rules_of<'a>(binding: &'a Bound, role: Role, attributes: &Attributes<'_>) -> Vec<Granted<'a>> {
    let Some(subject) = binding.first_subject(attributes.user) else { return Vec::new() };
    let role = Arc::new(role);
    let rules = role.rules.iter().cloned().enumerate();
    rules
        .map(|(rule_index, rule)| Granted {
            binding,
            subject: subject.clone(),
            role: Arc::clone(&role),
            rule_index,
            rule,
        })
        .collect()
}

fn failed(rule: &PolicyRule, attributes: &Attributes<'_>) -> Vec<Factor> {
    let factors = match &attributes.resource {
        Some(request) => vec![
            (Factor::Verb, verb_matches(rule, attributes.verb)),
            (Factor::ApiGroup, group_matches(rule, request)),
            (Factor::Resource, resource_matches(rule, request)),
            (Factor::Name, name_matches(rule, request)),
        ],
        None => vec![
            (Factor::Verb, verb_matches(rule, attributes.verb)),
            (Factor::Url, url_matches(rule, attributes.path)),
        ],
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

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted(granted) => write!(f, "allowed by {granted}"),
            Self::SuperUser => f.write_str("allowed: the user is the RBAC super-user"),
            Self::Refused(refused) => refused.fmt(f),
        }
    }
}

impl fmt::Display for Granted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { binding, subject, rule_index, rule, .. } = self;
        write!(f, "{}\n  rule {rule_index}: {}", binding.describe(subject), describe(rule))
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no rule of the user or of the user's groups allows this")?;
        for Miss { held, failed } in &self.misses {
            let factors: Vec<&str> = failed.iter().map(|factor| factor.as_str()).collect();
            write!(f, "\nnear miss, other {}: {held}", factors.join(" and "))?;
        }
        if let Some(errors) = rules::aggregate(&self.unresolved) {
            write!(f, "\nnot found: {errors}")?;
        }
        write!(f, "\nneeded: {}", describe(&self.needed))?;
        match self.namespace.as_str() {
            "" => f.write_str(" by a ClusterRoleBinding"),
            namespace => write!(f, " by a RoleBinding in namespace {namespace} or by a ClusterRoleBinding"),
        }
    }
}

impl Factor {
    fn as_str(self) -> &'static str {
        match self {
            Self::ApiGroup => "API group",
            Self::Name => "name",
            Self::Namespace => "namespace",
            Self::Resource => "resource",
            Self::Url => "path",
            Self::Verb => "verb",
        }
    }
}
