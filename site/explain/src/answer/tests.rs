//! The expectations are facts of the rules, or what the engine answers when it is used directly.

use portcullis_policy::{Attributes, Engine, ResourceRequest};
use serde_json::{Value, json};

use super::*;

const NODE: &str = "system:node:node-1";

fn pod(name: &str, node: &str, secret: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": name}, "spec": {
        "nodeName": node, "volumes": [{"name": "v", "secret": {"secretName": secret}}]}})
}

fn role(resource: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]})
}

fn binding() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "reader"}})
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// The question whether a user may get a secret.
fn secret(user: &str, groups: &[&str], name: &str) -> Value {
    let asked = json!({"verb": "get", "resource": "secrets", "namespace": "shop", "name": name});
    json!({"user": user, "groups": groups, "resourceAttributes": asked})
}

fn ask(objects: &str, spec: &Value) -> Result<Answer, String> {
    to(&json!({"objects": objects, "spec": spec}).to_string())
}

fn of_node(objects: &str, name: &str) -> Answer {
    ask(objects, &secret(NODE, &["system:nodes"], name)).unwrap()
}

#[test]
fn a_node_may_read_the_secrets_of_its_own_pods_only() {
    let objects = [pod("web", "node-1", "database"), pod("mail", "node-2", "mail")];
    for (name, decision) in [("database", Decision::Yes), ("mail", Decision::No), ("other", Decision::No)] {
        let answer = of_node(&list(&objects), name);
        assert_eq!(answer.decision, decision, "{name}");
        assert_eq!(answer.by.as_deref(), (decision == Decision::Yes).then_some("Node"));
        assert_eq!((answer.read, answer.passed_over, answer.unreadable.len()), (2, 0, 0));
    }
    // NA-1: the name alone makes no node.
    let answer = ask(&list(&objects), &secret(NODE, &[], "database")).unwrap();
    assert_eq!(answer.decision, Decision::No);
}

#[test]
fn the_answer_is_that_of_the_engine() {
    let objects = [pod("web", "node-1", "database"), role("secrets"), binding()];
    let config = EngineConfig { modes: vec![Mode::Node, Mode::Rbac], ..EngineConfig::default() };
    let texts = objects.each_ref().map(Value::to_string);
    let engine = Engine::from_json(config, texts.iter().map(String::as_str)).unwrap();
    let users =
        [(NODE, "system:nodes"), ("system:node:node-2", "system:nodes"), ("jane", "design"), ("joe", "")];
    for (name, group) in users {
        for object in ["database", "other"] {
            let user = User::new(name, [group]);
            let resource = ResourceRequest {
                namespace: "shop",
                version: "*",
                resource: "secrets",
                name: object,
                ..ResourceRequest::default()
            };
            let attributes = Attributes { user: &user, verb: "get", path: "", resource: Some(resource) };
            let outcome = engine.authorize(&attributes);
            let answer = ask(&list(&objects), &secret(name, &[group], object)).unwrap();
            assert_eq!(answer.decision == Decision::Yes, outcome.is_allow(), "{name} {object}");
            assert_eq!(answer.reason, outcome.reason(&attributes));
            assert_eq!(answer.explanation, engine.explain(&attributes).to_string());
        }
    }
}

#[test]
fn lists_arrays_and_documents_in_a_row_are_the_same_objects() {
    let objects = [pod("web", "node-1", "database"), pod("mail", "node-1", "mail")];
    let row: Vec<String> = objects.iter().map(Value::to_string).collect();
    let texts = [
        list(&objects),
        Value::from(objects.to_vec()).to_string(),
        row.join("\n"),
        row.concat(),
        format!("[{}]{}", list(&objects[..1]), row[1]),
    ];
    for text in texts {
        let answer = of_node(&text, "mail");
        assert_eq!((answer.decision, answer.read), (Decision::Yes, 2), "{text}: {answer:?}");
    }
}

#[test]
fn an_object_that_cannot_be_read_takes_no_part_and_makes_a_no_unknown() {
    let mut broken = pod("web", "node-1", "database");
    broken["spec"]["nodeName"] = json!(1);
    let text = serde_json::to_string_pretty(&json!({"apiVersion": "v1", "kind": "List",
        "items": [broken, pod("mail", "node-1", "mail")]}))
    .unwrap();
    let answer = of_node(&text, "database");
    assert_eq!((answer.decision, answer.read), (Decision::Unknown, 1));
    let [fault] = answer.unreadable.as_slice() else { panic!("{answer:?}") };
    let line = text.lines().position(|line| line.contains("nodeName")).unwrap() + 1;
    assert!(
        fault.starts_with(&format!("line {line}, ")) && fault.contains("items[0].spec.nodeName"),
        "{fault}"
    );
    // What can be read still counts.
    assert_eq!(of_node(&text, "mail").decision, Decision::Yes);
}

#[test]
fn of_an_object_that_is_given_twice_neither_counts() {
    let web = pod("web", "node-1", "database");
    for text in [list(&[web.clone(), web.clone()]), list(&[web.clone(), web.clone(), web])] {
        let answer = of_node(&text, "database");
        assert_eq!((answer.decision, answer.read), (Decision::Unknown, 0), "{answer:?}");
        assert!(answer.unreadable[0].contains("line 1"), "{answer:?}");
    }
}

#[test]
fn of_many_unreadable_objects_the_first_are_told_and_all_are_counted() {
    let objects: Vec<Value> = (0..50_000).map(|_| json!({"kind": "Pod"})).collect();
    let answer = of_node(&list(&objects), "database");
    assert_eq!(answer.decision, Decision::Unknown);
    assert_eq!(answer.unreadable.len() + answer.more_unreadable, objects.len());
    assert!((1..100).contains(&answer.unreadable.len()));
}

#[test]
fn objects_that_play_no_part_are_counted() {
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "database"}});
    let answer = of_node(&list(&[secret, pod("web", "node-1", "database")]), "database");
    assert_eq!((answer.read, answer.passed_over), (1, 1));
}

#[test]
fn a_path_and_the_group_of_administrators() {
    let path = json!({"verb": "get", "path": "/version"});
    let asks = |groups: &[&str]| json!({"user": "jane", "groups": groups, "nonResourceAttributes": path});
    assert_eq!(ask("", &asks(&["system:authenticated"])).unwrap().decision, Decision::No);
    // AC-63
    assert_eq!(ask("", &asks(&["system:masters"])).unwrap().decision, Decision::Yes);
    // RB-80: the default policy allows it (system:public-info-viewer).
    let question = json!({"objects": "", "defaultPolicy": true, "spec": asks(&["system:authenticated"])});
    assert_eq!(to(&question.to_string()).unwrap().decision, Decision::Yes);
}

#[test]
fn what_is_no_json_is_an_error_with_its_place() {
    for (text, place) in [
        ("apiVersion: v1", "line 1"),
        ("{}\n{\"kind\": ", "line 2"),
        ("[{}\n,\n]", "line 3"),
        ("{\"a\": \"", "line 1"),
    ] {
        let error = ask(text, &secret(NODE, &[], "x")).unwrap_err();
        assert!(error.contains(place) && error.contains("kubectl get -o json"), "{text}: {error}");
    }
}

#[test]
fn a_question_that_makes_no_sense_is_an_error_that_says_what_to_give() {
    let resource = |verb: &str, resource: &str| json!({"verb": verb, "resource": resource});
    let path = |path: &str| json!({"verb": "get", "path": path});
    for (spec, word) in [
        (json!({}), "user"),
        (json!({"user": ""}), "user"),
        (json!({"user": "jane"}), "resourceAttributes"),
        (json!({"user": "jane", "resourceAttributes": resource("", "pods")}), "verb"),
        (json!({"user": "jane", "resourceAttributes": resource("get", "")}), "resource"),
        (json!({"user": "jane", "nonResourceAttributes": path("version")}), "slash"),
        (
            json!({"user": "jane", "resourceAttributes": resource("get", "pods"), "nonResourceAttributes": path("/")}),
            "nonResourceAttributes",
        ),
        (json!({"user": "jane", "group": ["a"], "resourceAttributes": resource("get", "pods")}), "`group`"),
        (
            json!({"user": "jane", "resourceAttributes": {"verb": "get", "resource": "pods", "nmespace": "a"}}),
            "nmespace",
        ),
        (json!({"user": 1}), "string"),
        (json!(["jane", [], null, {"verb": "get", "path": "/"}]), "sequence"),
    ] {
        let error = ask("", &spec).unwrap_err();
        assert!(error.contains(word), "{spec}: {error}");
    }
    for question in ["", "{", "[]", "null", "{\"objects\": \"\"}"] {
        assert!(to(question).unwrap_err().contains("question"), "{question}");
    }
}

#[test]
fn deep_nesting_and_cut_texts_are_answered() {
    let deep = |open: &str, close: &str, levels: usize| open.repeat(levels) + "1" + &close.repeat(levels);
    let texts = [
        deep("[", "]", 100_000),
        deep("{\"a\":", "}", 100_000),
        format!("{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {}}}", deep("[", "]", 100_000)),
        deep("{\"kind\": \"List\", \"items\": [", "]}", 10_000),
        "[".repeat(100_000),
    ];
    for text in texts {
        let answer = ask(&text, &secret(NODE, &["system:nodes"], "database"));
        let refused = answer.as_ref().map_or(true, |answer| answer.decision == Decision::Unknown);
        assert!(refused, "{:.80}: {answer:.300?}", text);
    }
    assert!(to(&deep("[", "]", 100_000)).is_err());
    let whole = json!({"objects": list(&[pod("web", "node-1", "database")]), "spec": secret(NODE, &[], "x")})
        .to_string();
    for (end, _) in whole.char_indices() {
        assert!(to(whole.get(..end).unwrap()).is_err(), "{end}");
    }
}

#[test]
fn the_answer_is_json_whatever_the_names_are() {
    let name = "<img src=x onerror=alert(1)>\"\\\u{0}\u{7f}\u{2028}";
    let mut object = pod("web", "node-1", "database");
    object["metadata"]["name"] = json!(name);
    let answer = ask(&list(&[object]), &secret(NODE, &["system:nodes"], "database"));
    let read: Value = serde_json::from_str(&written(&answer)).unwrap();
    assert_eq!(read["decision"], "yes");
    let error: Value = serde_json::from_str(&written(&Err(name.to_owned()))).unwrap();
    assert_eq!(error, json!({"error": name}));
}
