//! The recorded replies of a webhook: the client gets what it got from kube-apiserver 1.36.

use std::time::Duration;

use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use serde_json::{Value, json};

use crate::admission::support::{
    CONFIG_MAPS, Server, VALIDATING, config_map, configure, path, requests, webhook,
};

const UID: &str = "<uid of the request>";

/// The reply of the recorded webhook.
fn reply(line: &Value, asked: &Asked) -> Reply {
    let uid = asked.review["request"]["uid"].as_str().unwrap();
    let recorded = &line["reply"];
    match recorded.as_str() {
        Some("connection closed") => return Reply::Close,
        Some("late") => return Reply::After(Duration::from_secs(4), Box::new(Reply::Close)),
        Some(other) => panic!("{other}"),
        None => {}
    }
    let body = match recorded["body"].as_str().unwrap() {
        "the request echoed, with the response in it" => {
            let mut review = asked.review.clone();
            review["response"] = json!({"uid": uid, "allowed": true});
            review.to_string()
        }
        body => body.replace(UID, uid),
    };
    let media = match recorded["headers"]["Content-Type"].as_str().unwrap() {
        "application/json" => "application/json",
        "text/plain" => "text/plain",
        other => panic!("{other}"),
    };
    let reply = Reply::Body(u16::try_from(recorded["code"].as_u64().unwrap()).unwrap(), media, body);
    match line["case"].as_str().unwrap() {
        "slow-1s" => Reply::After(Duration::from_secs(1), Box::new(reply)),
        _ => reply,
    }
}

/// A Status in which every uid is the same. What the HTTP client or the decoder of kube-apiserver says about a call that
/// failed is theirs: of that only the beginning is compared.
fn comparable(status: &Value) -> Value {
    let mut status = status.clone();
    let shorten = |message: &mut Value| {
        let Some(text) = message.as_str() else { return };
        let text = match text.split_once("expected response.uid=\"") {
            Some((before, after)) => {
                let (uid, rest) = after.split_once('"').unwrap();
                assert_eq!(uid.len(), 36, "{text}");
                format!("{before}expected response.uid=\"U\"{rest}")
            }
            None => text.to_owned(),
        };
        let failed = "failed calling webhook \"w.example.com\": ";
        *message = match text.split_once("failed to call webhook: ") {
            Some((before, _)) => before.into(),
            None => match text.split_once(failed).filter(|(_, why)| {
                why.contains("of admission.k8s.io/v1, Kind=AdmissionReview, got")
                    && !why.contains("got /, Kind=")
            }) {
                Some((before, _)) => format!("{before}{failed}").into(),
                None => text.into(),
            },
        };
    };
    shorten(&mut status["message"]);
    let causes = status.pointer_mut("/details/causes").and_then(Value::as_array_mut);
    causes.into_iter().flatten().for_each(|cause| {
        if cause.get("reason").is_none() {
            shorten(&mut cause["message"]);
        }
    });
    status
}

#[test]
fn clients_get_what_they_got_from_kube_apiserver_bc_5() {
    let lines = recorded::lines("webhook-admission/replies.jsonl");
    assert!(lines.len() > 60, "{}", lines.len());
    let scratch = Scratch::new();
    let by_case = lines.clone();
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        let name = asked.review["request"]["name"].as_str().unwrap();
        let line = by_case.iter().find(|line| line["case"] == name && line["failurePolicy"] == "Fail");
        reply(line.expect("a recorded case"), asked)
    });
    let server = Server::start(&scratch, &[]);
    let mut admin = server.admin();
    let mut differ = Vec::new();
    for policy in ["Fail", "Ignore"] {
        let fields = json!({"failurePolicy": policy, "timeoutSeconds": 2});
        configure(&mut admin, VALIDATING, "w", &[webhook(&service, "w.example.com", &fields)]);
        for line in lines.iter().filter(|line| line["failurePolicy"] == policy) {
            let case = line["case"].as_str().unwrap();
            let before = service.asked().len();
            let answer = admin.ask("POST", CONFIG_MAPS, Some(&config_map(case))).unwrap();
            let document = answer.json();
            let mut found = json!({
                "code": answer.code, "warnings": answer.warnings, "calls": service.asked().len() - before,
            });
            let mut expected =
                json!({"code": line["code"], "warnings": line["warnings"], "calls": line["calls"]});
            match line.get("status") {
                Some(status) => {
                    expected["answer"] = comparable(status);
                    found["answer"] = comparable(&document);
                }
                None => {
                    expected["answer"] = line["data"].clone();
                    found["answer"] = document["data"].clone();
                }
            }
            if found != expected {
                differ.push(format!("{policy} {case}:\n  {found}\n  {expected}"));
            }
        }
        admin.must(200, "DELETE", &format!("{}/w", path(VALIDATING)), None);
        // What was created is in the way of the next round.
        admin.must(200, "DELETE", &format!("{CONFIG_MAPS}?labelSelector=!a"), None);
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));

    // Every call has an uid of its own.
    let mut uids: Vec<String> = requests(&service).iter().map(|request| request["uid"].to_string()).collect();
    let count = uids.len();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), count);
    let first = &service.asked()[0];
    assert_eq!(first.line, "POST /admit?timeout=2s HTTP/1.1");
    for header in ["content-type: application/json", "accept: application/json, */*"] {
        assert!(first.head.iter().any(|line| line == header), "{:?}", first.head);
    }
    assert!(!first.has_certificate, "no certificate unless configured");

    // Counted under the names of kube-apiserver.
    for (metric, least) in [
        (
            "apiserver_admission_webhook_request_total{name=\"w.example.com\",type=\"validating\",operation=\"CREATE\",code=\"200\",rejected=\"false\"}",
            5,
        ),
        (
            "apiserver_admission_webhook_rejection_count{name=\"w.example.com\",type=\"validating\",operation=\"CREATE\",error_type=\"no_error\",rejection_code=\"403\"}",
            2,
        ),
        ("apiserver_admission_webhook_fail_open_count{name=\"w.example.com\",type=\"validating\"}", 10),
        (
            "apiserver_admission_webhook_admission_duration_seconds_count{name=\"w.example.com\",type=\"validating\",operation=\"CREATE\",rejected=\"false\"}",
            5,
        ),
    ] {
        let line = server.metric(metric);
        let count: u64 =
            line.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{metric}: {line:?}"));
        assert!(count >= least, "{line}");
    }
}
