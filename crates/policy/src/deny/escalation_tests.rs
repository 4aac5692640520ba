//! The escalation check over deny rules against a naive model: every request of a small world is asked.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{mode_deny, rules, selector};
use super::*;
use crate::decision::{Authorizer, Decision};
use crate::objects::rbac::{AggregationRule, Binding, LabelSelector, OwnedMetadata, Role, RoleRef};
use crate::rbac::escalation::{RbacObject, RbacWrite};
use crate::rbac::matching::rule_allows;
use crate::request::User;

fn jane() -> User {
    User::new("jane", ["system:authenticated"])
}

fn role(rules: Vec<PolicyRule>) -> Role {
    let metadata = OwnedMetadata { name: "r".to_owned(), ..OwnedMetadata::default() };
    Role { metadata, rules, ..Role::default() }
}

fn write<'a>(user: &'a User, namespace: &'a str, object: RbacObject<'a>) -> RbacWrite<'a> {
    RbacWrite { user, namespace, name: "r", object, only_garbage_collection: false }
}

/// Writes a role in a namespace, or a ClusterRole.
fn check(
    deny: &DenyAuthorizer,
    user: &User,
    namespace: &str,
    granted: &PolicyRule,
) -> Result<(), GrantRefusal> {
    let new = role(vec![granted.clone()]);
    let object = match namespace {
        "" => RbacObject::ClusterRole { new: &new, old: None },
        _ => RbacObject::Role(&new),
    };
    deny.check_write(&write(user, namespace, object), |_, _| None)
}

fn granted(verbs: &[&str], groups: &[&str], resources: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
    PolicyRule {
        verbs: owned(verbs),
        api_groups: owned(groups),
        resources: owned(resources),
        ..PolicyRule::default()
    }
}

/// Nobody but root reads secrets of production.
fn vault() -> DenyAuthorizer {
    let rules = rules(&json!([{
        "name": "vault", "message": "ask the owner", "subjects": [{"kind": "Group", "name": "system:authenticated"}],
        "except": [{"kind": "User", "name": "root"}], "verbs": ["get", "list"], "apiGroups": [""],
        "resources": ["secrets"], "namespaces": ["prod-*"],
    }]));
    mode_deny(rules, &[]).checking_escalation(true)
}

#[test]
fn who_is_denied_something_cannot_grant_it_bc_31() {
    let deny = vault();
    let reads = granted(&["get"], &[""], &["secrets"]);
    let refused = check(&deny, &jane(), "prod-a", &reads).unwrap_err();
    assert!(!refused.is_unknown);
    assert!(refused.reason.contains("denied by rule \"vault\": ask the owner"), "{}", refused.reason);
    // Wildcards allow it as well, and a ClusterRole may be bound in every namespace.
    for rule in [
        granted(&["*"], &["*"], &["*"]),
        granted(&["list", "watch"], &["", "apps"], &["pods", "secrets"]),
        granted(&["get"], &["*"], &["secrets"]),
        granted(&["*"], &[""], &["*"]),
    ] {
        assert!(check(&deny, &jane(), "prod-a", &rule).is_err(), "{rule:?}");
        assert!(check(&deny, &jane(), "", &rule).is_err(), "{rule:?}");
        assert!(check(&deny, &jane(), "dev", &rule).is_ok(), "{rule:?}");
        // Others are not bound: by name, and because nothing is denied to the group.
        let root = User::new("root", ["system:authenticated"]);
        let master = User::new("jane", ["system:authenticated", "system:masters"]);
        for user in [root, master, User::new("nobody", [""; 0])] {
            assert!(check(&deny, &user, "prod-a", &rule).is_ok(), "{user:?}");
        }
    }
    for rule in [
        granted(&["create"], &[""], &["secrets"]),
        granted(&["get"], &["apps"], &["secrets"]),
        granted(&["get"], &[""], &["secrets/status", "configmaps"]),
        // A rule about namespaces denies nothing that is in none.
        granted(&["*"], &[""], &["nodes", "nodes/status"]),
    ] {
        assert!(check(&deny, &jane(), "prod-a", &rule).is_ok(), "{rule:?}");
        assert!(check(&deny, &jane(), "", &rule).is_ok(), "{rule:?}");
    }
    // Off unless it is turned on.
    assert!(check(&deny.clone().checking_escalation(false), &jane(), "prod-a", &reads).is_ok());
}

#[test]
fn a_bound_role_counts_as_a_written_one_bc_31() {
    let deny = vault();
    let jane = jane();
    let reads = role(vec![granted(&["get"], &[""], &["secrets"])]);
    let role_ref = |kind: &str| RoleRef { kind: kind.to_owned(), name: "r".to_owned(), ..RoleRef::default() };
    let binding = |kind| Binding { role_ref: role_ref(kind), ..Binding::default() };
    let cluster = binding("ClusterRole");
    let in_namespace = |namespace: &'static str, found: Option<Role>| {
        let object = RbacObject::RoleBinding(&cluster);
        deny.check_write(&write(&jane, namespace, object), |role, from| {
            assert_eq!((role.name.as_str(), from), ("r", Some(namespace)));
            found
        })
    };
    assert!(in_namespace("prod-a", Some(reads.clone())).is_err());
    assert!(in_namespace("dev", Some(reads.clone())).is_ok());
    let everywhere = RbacObject::ClusterRoleBinding(&cluster);
    assert!(deny.check_write(&write(&jane, "", everywhere), |_, _| Some(reads)).is_err());
    // A role that is not known may allow anything.
    assert!(in_namespace("dev", None).unwrap_err().is_unknown);
    // What a role will aggregate is not known either.
    let aggregation_rule = Some(AggregationRule { cluster_role_selectors: vec![LabelSelector::default()] });
    let aggregated = Role { aggregation_rule, ..role(Vec::new()) };
    let plain = role(Vec::new());
    for (new, old, is_ok) in
        [(&aggregated, None, false), (&plain, Some(&aggregated), false), (&plain, Some(&plain), true)]
    {
        let object = RbacObject::ClusterRole { new, old };
        assert_eq!(deny.check_write(&write(&jane, "", object), |_, _| None).is_ok(), is_ok);
    }
    // An update that grants nothing is not looked at.
    let object = RbacObject::ClusterRole { new: &aggregated, old: Some(&aggregated) };
    let update = RbacWrite { only_garbage_collection: true, ..write(&jane, "", object) };
    assert!(deny.check_write(&update, |_, _| None).is_ok());
}

#[test]
fn a_role_with_too_many_words_is_refused_bc_31() {
    let many = |prefix: &str| (0..20_000).map(|number| format!("{prefix}{number}")).collect::<Vec<_>>();
    let rules = rules(&json!([{
        "name": "many", "subjects": [{"kind": "User", "name": "*"}], "verbs": many("a"), "apiGroups": [""],
        "resources": ["pods"],
    }]));
    let deny = mode_deny(rules, &[]).checking_escalation(true);
    let rule = PolicyRule { verbs: many("b"), ..granted(&[], &[""], &["pods"]) };
    let refused = check(&deny, &jane(), "ns", &rule).unwrap_err();
    assert!(refused.reason.contains("takes too long"), "{}", refused.reason);
}

const VERBS: &[&str] = &["get", "list", "create", "other"];
const GROUPS: &[&str] = &["", "apps", "other"];
const RESOURCES: &[&str] = &["pods", "nodes", "other"];
const SUBRESOURCES: &[&str] = &["", "log", "other"];
const NAMES: &[&str] = &["", "a", "ab", "b", "c", "other"];
const NAMESPACES: &[&str] = &["", "ns", "n", "other"];
const PATHS: &[&str] = &["/a", "/a/b", "/ab", "/b", "/"];

/// A rule of a role.
fn grant() -> impl Strategy<Value = PolicyRule> {
    let words = |all: &'static [&'static str]| {
        proptest::sample::subsequence(all, 0..=all.len().min(2))
            .prop_map(|list| list.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    (
        words(&["get", "list", "create", "*"]),
        words(&["", "apps", "*"]),
        words(&["pods", "pods/log", "*/log", "nodes", "*", "pods/other"]),
        words(&["a", "ab", "b", "c", ""]),
        words(&["/a", "/a/*", "/a*", "*", "/b"]),
    )
        .prop_map(|(verbs, api_groups, resources, resource_names, non_resource_urls)| PolicyRule {
            verbs,
            api_groups,
            resources,
            resource_names,
            non_resource_urls,
        })
}

/// A deny rule that binds jane.
fn denial() -> impl Strategy<Value = Value> {
    let words = |all: &'static [&'static str]| proptest::sample::subsequence(all, 1..=all.len().min(2));
    let some = |all: &'static [&'static str]| proptest::sample::subsequence(all, 0..=1);
    (
        words(&["get", "list", "create", "*"]),
        words(&["", "apps", "*"]),
        words(&["pods", "pods/log", "*/log", "nodes", "*"]),
        some(&["a", "a*", "b"]),
        some(&["ns", "n*", "other"]),
        some(&["/a", "/a/*", "/ab*", "*"]),
        proptest::option::of(selector()),
    )
        .prop_map(|(verbs, groups, resources, names, namespaces, urls, selector)| {
            let mut rule = json!({
                "name": "rule", "subjects": [{"kind": "User", "name": "jane"}], "verbs": verbs, "apiGroups": groups,
                "resources": resources, "resourceNames": names, "namespaces": namespaces, "nonResourceURLs": urls,
            });
            if let Some(selector) = selector {
                rule["namespaceSelector"] = selector;
            }
            rule
        })
}

/// Whether the role allows some request of the world that is denied.
fn naive(deny: &DenyAuthorizer, user: &User, granted: &PolicyRule, namespace: &str) -> bool {
    let is_denied = |attributes: &Attributes<'_>| {
        rule_allows(granted, attributes) && matches!(deny.authorize(attributes), Decision::Deny(_))
    };
    let of_path = |path: &&str| is_denied(&Attributes { user, verb: "get", path, resource: None });
    if namespace.is_empty() && PATHS.iter().any(of_path) {
        return true;
    }
    let own = [namespace];
    let namespaces = if namespace.is_empty() { NAMESPACES } else { &own };
    for verb in VERBS {
        for group in GROUPS {
            for resource in RESOURCES {
                for subresource in SUBRESOURCES {
                    for name in NAMES {
                        for namespace in namespaces {
                            // There are no nodes in a namespace.
                            if group.is_empty() && *resource == "nodes" && !namespace.is_empty() {
                                continue;
                            }
                            let request = ResourceRequest {
                                group,
                                resource,
                                subresource,
                                name,
                                namespace,
                                ..ResourceRequest::default()
                            };
                            if is_denied(&Attributes { user, verb, path: "", resource: Some(request) }) {
                                return true;
                            }
                        }
                    }
                }
            }
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn nothing_is_granted_that_is_denied_and_nothing_refused_without_reason_bc_31(
        denial in denial(),
        granted in grant(),
        namespace in proptest::sample::select(&["", "ns", "n"][..]),
        labels in proptest::option::of(proptest::collection::btree_map(
            proptest::sample::select(&["k", "l"][..]), proptest::sample::select(&["x", "y", ""][..]), 0..=2,
        )),
    ) {
        let listed: Vec<(&str, &str)> = labels.iter().flatten().map(|(key, value)| (*key, *value)).collect();
        let known = [("ns", listed.as_slice()), ("n", listed.as_slice())];
        let deny = mode_deny(rules(&json!([denial])), if labels.is_some() { &known } else { &[] });
        let deny = deny.checking_escalation(true);
        let user = jane();
        let is_refused = check(&deny, &user, namespace, &granted).is_err();
        let may_be_denied = naive(&deny, &user, &granted, namespace);
        prop_assert!(is_refused || !may_be_denied, "granted what is denied");
        // It cannot be excluded that there will be another namespace with other labels, nor what an empty name stands for, and paths
        // are asked with one verb here.
        let is_exact = denial.get("namespaceSelector").is_none()
            && !granted.resource_names.iter().any(String::is_empty)
            && denial["nonResourceURLs"] == json!([]);
        prop_assert!(!is_exact || is_refused == may_be_denied, "refused without a reason");
    }
}

#[test]
fn paths_that_have_one_in_common_meet_bc_31() {
    let deny = |url: &str| {
        let rules = rules(&json!([{
            "name": "paths", "subjects": [{"kind": "User", "name": "*"}], "verbs": ["get"], "nonResourceURLs": [url],
        }]));
        mode_deny(rules, &[]).checking_escalation(true)
    };
    for (denied, url, meet) in [
        ("/debug/*", "/debug/pprof", true),
        ("/debug/*", "*", true),
        ("*", "/metrics", true),
        ("/debug/*", "/debug*", true),
        ("/debug*", "/debug/pprof/*", true),
        ("/debug/*", "/debug", false),
        ("/metrics", "/metrics/*", false),
        ("/a*", "/b*", false),
    ] {
        let rule = PolicyRule {
            verbs: vec!["get".to_owned()],
            non_resource_urls: vec![url.to_owned()],
            ..PolicyRule::default()
        };
        assert_eq!(check(&deny(denied), &jane(), "", &rule).is_err(), meet, "{denied} {url}");
        // A role of a namespace grants no paths.
        assert!(check(&deny(denied), &jane(), "ns", &rule).is_ok());
    }
}
