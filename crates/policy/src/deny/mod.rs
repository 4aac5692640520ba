//! Deny rules: what nobody may allow (BC-30).
//!
//! A rule has the fields of an RBAC rule, the subjects that it binds, patterns for names and namespaces, and a selector for the
//! labels of namespaces. Where a rule matches, the request is denied, whatever later authorizers would allow. Rules never change;
//! [`LiveRules`] replaces all of them. Deciding allocates nothing.
//!
//! A rule about some objects also denies the requests that would answer with them among others: a list, a watch or the
//! deletion of a collection without a name, or over all namespaces.

mod authorizer;
mod document;
mod escalation;
mod namespaces;
mod overlap;
mod pattern;
mod scope;
mod selector;
mod subject;

use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::identity::ACCOUNT_PREFIX;
use crate::objects::rbac::{LabelSelector, PolicyRule};
use crate::rbac::matching::{group_matches, resource_matches, url_matches, verb_matches};
use crate::request::{Attributes, ResourceRequest, User};

pub use self::authorizer::{Denial, DenyAuthorizer, LiveRules};
pub use self::document::{DenyError, MOST_RULES};
pub use self::escalation::GrantRefusal;
pub use self::namespaces::Namespaces;
use self::pattern::Pattern;
pub use self::scope::NodeScope;
pub use self::subject::Known;
use self::subject::{MOST_GROUPS, Subject};

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
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    name: Box<str>,
    subjects: Vec<Subject>,
    except: Vec<Subject>,
    /// The verbs, groups, resources and paths. Names are patterns, and not here.
    rule: PolicyRule,
    names: Vec<Pattern>,
    namespaces: Vec<Pattern>,
    /// The labels of the namespaces; none for all. It is valid.
    selector: Option<LabelSelector>,
    reason: Arc<str>,
}

/// How sure it is that a rule is about a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Known,
    /// The labels of the namespace are not known, and the rule selects by them.
    NamespaceUnknown,
}

impl Rule {
    /// Whether the rule denies this, and how sure that is. Who is excepted is so whatever the labels of the namespace are.
    fn denies(&self, attributes: &Attributes<'_>, namespaces: Option<&Namespaces>) -> Option<Certainty> {
        if !self.is_about(attributes) || !self.binds(attributes.user) {
            return None;
        }
        let Some(request) = &attributes.resource else { return Some(Certainty::Known) };
        self.is_in_namespace(attributes.verb, request, namespaces)
    }

    /// Whether the user is among the subjects, and not excepted.
    fn binds(&self, user: &User) -> bool {
        self.subjects.iter().any(|subject| subject.is(user, true))
            && !self.except.iter().any(|subject| subject.is(user, false))
    }

    /// Whether the rule may except somebody by what is not known of them.
    fn may_except(&self, known: Known) -> bool {
        self.except.iter().any(|subject| subject.may_be(known))
    }

    /// Whether the rule speaks of this request in some namespace, whoever makes it.
    fn is_about(&self, attributes: &Attributes<'_>) -> bool {
        verb_matches(&self.rule, attributes.verb)
            && match &attributes.resource {
                None => url_matches(&self.rule, attributes.path),
                Some(request) => {
                    group_matches(&self.rule, request)
                        && resource_matches(&self.rule, request)
                        && self.has_name(attributes.verb, request)
                }
            }
    }

    /// Whether the rule is about objects in some namespaces only.
    fn is_namespaced(&self) -> bool {
        !self.namespaces.is_empty() || self.selector.is_some()
    }

    /// Whether the rule is about the namespace of this request. A namespace that is not known counts as selected.
    fn is_in_namespace(
        &self,
        verb: &str,
        request: &ResourceRequest<'_>,
        namespaces: Option<&Namespaces>,
    ) -> Option<Certainty> {
        if request.namespace.is_empty() {
            let is_about = !self.is_namespaced()
                || (COLLECTIONS.contains(&verb) && !is_without_namespace(request.group, request.resource));
            return is_about.then_some(Certainty::Known);
        }
        self.reaches_namespace(request.namespace, namespaces)
    }

    /// Whether the rule is about objects in this namespace.
    fn reaches_namespace(&self, namespace: &str, namespaces: Option<&Namespaces>) -> Option<Certainty> {
        let is_named =
            self.namespaces.is_empty() || self.namespaces.iter().any(|pattern| pattern.matches(namespace));
        if !is_named {
            return None;
        }
        let Some(selector) = &self.selector else { return Some(Certainty::Known) };
        match namespaces.and_then(|known| known.selects(selector, namespace)) {
            Some(true) => Some(Certainty::Known),
            Some(false) => None,
            None => Some(Certainty::NamespaceUnknown),
        }
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

/// Whether the objects of a resource are in no namespace.
fn is_without_namespace(group: &str, resource: &str) -> bool {
    WITHOUT_NAMESPACE.iter().any(|(own, resources)| {
        *own == group && resources.iter().any(|name| *name == "*" || *name == resource)
    })
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

    /// Whether a rule selects namespaces by their labels, so that these must be known.
    pub fn need_namespaces(&self) -> bool {
        self.rules.iter().any(|rule| rule.selector.is_some())
    }

    /// The first rule of the file that denies this.
    fn first(
        &self,
        attributes: &Attributes<'_>,
        namespaces: Option<&Namespaces>,
    ) -> Option<(&Rule, Certainty)> {
        let user = attributes.user;
        let denies = |rule: &Rule| rule.denies(attributes, namespaces);
        if user.groups.len() > MOST_GROUPS {
            return self.rules.iter().find_map(|rule| Some((rule, denies(rule)?)));
        }
        let mut first: Option<(usize, Certainty)> = None;
        let of_groups = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        for places in self.users.get(user.name.as_str()).into_iter().chain(of_groups).chain([&self.others]) {
            // In the order of the file: later ones cannot be the first.
            let mut earlier =
                places.iter().copied().take_while(|place| first.is_none_or(|(first, _)| *place < first));
            let found = earlier.find_map(|place| Some((place, denies(self.rules.get(place)?)?)));
            first = found.or(first);
        }
        let (place, certainty) = first?;
        Some((self.rules.get(place)?, certainty))
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

impl PartialEq for DenyRules {
    /// Whether the same is denied, with the same words.
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl fmt::Debug for DenyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyRules").field("rules", &self.rules).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod escalation_tests;
#[cfg(test)]
mod scope_tests;
#[cfg(test)]
mod tests;
