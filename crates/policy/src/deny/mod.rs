//! Deny rules: what nobody may allow (BC-30).
//!
//! A rule has the fields of an RBAC rule, the subjects that it binds, and patterns for names and namespaces. Where a rule matches,
//! the request is denied, whatever later authorizers would allow. Rules are read once and never change afterwards; deciding
//! allocates nothing.
//!
//! A rule about some objects also denies the requests that would answer with them among others: a list, a watch or the
//! deletion of a collection without a name, or over all namespaces.

mod document;
mod pattern;

use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::decision::{Authorizer, Decision, Reason};
use crate::identity::ACCOUNT_PREFIX;
use crate::objects::rbac::PolicyRule;
use crate::rbac::matching::{group_matches, resource_matches, url_matches, verb_matches};
use crate::request::{Attributes, ResourceRequest, User};

pub use self::document::{DenyError, MOST_RULES};
use self::pattern::Pattern;

/// In more groups than this a user counts as bound by every rule for a group, and excepted by none: comparing takes time for each
/// group and each rule, and whoever asks chooses the groups.
const MOST_GROUPS: usize = 1_000;

/// Verbs whose answers hold many objects.
const COLLECTIONS: [&str; 3] = ["list", "watch", "deletecollection"];

/// The resources of Kubernetes that are in no namespace, by group. A list of them holds nothing of a namespace.
const WITHOUT_NAMESPACE: [(&str, &[&str]); 14] = [
    ("", &["nodes", "persistentvolumes", "componentstatuses"]),
    ("admissionregistration.k8s.io", &["*"]),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
    ("apiregistration.k8s.io", &["apiservices"]),
    ("authentication.k8s.io", &["*"]),
    ("certificates.k8s.io", &["certificatesigningrequests", "clustertrustbundles"]),
    ("flowcontrol.apiserver.k8s.io", &["*"]),
    ("internal.apiserver.k8s.io", &["*"]),
    ("networking.k8s.io", &["ingressclasses", "ipaddresses", "servicecidrs"]),
    ("node.k8s.io", &["runtimeclasses"]),
    ("rbac.authorization.k8s.io", &["clusterroles", "clusterrolebindings"]),
    ("resource.k8s.io", &["deviceclasses", "resourceslices"]),
    ("scheduling.k8s.io", &["priorityclasses"]),
    ("storage.k8s.io", &["csidrivers", "csinodes", "storageclasses", "volumeattachments"]),
];

/// Rules that were read completely and without errors.
#[derive(Clone, Default)]
pub struct DenyRules {
    rules: Vec<Rule>,
    warnings: Vec<String>,
    /// The rules with a subject of exactly this name, in the order of the file.
    users: HashMap<Box<str>, Vec<usize>>,
    groups: HashMap<Box<str>, Vec<usize>>,
    /// The rules with a pattern among their subjects.
    others: Vec<usize>,
}

/// One rule.
#[derive(Clone, Debug)]
struct Rule {
    name: Box<str>,
    subjects: Vec<Subject>,
    except: Vec<Subject>,
    /// The verbs, groups, resources and paths. Names are patterns, and not here.
    rule: PolicyRule,
    names: Vec<Pattern>,
    namespaces: Vec<Pattern>,
    reason: Arc<str>,
}

/// Whom a rule binds.
#[derive(Clone, Debug)]
enum Subject {
    User(Pattern),
    Group(Pattern),
    ServiceAccount { namespace: Pattern, name: Pattern },
}

impl Subject {
    /// Whether this is the user. `if_unknown` is for a user in so many groups that they are not compared.
    fn is(&self, user: &User, if_unknown: bool) -> bool {
        match self {
            Self::User(name) => name.matches(&user.name),
            Self::Group(_) if user.groups.len() > MOST_GROUPS => if_unknown,
            Self::Group(name) => user.groups.iter().any(|group| name.matches(group)),
            Self::ServiceAccount { namespace, name } => {
                let account = user.name.strip_prefix(ACCOUNT_PREFIX);
                account
                    .and_then(|account| account.split_once(':'))
                    .is_some_and(|(of, account)| namespace.matches(of) && name.matches(account))
            }
        }
    }
}

impl Rule {
    fn denies(&self, attributes: &Attributes<'_>) -> bool {
        self.is_about(attributes)
            && self.subjects.iter().any(|subject| subject.is(attributes.user, true))
            && !self.except.iter().any(|subject| subject.is(attributes.user, false))
    }

    /// Whether the rule speaks of this request, whoever makes it.
    fn is_about(&self, attributes: &Attributes<'_>) -> bool {
        verb_matches(&self.rule, attributes.verb)
            && match &attributes.resource {
                None => url_matches(&self.rule, attributes.path),
                Some(request) => {
                    group_matches(&self.rule, request)
                        && resource_matches(&self.rule, request)
                        && self.is_in_namespace(attributes.verb, request)
                        && self.has_name(attributes.verb, request)
                }
            }
    }

    fn is_in_namespace(&self, verb: &str, request: &ResourceRequest<'_>) -> bool {
        if self.namespaces.is_empty() {
            return true;
        }
        if request.namespace.is_empty() {
            return COLLECTIONS.contains(&verb) && !is_without_namespace(request);
        }
        self.namespaces.iter().any(|namespace| namespace.matches(request.namespace))
    }

    fn has_name(&self, verb: &str, request: &ResourceRequest<'_>) -> bool {
        if self.names.is_empty() {
            return true;
        }
        if request.name.is_empty() {
            return COLLECTIONS.contains(&verb);
        }
        self.names.iter().any(|name| name.matches(request.name))
    }
}

fn is_without_namespace(request: &ResourceRequest<'_>) -> bool {
    WITHOUT_NAMESPACE.iter().any(|(group, resources)| {
        *group == request.group && resources.iter().any(|name| *name == "*" || *name == request.resource)
    })
}

impl Authorizer for DenyRules {
    /// Deny, with the first rule that matches, or no opinion. Never Allow.
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        match self.first(attributes) {
            Some(rule) => Decision::Deny(Reason::Told(Arc::clone(&rule.reason))),
            None => Decision::NO_OPINION,
        }
    }
}

impl DenyRules {
    /// The number of rules.
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    /// What is probably a mistake in the rules. To be logged once.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The first rule of the file that denies this.
    fn first(&self, attributes: &Attributes<'_>) -> Option<&Rule> {
        let user = attributes.user;
        let mut first: Option<usize> = None;
        if user.groups.len() > MOST_GROUPS {
            return self.rules.iter().find(|rule| rule.denies(attributes));
        }
        let of_groups = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        for places in self.users.get(user.name.as_str()).into_iter().chain(of_groups).chain([&self.others]) {
            // In the order of the file: later ones cannot be the first.
            let earlier = places.iter().take_while(|place| first.is_none_or(|first| **place < first));
            let found = earlier
                .copied()
                .find(|place| self.rules.get(*place).is_some_and(|rule| rule.denies(attributes)));
            first = found.or(first);
        }
        self.rules.get(first?)
    }

    /// Explains a decision.
    pub fn explain(&self, attributes: &Attributes<'_>) -> String {
        match self.first(attributes) {
            Some(rule) => format!("{}: no other authorizer is asked", rule.reason),
            None => format!("none of the {} deny rules matches", self.rules.len()),
        }
    }

    /// Adds a rule to the index.
    fn index(&mut self, rule: Rule) {
        let place = self.rules.len();
        let note = |places: &mut Vec<usize>| {
            if places.last() != Some(&place) {
                places.push(place);
            }
        };
        for subject in &rule.subjects {
            match subject {
                Subject::User(name) => match name.literal() {
                    Some(name) => note(self.users.entry(name.into()).or_default()),
                    None => note(&mut self.others),
                },
                Subject::Group(name) => match name.literal() {
                    Some(name) => note(self.groups.entry(name.into()).or_default()),
                    None => note(&mut self.others),
                },
                Subject::ServiceAccount { namespace, name } => match (namespace.literal(), name.literal()) {
                    (Some(namespace), Some(name)) => {
                        let user = format!("{ACCOUNT_PREFIX}{namespace}:{name}");
                        note(self.users.entry(user.into()).or_default());
                    }
                    _ => note(&mut self.others),
                },
            }
        }
        self.rules.push(rule);
    }
}

impl fmt::Debug for DenyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyRules").field("rules", &self.rules).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
