//! Deny rules against a naive model, and the errors and warnings of their documents.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::decision::{Authorizer, Decision, Reason};
use crate::graph::Graph;
use crate::objects::{Kind, Object};
use crate::rbac::matching::rule_allows;

/// Mode Deny over these rules and the labels of these namespaces.
pub(super) fn mode_deny(rules: DenyRules, labels: &[(&str, &[(&str, &str)])]) -> DenyAuthorizer {
    let namespaces = Namespaces::default();
    for (name, labels) in labels {
        apply(&namespaces, name, labels);
    }
    let rules = Arc::new(LiveRules::new(rules));
    DenyAuthorizer::new(Some(rules), None, Arc::new(namespaces), Arc::new(Graph::new()))
}

fn apply(namespaces: &Namespaces, name: &str, labels: &[(&str, &str)]) {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let text = json!({"metadata": {"name": name, "labels": labels}}).to_string();
    let Object::Namespace(namespace) = Object::parse(Kind::Namespace, &text).unwrap() else {
        panic!("{text}")
    };
    namespaces.apply(&namespace);
}

pub(super) fn rules(rules: &Value) -> DenyRules {
    DenyRules::parse(&document(rules)).unwrap()
}

fn document(rules: &Value) -> String {
    json!({"apiVersion": "portcullis.dev/v1", "kind": "DenyRules", "rules": rules}).to_string()
}

fn is_denied(rules: &DenyRules, user: &User, verb: &str, resource: ResourceRequest<'_>) -> bool {
    let attributes = Attributes { user, verb, path: "", resource: Some(resource) };
    rules.first(&attributes, None).is_some()
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
        let (rule, _) = rules.first(&attributes, None).unwrap();
        rule.reason.to_string()
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
        (
            "/namespaceSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "Gt"}]}),
            "rules[0].namespaceSelector",
        ),
        ("/namespaceSelector", json!({"matchLabels": {"a b": ""}}), "rules[0].namespaceSelector"),
    ] {
        let mut rule = valid.clone();
        match pointer {
            "/namespaceSelector" => rule["namespaceSelector"] = value,
            pointer => *rule.pointer_mut(pointer).unwrap() = value,
        }
        let error = DenyRules::parse(&document(&json!([rule]))).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}: ")), "{error}");
    }
    let mut unknown = valid.clone();
    unknown["verb"] = json!("get");
    let mut misspelled = valid.clone();
    misspelled["namespaceSelector"] = json!({"matchLabel": {"a": "b"}});
    for text in [
        document(&json!([unknown])),
        document(&json!([misspelled])),
        document(&json!([valid, valid])),
        "[]".to_owned(),
        "{}".to_owned(),
    ] {
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
    let accounts = json!([{"kind": "ServiceAccount", "namespace": "n", "name": "a"}]);
    let all = json!([{"kind": "ServiceAccount", "namespace": "*", "name": "*"}]);
    assert!(told(json!({"subjects": accounts, "except": all})).contains("never matches"));
    let nodes = json!({"apiGroups": [""], "resources": ["nodes", "nodes/status"], "namespaces": ["prod"]});
    assert!(told(nodes).contains("never matches"));
    let expressions = |list: Value| json!({"namespaceSelector": {"matchExpressions": list}});
    let both =
        json!([{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "In", "values": ["x", "y"]}]);
    assert_eq!(told(expressions(both)), "");
    for never in [
        json!([{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "DoesNotExist"}]),
        json!([{"key": "a", "operator": "In", "values": ["x"]}, {"key": "a", "operator": "NotIn", "values": ["x", "y"]}]),
    ] {
        assert!(told(expressions(never.clone())).contains("never matches"), "{never}");
    }
    assert!(told(json!({"nonResourceURLs": ["metrics"]})).contains("begin with /"));
    assert!(told(json!({"verbs": ["get"]})).contains("list and watch"));
    assert!(
        told(json!({"subjects": [{"kind": "Group", "name": "system:authenticated"}]}))
            .contains("system:masters")
    );
}

#[test]
fn a_namespace_that_is_not_known_counts_as_selected_bc_30() {
    let rules = || {
        rules(&json!([{
            "name": "prod", "subjects": [{"kind": "Group", "name": "*"}], "except": [{"kind": "User", "name": "root"}],
            "verbs": ["*"], "apiGroups": [""], "resources": ["secrets"],
            "namespaceSelector": {"matchLabels": {"stage": "production"}},
        }]))
    };
    assert!(rules().need_namespaces());
    let deny =
        mode_deny(rules(), &[("a", &[("stage", "production"), ("x", "y")]), ("b", &[("stage", "test")])]);
    let jane = User::new("jane", ["system:authenticated"]);
    let ask = |deny: &DenyAuthorizer, user: &User, verb, namespace| {
        let attributes = Attributes { user, verb, path: "", resource: Some(secret(namespace, "s")) };
        match deny.authorize(&attributes) {
            Decision::Deny(reason) => reason.render(&attributes).to_string(),
            _ => String::new(),
        }
    };
    assert_eq!(ask(&deny, &jane, "get", "a"), "denied by rule \"prod\"");
    assert_eq!(ask(&deny, &jane, "get", "b"), "");
    assert!(ask(&deny, &jane, "get", "new").contains("the labels of the namespace are not known"));
    // When nothing is known, every namespace is one of these.
    for namespace in ["a", "b", "new"] {
        assert!(ask(&deny.blind(), &jane, "get", namespace).contains("not known"));
    }
    // Who is excepted is so whatever the labels are.
    let root = User::new("root", ["system:authenticated"]);
    assert_eq!(ask(&deny.blind(), &root, "get", "new"), "");
    // Labels change, and a namespace is deleted.
    let namespaces = deny.namespaces.as_ref().unwrap();
    apply(namespaces, "b", &[("stage", "production")]);
    namespaces.delete("a");
    assert_eq!(ask(&deny, &jane, "get", "b"), "denied by rule \"prod\"");
    assert!(ask(&deny, &jane, "get", "a").contains("not known"));
}

#[test]
fn other_rules_take_the_place_of_the_first_bc_30() {
    let of = |resource: &str| {
        rules(&json!([{
            "name": resource, "subjects": [{"kind": "User", "name": "*"}], "verbs": ["get"], "apiGroups": [""],
            "resources": [resource],
        }]))
    };
    assert_eq!(of("secrets"), of("secrets"));
    assert_ne!(of("secrets"), of("pods"));
    let live = Arc::new(LiveRules::new(of("secrets")));
    let deny = DenyAuthorizer::new(Some(Arc::clone(&live)), None, Arc::default(), Arc::new(Graph::new()));
    let jane = User::new("jane", [""; 0]);
    let attributes = Attributes { user: &jane, verb: "get", path: "", resource: Some(secret("a", "b")) };
    assert!(matches!(deny.authorize(&attributes), Decision::Deny(_)));
    live.replace(of("pods"));
    assert!(matches!(deny.authorize(&attributes), Decision::NoOpinion(_)));
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
        proptest::option::of(selector()),
    )
        .prop_map(|(subjects, except, verbs, groups, resources, names, namespaces, selector)| {
            let mut rule = json!({
                "subjects": subjects, "except": except, "verbs": verbs, "apiGroups": groups, "resources": resources,
                "resourceNames": names, "namespaces": namespaces,
            });
            if let Some(selector) = selector {
                rule["namespaceSelector"] = selector;
            }
            rule
        })
}

pub(super) fn selector() -> impl Strategy<Value = Value> {
    let value = || proptest::sample::select(&["x", "y", ""][..]);
    let key = || proptest::sample::select(&["k", "l"][..]);
    let expression = prop_oneof![
        (key(), proptest::sample::select(&["In", "NotIn"][..]), proptest::collection::vec(value(), 1..3))
            .prop_map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values})),
        (key(), proptest::sample::select(&["Exists", "DoesNotExist"][..]))
            .prop_map(|(key, operator)| json!({"key": key, "operator": operator})),
    ];
    (proptest::collection::btree_map(key(), value(), 0..2), proptest::collection::vec(expression, 0..3))
        .prop_map(|(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions}))
}

/// Labels of a namespace; none if it is not known.
type Known = Option<std::collections::BTreeMap<&'static str, &'static str>>;

/// Whether a selector selects labels, as the documentation of Kubernetes says it. What is not known is selected.
fn is_selected(selector: &Value, labels: &Known) -> bool {
    let Some(labels) = labels else { return true };
    let of = |key: &Value| labels.get(key.as_str().unwrap());
    let is_met = |expression: &Value| {
        let value = of(&expression["key"]);
        let is_in = |value: &&str| expression["values"].as_array().unwrap().contains(&json!(value));
        match expression["operator"].as_str().unwrap() {
            "In" => value.is_some_and(is_in),
            "NotIn" => !value.is_some_and(is_in),
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    };
    selector["matchLabels"]
        .as_object()
        .unwrap()
        .iter()
        .all(|(key, value)| of(&json!(key)) == value.as_str().as_ref())
        && selector["matchExpressions"].as_array().unwrap().iter().all(is_met)
}

/// What a rule denies, read from its text: each condition by itself.
fn naive(rule: &Value, user: &User, verb: &str, request: &ResourceRequest<'_>, labels: &Known) -> bool {
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
        ("nodes", "") if request.group.is_empty() => {
            list("namespaces").is_empty() && rule.get("namespaceSelector").is_none()
        }
        (_, namespace) => {
            let of_selector = rule.get("namespaceSelector").is_none_or(|selector| match namespace {
                "" => verb == "list",
                _ => is_selected(selector, labels),
            });
            of_selector && reaches(&list("namespaces"), namespace)
        }
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
        labels in proptest::option::of(proptest::collection::btree_map(
            proptest::sample::select(&["k", "l"][..]), proptest::sample::select(&["x", "y", ""][..]), 0..=2,
        )),
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
        let expected = written.iter().position(|rule| naive(rule, &user, verb, &request, &labels));
        let listed: Vec<(&str, &str)> = labels.iter().flatten().map(|(key, value)| (*key, *value)).collect();
        let known = [(namespace, listed.as_slice())];
        let deny = mode_deny(rules, if labels.is_some() { &known } else { &[] });
        let attributes = Attributes { user: &user, verb, path: "", resource: Some(request) };
        let found = match deny.authorize(&attributes) {
            Decision::Deny(Reason::Told(reason) | Reason::NamespaceUnknown(reason)) => Some(reason.to_string()),
            _ => None,
        };
        prop_assert_eq!(found, expected.map(|number| format!("denied by rule \"rule-{number}\"")));
    }
}
