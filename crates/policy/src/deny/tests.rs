//! Deny rules against a naive model, and the errors and warnings of their documents.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::rbac::matching::rule_allows;

fn rules(rules: &Value) -> DenyRules {
    DenyRules::parse(&document(rules)).unwrap()
}

fn document(rules: &Value) -> String {
    json!({"apiVersion": "portcullis.dev/v1", "kind": "DenyRules", "rules": rules}).to_string()
}

fn is_denied(rules: &DenyRules, user: &User, verb: &str, resource: ResourceRequest<'_>) -> bool {
    let attributes = Attributes { user, verb, path: "", resource: Some(resource) };
    matches!(rules.authorize(&attributes), Decision::Deny(_))
}

fn secret<'a>(namespace: &'a str, name: &'a str) -> ResourceRequest<'a> {
    ResourceRequest { namespace, name, resource: "secrets", version: "v1", ..ResourceRequest::default() }
}

#[test]
fn a_denied_object_is_in_no_list_either() {
    let rules = rules(&json!([{
        "name": "vault", "subjects": [{"kind": "Group", "name": "*"}], "except": [{"kind": "User", "name": "root"}],
        "verbs": ["*"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["vault-*"], "namespaces": ["prod-*"],
    }]));
    let jane = User::new("jane", ["system:authenticated"]);
    for (verb, namespace, name, expected) in [
        ("get", "prod-a", "vault-key", true),
        ("get", "prod-a", "other", false),
        ("get", "dev", "vault-key", false),
        ("list", "prod-a", "", true),
        ("watch", "", "", true),
        ("deletecollection", "prod-a", "", true),
        ("list", "dev", "", false),
        ("create", "prod-a", "", false),
    ] {
        assert_eq!(
            is_denied(&rules, &jane, verb, secret(namespace, name)),
            expected,
            "{verb} {namespace}/{name}"
        );
    }
    let root = User::new("root", ["system:authenticated"]);
    assert!(!is_denied(&rules, &root, "get", secret("prod-a", "vault-key")));
}

#[test]
fn a_list_of_what_is_in_no_namespace_holds_nothing_of_one() {
    let rules = rules(&json!([{
        "name": "prod", "subjects": [{"kind": "User", "name": "*"}], "verbs": ["*"], "apiGroups": ["*"],
        "resources": ["*"], "namespaces": ["prod"],
    }]));
    let jane = User::new("jane", [""; 0]);
    let nodes = ResourceRequest { resource: "nodes", ..ResourceRequest::default() };
    assert!(!is_denied(&rules, &jane, "list", nodes));
    let pods = ResourceRequest { resource: "pods", ..ResourceRequest::default() };
    assert!(is_denied(&rules, &jane, "list", pods));
}

#[test]
fn a_user_in_too_many_groups_is_bound_by_every_rule_for_a_group() {
    let rules = rules(&json!([{
        "name": "a", "subjects": [{"kind": "Group", "name": "ops"}], "except": [{"kind": "Group", "name": "g0"}],
        "verbs": ["*"], "apiGroups": [""], "resources": ["secrets"],
    }]));
    let in_groups = |count: usize| User::new("jane", (0..count).map(|number| format!("g{number}")));
    assert!(!is_denied(&rules, &in_groups(MOST_GROUPS), "get", secret("a", "b")));
    assert!(is_denied(&rules, &in_groups(MOST_GROUPS + 1), "get", secret("a", "b")));
}

#[test]
fn the_reason_names_the_first_rule() {
    let rules = rules(&json!([
        {"name": "a", "subjects": [{"kind": "User", "name": "x*"}], "verbs": ["get", "list"],
            "nonResourceURLs": ["/debug/*"], "message": "ask the team"},
        {"name": "b", "subjects": [{"kind": "User", "name": "xy"}], "verbs": ["*"], "nonResourceURLs": ["*"]},
    ]));
    let user = User::new("xy", [""; 0]);
    let ask = |path| {
        let attributes = Attributes { user: &user, verb: "get", path, resource: None };
        match rules.authorize(&attributes) {
            Decision::Deny(reason) => reason.render(&attributes).to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask("/debug/pprof"), "denied by rule \"a\": ask the team");
    assert_eq!(ask("/metrics"), "denied by rule \"b\"");
}

#[test]
fn an_error_names_the_field() {
    let valid = json!({
        "name": "a", "subjects": [{"kind": "User", "name": "x"}], "verbs": ["get"], "apiGroups": [""], "resources": ["pods"],
    });
    assert!(DenyRules::parse(&document(&json!([valid]))).is_ok());
    for (pointer, value, path) in [
        ("/name", json!(""), "rules[0].name"),
        ("/subjects", json!([]), "rules[0].subjects"),
        ("/subjects/0/kind", json!("Robot"), "rules[0].subjects[0]"),
        ("/subjects/0/name", json!(""), "rules[0].subjects[0]"),
        ("/verbs", json!([]), "rules[0].verbs"),
        ("/apiGroups", json!([]), "rules[0].apiGroups"),
        ("/resources", json!([]), "rules[0].resources"),
    ] {
        let mut rule = valid.clone();
        *rule.pointer_mut(pointer).unwrap() = value;
        let error = DenyRules::parse(&document(&json!([rule]))).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}: ")), "{error}");
    }
    let mut unknown = valid.clone();
    unknown["verb"] = json!("get");
    for text in
        [document(&json!([unknown])), document(&json!([valid, valid])), "[]".to_owned(), "{}".to_owned()]
    {
        assert!(DenyRules::parse(&text).is_err(), "{text}");
    }
}

#[test]
fn mistakes_are_told() {
    let told = |change: Value| {
        let mut rule = json!({
            "name": "a", "subjects": [{"kind": "User", "name": "x"}], "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
        });
        rule.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        rules(&json!([rule])).warnings().join("\n")
    };
    assert_eq!(told(json!({})), "");
    assert!(told(json!({"verbs": ["create"], "resourceNames": ["x"]})).contains("never matches"));
    assert!(told(json!({"except": [{"kind": "User", "name": "*"}]})).contains("never matches"));
    assert!(told(json!({"nonResourceURLs": ["metrics"]})).contains("begin with /"));
    assert!(told(json!({"verbs": ["get"]})).contains("list and watch"));
    assert!(
        told(json!({"subjects": [{"kind": "Group", "name": "system:authenticated"}]}))
            .contains("system:masters")
    );
}

/// A rule of the naive model, as it is written.
fn written() -> impl Strategy<Value = Value> {
    let words = |all: &'static [&'static str]| proptest::sample::subsequence(all, 1..=all.len().min(3));
    let some = |all: &'static [&'static str]| proptest::sample::subsequence(all, 0..=2);
    let subject = prop_oneof![
        proptest::sample::select(&["jane", "j*", "*", "system:node:*"][..])
            .prop_map(|n| json!({"kind": "User", "name": n})),
        proptest::sample::select(&["ops", "o*", "*"][..]).prop_map(|n| json!({"kind": "Group", "name": n})),
        proptest::sample::select(&["ns", "n*", "*"][..])
            .prop_map(|n| json!({"kind": "ServiceAccount", "name": "sa", "namespace": n})),
    ];
    (
        proptest::collection::vec(subject.clone(), 1..3),
        proptest::collection::vec(subject, 0..2),
        words(&["get", "list", "create", "*"]),
        words(&["", "apps", "*"]),
        words(&["pods", "pods/log", "*/log", "nodes", "*"]),
        some(&["a", "a*", "b"]),
        some(&["ns", "n*", "other"]),
    )
        .prop_map(|(subjects, except, verbs, groups, resources, names, namespaces)| {
            json!({
                "subjects": subjects, "except": except, "verbs": verbs, "apiGroups": groups, "resources": resources,
                "resourceNames": names, "namespaces": namespaces,
            })
        })
}

/// What a rule denies, read from its text: each condition by itself.
fn naive(rule: &Value, user: &User, verb: &str, request: &ResourceRequest<'_>) -> bool {
    let list = |name: &str| -> Vec<String> {
        rule[name].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let fits = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
        Some("") => true,
        Some(start) => name.strip_prefix(start).is_some_and(|rest| !rest.contains(':')),
        None => pattern == name,
    };
    let is = |subject: &Value| {
        let name = subject["name"].as_str().unwrap();
        match subject["kind"].as_str().unwrap() {
            "User" => fits(name, &user.name),
            "Group" => user.groups.iter().any(|group| fits(name, group)),
            _ => user.name.split(':').collect::<Vec<_>>().as_slice().try_into().is_ok_and(
                |[_, kind, namespace, account]: [&str; 4]| {
                    kind == "serviceaccount"
                        && account == name
                        && fits(subject["namespace"].as_str().unwrap(), namespace)
                },
            ),
        }
    };
    let is_of = |name: &str| rule[name].as_array().unwrap().iter().any(is);
    let as_rbac = PolicyRule {
        verbs: list("verbs"),
        api_groups: list("apiGroups"),
        resources: list("resources"),
        ..PolicyRule::default()
    };
    let attributes = Attributes { user, verb, path: "", resource: Some(*request) };
    let reaches = |patterns: &[String], value: &str| {
        patterns.is_empty()
            || (value.is_empty() && verb == "list")
            || (!value.is_empty() && patterns.iter().any(|pattern| fits(pattern, value)))
    };
    let in_namespace = match (request.resource, request.namespace) {
        ("nodes", "") if request.group.is_empty() => list("namespaces").is_empty(),
        (_, namespace) => reaches(&list("namespaces"), namespace),
    };
    rule_allows(&as_rbac, &attributes)
        && in_namespace
        && reaches(&list("resourceNames"), request.name)
        && is_of("subjects")
        && !is_of("except")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn rules_deny_what_a_naive_model_denies_bc_30(
        written in proptest::collection::vec(written(), 0..5),
        user in proptest::sample::select(&["jane", "joe", "system:node:n1", "system:serviceaccount:ns:sa", "system:serviceaccount:ns:x"][..]),
        groups in proptest::sample::subsequence(&["ops", "other"][..], 0..=2),
        verb in proptest::sample::select(&["get", "list", "create", "delete"][..]),
        group in proptest::sample::select(&["", "apps"][..]),
        resource in proptest::sample::select(&["pods", "nodes"][..]),
        subresource in proptest::sample::select(&["", "log"][..]),
        name in proptest::sample::select(&["", "a", "ab", "b", "c"][..]),
        namespace in proptest::sample::select(&["", "ns", "n", "else"][..]),
    ) {
        let named: Vec<Value> = written
            .iter()
            .enumerate()
            .map(|(number, rule)| {
                let mut rule = rule.clone();
                rule["name"] = json!(format!("rule-{number}"));
                rule
            })
            .collect();
        let rules = rules(&json!(named));
        let user = User::new(user, groups);
        let request = ResourceRequest { group, resource, subresource, name, namespace, ..ResourceRequest::default() };
        let expected = written.iter().position(|rule| naive(rule, &user, verb, &request));
        let attributes = Attributes { user: &user, verb, path: "", resource: Some(request) };
        let found = match rules.authorize(&attributes) {
            Decision::Deny(reason) => Some(reason.render(&attributes).to_string()),
            _ => None,
        };
        prop_assert_eq!(found, expected.map(|number| format!("denied by rule \"rule-{number}\"")));
    }
}
