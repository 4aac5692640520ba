//! The recorded reviews of a kube-apiserver 1.36, and the decisions of its cluster.

use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use serde_json::{Value, json};

use crate::webhook::support::{Webhook, ask};

/// Asks every review of a recording over its state, and compares the answers.
fn replay_access(reviews: &str, state: &str, api_version: &str) {
    let scratch = Scratch::new();
    let webhook = Webhook::over(&scratch, state, &[]);
    let mut client = webhook.client();
    let lines = recorded::lines(reviews);
    assert!(lines.len() > 100, "{}", lines.len());
    let (mut differ, mut allowed) = (Vec::new(), 0);
    for line in &lines {
        let answer = ask(&mut client, "/authorize?timeout=3s", &line["request"]);
        assert_eq!(answer["apiVersion"], api_version, "{answer}");
        assert_eq!(answer["kind"], "SubjectAccessReview", "{answer}");
        assert_eq!(answer["spec"], line["request"]["spec"], "the same is answered as was asked");
        let status = &answer["status"];
        // BC-4: the default no is no opinion.
        assert_eq!(status["denied"], Value::Null, "{answer}");
        let is_allowed = status["allowed"] == json!(true);
        allowed += u32::from(is_allowed);
        // Which of several bindings is named is chance.
        assert!(
            !is_allowed || status["reason"].is_null() || starts_alike(&status["reason"], &line["reason"]),
            "{line}"
        );
        if is_allowed != (line["decision"] == "allow") {
            differ.push(format!("{line}: {answer}"));
        }
    }
    assert_eq!(differ, Vec::<String>::new());
    assert!(allowed > 10 && (allowed as usize) < lines.len() - 10, "{allowed}");
}

fn starts_alike(one: &Value, other: &Value) -> bool {
    let start = |reason: &Value| reason.as_str().unwrap_or_default().split("by").next().map(str::to_owned);
    start(one) == start(other)
}

#[test]
fn access_reviews_are_answered_as_recorded_bc_3() {
    let folder = "webhook-authorization";
    replay_access(
        &format!("{folder}/reviews.jsonl"),
        &format!("{folder}/state.json"),
        "authorization.k8s.io/v1",
    );
    replay_access(
        &format!("{folder}/reviews-v1beta1.jsonl"),
        &format!("{folder}/state-v1beta1.json"),
        "authorization.k8s.io/v1beta1",
    );
}

#[test]
fn admission_reviews_are_answered_as_recorded_bc_5() {
    let scratch = Scratch::new();
    let flags = ["--feature-gates", "PodCertificateRequest=true"];
    let webhook = Webhook::over(&scratch, "webhook-admission/state.json", &flags);
    let mut client = webhook.client();
    let lines = recorded::lines("webhook-admission/reviews.jsonl");
    let (mut differ, mut refused, mut hidden) = (Vec::new(), 0, 0);
    for line in &lines {
        // BC-15: what NodeRestriction objects to is not in the review any more.
        if line["hidden"] == json!(true) {
            hidden += 1;
            continue;
        }
        for api_version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
            let mut review = line["request"].clone();
            review["apiVersion"] = json!(api_version);
            let answer = ask(&mut client, "/admit?timeout=10s", &review);
            assert_eq!(answer["apiVersion"], api_version, "{answer}");
            assert_eq!(answer["kind"], "AdmissionReview", "{answer}");
            let response = &answer["response"];
            assert_eq!(response["uid"], review["request"]["uid"], "{answer}");
            assert_eq!(response["patch"], Value::Null, "it never changes an object");
            let is_same =
                response["allowed"] == line["allowed"] && response["status"]["code"] == line["code"];
            if !is_same {
                differ.push(format!("{line}: {answer}"));
            }
            refused += u32::from(response["allowed"] == json!(false));
            if response["allowed"] == json!(false) {
                assert!(!response["status"]["message"].as_str().unwrap().is_empty(), "{answer}");
            }
        }
    }
    assert_eq!(differ, Vec::<String>::new());
    assert!(lines.len() > 200 && refused > 50 && hidden < 20, "{} {refused} {hidden}", lines.len());
}

#[test]
fn a_review_that_cannot_be_read_is_never_a_yes_bc_6() {
    let scratch = Scratch::new();
    let webhook = Webhook::over(&scratch, "webhook-authorization/state.json", &[]);
    let mut client = webhook.client().header("Content-Type: application/json");
    let review = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview""#;
    let attributes = r#""spec":{"user":"root","groups":["system:masters"],"nonResourceAttributes":{"path":"/","verb":"get"}}"#;
    let bodies = [
        String::new(),
        "null".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        format!("{review}}}"),
        format!("{review},{attributes}"),
        format!("{review},{attributes}}} {{}}"),
        format!("{review},{attributes},{attributes}}}"),
        format!(
            r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",{attributes}}}"#
        ),
        format!(r#"{{"apiVersion":"authorization.k8s.io/v2","kind":"SubjectAccessReview",{attributes}}}"#),
    ];
    for body in &bodies {
        for path in ["/authorize", "/admit"] {
            let answer = client.send("POST", path, body.as_bytes()).unwrap();
            answer.assert_status(400, "BadRequest");
        }
    }
    // curl asks before it sends so much.
    let too_large = scratch.write("too-large", vec![b' '; (3 << 20) + (64 << 10) + 1]);
    let mut curl = tool::command("curl");
    curl.args(["--silent", "--show-error", "--http1.1", "--cacert"]).arg(webhook.file("ca.pem"));
    curl.args(["--header", "Expect: 100-continue", "--write-out", "\n%{http_code}", "--data-binary"]);
    curl.arg(format!("@{}", too_large.display())).arg(format!("{}/admit", webhook.running.url()));
    let answer = Finished::of(&mut curl).stdout;
    assert!(answer.ends_with("\n413"), "{answer}");
    let line = webhook.metric("portcullis_webhook_unreadable_reviews_total{endpoint=\"authorize\"}");
    assert!(line.ends_with(&format!(" {}", bodies.len())), "{line}");
    // The same, in order: group system:masters is one of many here.
    let answer = client.send("POST", "/authorize", format!("{review},{attributes}}}").as_bytes()).unwrap();
    assert_eq!(answer.code, 200, "{}", answer.text());
}
