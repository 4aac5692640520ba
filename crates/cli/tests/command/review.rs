//! `review`: kinds and versions, mixed and alone.

use serde_json::{Value, json};

use crate::command::support::with_input;

const ALWAYS: [&str; 3] = ["review", "--authorization-mode", "AlwaysAllow"];

fn answer(arguments: &[&str], reviews: &[Value]) -> Vec<Value> {
    let input: String = reviews.iter().map(|review| format!("{review}\n")).collect();
    with_input(arguments, input.as_bytes()).json_lines()
}

fn review(version: &str, kind: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("authorization.k8s.io/{version}"), "kind": kind, "spec": spec})
}

/// An ABAC policy for one group, so that a group that was read wrong changes the answer.
fn for_developers(review: &Value) -> Value {
    let scratch = portcullis_testkit::scratch::Scratch::new();
    let policy = json!({
        "apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
        "spec": {"group": "developers", "namespace": "*", "resource": "*", "apiGroup": "*"},
    });
    let file = scratch.write("policy.jsonl", policy.to_string());
    let flags =
        ["review", "--authorization-mode", "ABAC", "--authorization-policy-file", file.to_str().unwrap()];
    answer(&flags, std::slice::from_ref(review)).remove(0)
}

#[test]
fn v1beta1_says_group_and_v1_says_groups_wh_13_wh_121() {
    for (version, key, allowed) in [
        ("v1", "groups", true),
        ("v1beta1", "group", true),
        ("v1", "group", false),
        ("v1beta1", "groups", false),
    ] {
        let attributes = json!({"verb": "get", "resource": "pods"});
        let spec = json!({"user": "a", key: ["developers"], "resourceAttributes": attributes});
        let question = review(version, "SubjectAccessReview", spec);
        let answered = for_developers(&question);
        assert_eq!(answered["status"]["allowed"], allowed, "{version} {key}");
        assert_eq!(answered["apiVersion"], question["apiVersion"]);
        if allowed {
            assert_eq!(answered["spec"], question["spec"]);
        }
    }
}

#[test]
fn a_local_review_asks_about_its_own_namespace_wh_73() {
    let local = |namespace: &str, asked: Value| {
        let mut review = review(
            "v1",
            "LocalSubjectAccessReview",
            json!({"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": asked}}),
        );
        review["metadata"] = json!({"namespace": namespace});
        review
    };
    let answered = answer(&ALWAYS, &[local("ns", json!("ns"))]).remove(0);
    assert_eq!(
        (&answered["status"]["allowed"], &answered["metadata"]["namespace"]),
        (&json!(true), &json!("ns"))
    );
    for (namespace, asked) in [("ns", json!("other")), ("ns", json!(null)), ("", json!("ns"))] {
        with_input(ALWAYS, local(namespace, asked).to_string().as_bytes()).refused(&[
            "standard input:1: ",
            "spec.resourceAttributes.namespace",
            "must match metadata.namespace",
        ]);
    }
    let mut path = review(
        "v1",
        "LocalSubjectAccessReview",
        json!({"user": "a", "nonResourceAttributes": {"path": "/"}}),
    );
    path["metadata"] = json!({"namespace": "ns"});
    with_input(ALWAYS, path.to_string().as_bytes()).refused(&["spec.nonResourceAttributes", "disallowed"]);
}

#[test]
fn reviews_about_their_sender_are_refused() {
    for (kind, spec) in [
        ("SelfSubjectAccessReview", json!({"resourceAttributes": {"verb": "get", "resource": "pods"}})),
        ("SelfSubjectRulesReview", json!({"namespace": "ns"})),
    ] {
        let line = review("v1", kind, spec).to_string();
        with_input(ALWAYS, line.as_bytes()).refused(&[
            "standard input:1: kind: ",
            kind,
            "SubjectAccessReview",
            "user",
        ]);
    }
}

#[test]
fn kinds_may_be_mixed_and_come_back_in_order() {
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "ns"});
    let spec = json!({"user": "a", "resourceAttributes": attributes});
    let mut local = review("v1beta1", "LocalSubjectAccessReview", spec.clone());
    local["metadata"] = json!({"namespace": "ns"});
    let admission = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "7", "resource": {"group": "", "version": "v1", "resource": "nodes"}, "name": "n1",
            "operation": "DELETE", "userInfo": {"username": "system:node:n0", "groups": ["system:nodes"]},
        },
    });
    let questions = [
        review("v1", "SubjectAccessReview", spec.clone()),
        admission.clone(),
        local,
        review("v1beta1", "SubjectAccessReview", spec),
    ];
    let answers = answer(&ALWAYS, &questions);
    for (question, answer) in questions.iter().zip(&answers) {
        assert_eq!((&answer["kind"], &answer["apiVersion"]), (&question["kind"], &question["apiVersion"]));
        if question["kind"] == "AdmissionReview" {
            // NR-35, whatever the authorization modes are.
            assert_eq!(answer["request"], question["request"]);
            assert_eq!(answer["response"]["uid"], "7");
            assert_eq!(answer["response"]["allowed"], false);
            assert_eq!(answer["response"]["status"]["code"], 403);
        } else {
            assert_eq!(answer["status"]["allowed"], true);
        }
    }
}

#[test]
fn blank_lines_and_carriage_returns_are_no_reviews() {
    let line = review(
        "v1",
        "SubjectAccessReview",
        json!({"user": "a", "nonResourceAttributes": {"path": "/x", "verb": "get"}}),
    );
    let run = with_input(ALWAYS, format!("\n{line}\r\n  \n\n{line}").as_bytes());
    assert_eq!(run.json_lines().len(), 2);
    let run = with_input(ALWAYS, b"");
    assert_eq!((run.code, &*run.stdout), (0, ""));
    let run = with_input(["review", "--check"], b"");
    assert_eq!((run.code, &*run.stdout), (0, "0 checked, 0 differ\n"));
}

#[test]
fn the_step_for_system_masters_is_not_asked_ac_63() {
    let line = review(
        "v1",
        "SubjectAccessReview",
        json!({"groups": ["system:masters"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}),
    );
    assert_eq!(answer(&["review"], std::slice::from_ref(&line))[0]["status"]["allowed"], false);
    // With the default policy, RBAC's own binding of cluster-admin allows it.
    assert_eq!(answer(&["review", "--default-policy"], &[line])[0]["status"]["allowed"], true);
}

#[test]
fn the_answer_says_what_of_a_selector_was_ignored_wh_79() {
    let selector =
        json!({"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["a", "b"]}]});
    let attributes = json!({"verb": "list", "resource": "pods", "fieldSelector": selector});
    let line = review("v1", "SubjectAccessReview", json!({"user": "a", "resourceAttributes": attributes}));
    let status = answer(&ALWAYS, &[line]).remove(0)["status"].clone();
    assert_eq!(status["evaluationError"], "spec.resourceAttributes.fieldSelector ignored due to parse error");
}

#[test]
fn a_kubelet_has_the_name_that_is_given_to_it() {
    let run = with_input(
        ["review", "--kubelet-attributes", "--node-name", "n7"],
        br#"{"method":"GET","url":"/stats/summary"}"#,
    );
    let sets = run.json_lines().remove(0)["attributes"].clone();
    assert!(
        sets.as_array().unwrap().iter().all(|set| set["name"] == "n7" && set["resource"] == "nodes"),
        "{sets}"
    );
}
