//! The recorded replies of an authorization webhook: the client gets the code that it got from kube-apiserver 1.36, after as
//! many calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use serde_json::{Value, json};

use crate::authorization::support::{Running, text};

/// Where Portcullis differs on purpose (docs/compatibility.md), with the outcome here: whether the reply counts as an answer, and
/// the number of calls.
const DIFFERENT: [(&str, u64); 4] =
    [("yaml-type", 1), ("yaml-in-json-type", 1), ("large-answer", 1), ("code-301", 1)];
/// Nobody answers there.
const UNREACHABLE: [&str; 2] = ["refused", "untrusted"];

/// ABAC in the place of the recorded RBAC: `granted` may list pods, `other` nothing.
const GRANTS: &str = r#"{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "alice", "namespace": "*", "resource": "pods", "apiGroup": "*"}}
"#;

fn user(line: &Value) -> &'static str {
    if line["grantedByRBAC"] == json!(true) { "alice" } else { "jane" }
}

fn case(line: &Value) -> &str {
    line["case"].as_str().unwrap()
}

/// The reply of the recorded webhook to one call.
fn reply(recorded: &Value) -> Reply {
    match recorded.as_str() {
        Some("connection closed") => return Reply::Close,
        Some("late") => return Reply::After(Duration::from_secs(5), Box::new(Reply::Close)),
        Some(other) => panic!("{other}"),
        None => {}
    }
    let code = u16::try_from(recorded["code"].as_u64().unwrap()).unwrap();
    let header = |name: &str| recorded["headers"][name].as_str();
    let body = recorded["body"].as_str().unwrap();
    let mut lines = String::new();
    for name in ["Location", "Retry-After"] {
        lines.extend(header(name).map(|value| format!("{name}: {value}\r\n")));
    }
    if !lines.is_empty() {
        assert_eq!(body, "");
        return Reply::Head(code, lines);
    }
    let media = match header("Content-Type") {
        None => "",
        Some("application/json") => "application/json",
        Some("application/yaml") => "application/yaml",
        Some("text/plain") => "text/plain",
        Some(other) => panic!("{other}"),
    };
    let body = match body.strip_suffix(" bytes") {
        Some(count) => {
            let start = r#"{"status":{"allowed":true},"junk":""#;
            format!("{start}{}\"}}", "x".repeat(count.parse::<usize>().unwrap() - start.len() - 2))
        }
        None => body.to_owned(),
    };
    Reply::Body(code, media, body)
}

#[test]
fn clients_get_what_they_got_from_kube_apiserver_wh_20_wh_30_wh_41() {
    let lines = recorded::lines("webhook-authorization/replies.jsonl");
    assert!(lines.len() > 150, "{}", lines.len());
    std::thread::scope(|scope| {
        for policy in ["NoOpinion", "Deny"] {
            let lines: Vec<Value> =
                lines.iter().filter(|line| line["failurePolicy"] == policy).cloned().collect();
            scope.spawn(move || replay(policy, &lines));
        }
    });
}

fn replay(policy: &str, lines: &[Value]) {
    let scratch = Scratch::new();
    let by_question: HashMap<(String, String), Value> = lines
        .iter()
        .map(|line| ((user(line).to_owned(), case(line).to_owned()), line["replies"].clone()))
        .collect();
    let allowed = lines.iter().find(|line| case(line) == "allowed").unwrap()["replies"].clone();
    let counts = Arc::<Mutex<HashMap<(String, String), usize>>>::default();
    let its_counts = Arc::clone(&counts);
    let service = WebhookService::start(scratch.path(), move |asked: &Asked, _| {
        // A redirect that turned into a GET has no body.
        let spec = &asked.review["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let question = (text(&spec["user"]), text(&spec["resourceAttributes"]["namespace"]));
        let Some(replies) = by_question.get(&question) else { return Reply::Close };
        let at = {
            let mut counts = its_counts.lock().unwrap();
            let count = counts.entry(question.clone()).or_default();
            *count += 1;
            *count - 1
        };
        let case = question.1;
        // Three replies are recorded at most. Those after them are like the last, but where the name of the case says otherwise.
        let is_fifth = case == "500-four-times-then-allowed" && at == 4;
        let replies = replies.as_array().unwrap();
        if is_fifth { reply(&allowed[0]) } else { reply(&replies[at.min(replies.len() - 1)]) }
    });
    let kubeconfig = service.kubeconfig();
    let webhook = json!({
        "type": "Webhook", "name": "webhook",
        "webhook": {
            "timeout": "2s", "cacheAuthorizedRequests": false, "cacheUnauthorizedRequests": false,
            "authorizedTTL": "4s", "unauthorizedTTL": "2s",
            "subjectAccessReviewVersion": "v1", "matchConditionSubjectAccessReviewVersion": "v1",
            "failurePolicy": policy,
            "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": kubeconfig},
        },
    });
    let config = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": [webhook, {"type": "ABAC", "name": "abac"}],
    });
    let config = scratch.write("authorization.yaml", config.to_string());
    let grants = scratch.write("policy.jsonl", GRANTS);
    let flags = ["--authorization-config", text(&config), "--authorization-policy-file", text(&grants)];
    let server = Running::start(&scratch, &flags);
    let asked: Vec<&Value> = lines.iter().filter(|line| !UNREACHABLE.contains(&case(line))).collect();
    // Most of the time is spent waiting for the next try.
    let chunk = asked.len().div_ceil(8);
    let mut differ = Vec::new();
    std::thread::scope(|scope| {
        let (server, counts) = (&server, &counts);
        let asking: Vec<_> = asked
            .chunks(chunk)
            .map(|lines| {
                scope.spawn(move || {
                    lines.iter().filter_map(|line| ask(server, counts, policy, line)).collect::<Vec<_>>()
                })
            })
            .collect();
        for part in asking {
            differ.extend(part.join().unwrap());
        }
    });
    assert!(differ.is_empty(), "{policy}:\n{}", differ.join("\n"));
}

fn ask(
    server: &Running,
    counts: &Mutex<HashMap<(String, String), usize>>,
    policy: &str,
    line: &Value,
) -> Option<String> {
    let (user, case) = (user(line), case(line));
    let (code, body) = server.ask(user, &format!("/api/v1/namespaces/{case}/pods"), &[]);
    let calls = counts.lock().unwrap().get(&(user.to_owned(), case.to_owned())).copied().unwrap_or_default();
    let found = (u64::from(code), calls as u64);
    let recorded = (line["code"].as_u64().unwrap(), line["calls"].as_u64().unwrap());
    let expected = match DIFFERENT.iter().find(|(name, _)| *name == case) {
        None => recorded,
        // An error of the webhook.
        Some((_, calls)) if policy == "NoOpinion" && user == "alice" => (200, *calls),
        Some((_, calls)) => (500, *calls),
    };
    (found != expected).then(|| format!("{case} {user}: {found:?}, expected {expected:?}: {body}"))
}
