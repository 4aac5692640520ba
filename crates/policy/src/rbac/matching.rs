//! Matches rules against requests and subjects against users. Nothing here needs the index.

use crate::identity::ACCOUNT_PREFIX;
use crate::objects::rbac::{PolicyRule, Subject};
use crate::request::{Attributes, ResourceRequest, User};

/// The wildcard, in lists that support it.
pub(super) const ALL: &str = "*";

/// The lists of a rule, independent of how it is stored. Words are compared byte for byte.
pub(crate) trait Lists {
    fn verbs(&self) -> impl Iterator<Item = &[u8]>;
    fn api_groups(&self) -> impl Iterator<Item = &[u8]>;
    fn resources(&self) -> impl Iterator<Item = &[u8]>;
    fn resource_names(&self) -> impl Iterator<Item = &[u8]>;
    fn non_resource_urls(&self) -> impl Iterator<Item = &[u8]>;
}

/// Returns whether a rule allows a request (RB-10 to RB-18). Only the fields for the kind of request, resource or
/// non-resource, are used (RB-16, RB-18).
pub fn rule_allows(rule: &PolicyRule, attributes: &Attributes<'_>) -> bool {
    rule_allows_by(rule, attributes)
}

/// Like [`rule_allows`], independent of how the rule is stored.
pub(super) fn rule_allows_by(rule: &impl Lists, attributes: &Attributes<'_>) -> bool {
    verb_matches(rule, attributes.verb)
        && match &attributes.resource {
            Some(request) => {
                group_matches(rule, request) && resource_matches(rule, request) && name_matches(rule, request)
            }
            None => url_matches(rule, attributes.path),
        }
}

/// Returns whether a rule allows a request for a resource if its name is the right one.
pub(super) fn may_allow_by(rule: &impl Lists, attributes: &Attributes<'_>) -> bool {
    verb_matches(rule, attributes.verb)
        && attributes
            .resource
            .as_ref()
            .is_some_and(|request| group_matches(rule, request) && resource_matches(rule, request))
}

/// RB-10: `*` or exactly the verb.
pub(crate) fn verb_matches(rule: &impl Lists, verb: &str) -> bool {
    rule.verbs().any(|v| v == ALL.as_bytes() || is_same(v, verb))
}

/// RB-11: `*` or exactly the group; the version is ignored.
pub(crate) fn group_matches(rule: &impl Lists, request: &ResourceRequest<'_>) -> bool {
    rule.api_groups().any(|g| g == ALL.as_bytes() || is_same(g, request.group))
}

/// RB-12, RB-13: `*`, the resource with its subresource, or `*/` and the subresource.
pub(crate) fn resource_matches(rule: &impl Lists, request: &ResourceRequest<'_>) -> bool {
    rule.resources().any(|entry| {
        if entry == ALL.as_bytes() {
            return true;
        }
        if request.subresource.is_empty() {
            return is_same(entry, request.resource);
        }
        let is_this = |resource| joined_by(entry, resource, '/', request.subresource);
        is_this(request.resource) || is_this(ALL)
    })
}

/// RB-14, RB-15: no names at all, or the request's name literally; a request without a name has the empty one.
pub(super) fn name_matches(rule: &impl Lists, request: &ResourceRequest<'_>) -> bool {
    let mut names = rule.resource_names();
    let is_this = |name| is_same(name, request.name);
    names.next().is_none_or(|first| is_this(first) || names.any(is_this))
}

/// RB-17: `*`, exactly the path, or a prefix of it followed by `*`.
pub(crate) fn url_matches(rule: &impl Lists, path: &str) -> bool {
    rule.non_resource_urls().any(|entry| url_covers(entry, path))
}

impl Lists for PolicyRule {
    fn verbs(&self) -> impl Iterator<Item = &[u8]> {
        self.verbs.iter().map(String::as_bytes)
    }

    fn api_groups(&self) -> impl Iterator<Item = &[u8]> {
        self.api_groups.iter().map(String::as_bytes)
    }

    fn resources(&self) -> impl Iterator<Item = &[u8]> {
        self.resources.iter().map(String::as_bytes)
    }

    fn resource_names(&self) -> impl Iterator<Item = &[u8]> {
        self.resource_names.iter().map(String::as_bytes)
    }

    fn non_resource_urls(&self) -> impl Iterator<Item = &[u8]> {
        self.non_resource_urls.iter().map(String::as_bytes)
    }
}

/// Returns whether a URL entry covers a path or another entry (RB-17, RB-66).
pub(super) fn url_covers(entry: &[u8], path: &str) -> bool {
    is_same(entry, path)
        || entry.split_last().is_some_and(|(last, _)| *last == b'*') && {
            let mut prefix = entry;
            while let Some((b'*', shorter)) = prefix.split_last() {
                prefix = shorter;
            }
            path.as_bytes().starts_with(prefix)
        }
}

/// Returns whether a subject of a binding matches this user (RB-20 to RB-23). `binding_namespace` is empty for a
/// ClusterRoleBinding.
pub(super) fn subject_matches(subject: &Subject, binding_namespace: &str, user: &User) -> bool {
    match subject.kind.as_str() {
        "User" => subject.name == user.name,
        "Group" => user.in_group(&subject.name),
        "ServiceAccount" => {
            let namespace = effective_namespace(subject, binding_namespace);
            !namespace.is_empty()
                && user
                    .name
                    .strip_prefix(ACCOUNT_PREFIX)
                    .is_some_and(|account| joined_by(account.as_bytes(), namespace, ':', &subject.name))
        }
        _ => false,
    }
}

/// The namespace of a service account: its own, else the binding's (RB-21).
pub(super) fn effective_namespace<'a>(subject: &'a Subject, binding_namespace: &'a str) -> &'a str {
    if subject.namespace.is_empty() { binding_namespace } else { &subject.namespace }
}

/// The user name of a ServiceAccount subject with this name and namespace; `None` if neither it nor its binding has a
/// namespace (RB-21).
pub(super) fn service_account_user(name: &str, namespace: &str, binding_namespace: &str) -> Option<String> {
    let namespace = if namespace.is_empty() { binding_namespace } else { namespace };
    (!namespace.is_empty()).then(|| format!("{ACCOUNT_PREFIX}{namespace}:{name}"))
}

/// [`portcullis_apimachinery::text::is_same`] for a word and a text.
fn is_same(word: &[u8], text: &str) -> bool {
    if word.is_empty() { text.is_empty() } else { word == text.as_bytes() }
}

/// Returns whether `text` is `left`, the separator and `right`, without concatenating them.
fn joined_by(text: &[u8], left: &str, separator: char, right: &str) -> bool {
    let rest = text.strip_prefix(left.as_bytes());
    rest.and_then(<[u8]>::split_first)
        .is_some_and(|(between, rest)| char::from(*between) == separator && is_same(rest, right))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(resource: &str) -> PolicyRule {
        PolicyRule {
            verbs: vec!["get".into()],
            api_groups: vec![String::new()],
            resources: vec![resource.into()],
            ..PolicyRule::default()
        }
    }

    fn allows(rule: &PolicyRule, resource: &str, subresource: &str, name: &str) -> bool {
        let user = User::default();
        let resource = ResourceRequest { resource, subresource, name, ..ResourceRequest::default() };
        rule_allows(rule, &Attributes { user: &user, verb: "get", path: "", resource: Some(resource) })
    }

    #[test]
    fn a_star_covers_subresources_and_literals_do_not_rb_12_rb_13() {
        assert!(allows(&rule("*"), "pods", "", ""));
        assert!(allows(&rule("*"), "pods", "log", ""));
        assert!(!allows(&rule("pods"), "pods", "log", ""));
        assert!(!allows(&rule("pods/*"), "pods", "log", ""));
        assert!(!allows(&rule("*/*"), "pods", "log", ""));
        assert!(allows(&rule("*/scale"), "deployments", "scale", ""));
        assert!(!allows(&rule("*/scale"), "deployments", "", ""));
        assert!(allows(&rule("pods/log"), "pods", "log", ""));
        assert!(allows(&rule("pods/log"), "pods/log", "", ""));
        assert!(!allows(&rule("pods/log"), "pods", "logs", ""));
    }

    #[test]
    fn names_are_literal_and_an_absent_name_is_the_empty_one_rb_14_rb_15() {
        let named = |names: &[&str]| PolicyRule {
            resource_names: names.iter().map(|&n| n.to_owned()).collect(),
            ..rule("pods")
        };
        assert!(allows(&named(&["a", "b"]), "pods", "", "b"));
        assert!(!allows(&named(&["a"]), "pods", "", ""));
        assert!(allows(&named(&["a", ""]), "pods", "", ""));
        assert!(!allows(&named(&["*"]), "pods", "", "a"));
        assert!(allows(&named(&[]), "pods", "", "a"));
    }

    #[test]
    fn urls_match_exactly_or_by_prefix_rb_17() {
        let get = |entry: &str, path: &str| {
            let rule = PolicyRule {
                verbs: vec!["get".into()],
                non_resource_urls: vec![entry.into()],
                resources: vec!["*".into()],
                api_groups: vec!["*".into()],
                ..PolicyRule::default()
            };
            let user = User::default();
            rule_allows(&rule, &Attributes { user: &user, verb: "get", path, resource: None })
        };
        assert!(get("*", "/x"));
        assert!(get("/healthz", "/healthz"));
        assert!(!get("/healthz", "/healthz/"));
        assert!(!get("/healthz/*", "/healthz"));
        assert!(get("/healthz/*", "/healthz/"));
        assert!(get("/healthz*", "/healthz"));
        assert!(get("/healthz*", "/healthz/etcd"));
        assert!(get("/a**", "/abc"));
        assert!(!get("/a*c", "/abc"));
    }

    #[test]
    fn service_accounts_match_by_user_name_alone_rb_21_rb_22() {
        let account = |namespace: &str| Subject {
            kind: "ServiceAccount".into(),
            name: "sa".into(),
            namespace: namespace.into(),
            ..Subject::default()
        };
        let user = User::new("system:serviceaccount:ns:sa", ["x"]);
        assert!(subject_matches(&account("ns"), "", &user));
        assert!(subject_matches(&account(""), "ns", &user));
        assert!(!subject_matches(&account("other"), "ns", &user));
        assert!(!subject_matches(&account(""), "", &user));
        assert!(!subject_matches(&account(""), "", &User::new("system:serviceaccount::sa", ["x"])));
    }
}
