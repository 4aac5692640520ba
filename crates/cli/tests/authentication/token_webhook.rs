//! Tokens that a webhook is asked about (AN-56): the recorded answers of a webhook, with what a kube-apiserver 1.36 made of them,
//! and callers and webhooks that behave badly.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait;
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use serde_json::{Value, json};

use crate::authorization::support::{Running, refused, text};

const SELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const JSON: &str = "Content-Type: application/json";

fn kubeconfig(service: &WebhookService) -> PathBuf {
    let server = format!("https://{}/authenticate", service.address());
    service.kubeconfig_with(&server, "certificate-authority: ca.pem")
}

fn start(scratch: &Scratch, service: &WebhookService, more: &[&str]) -> Running {
    let kubeconfig = kubeconfig(service);
    let mut flags = vec!["--authentication-token-webhook-config-file", text(&kubeconfig)];
    flags.extend(more);
    Running::start(scratch, &flags)
}

fn token_of(asked: &Asked) -> String {
    asked.review["spec"]["token"].as_str().unwrap_or_default().to_owned()
}

/// Sends a SelfSubjectReview with this token; returns the status code and the user.
fn who(server: &Running, token: &str, more: &[&str]) -> (u16, Value) {
    let header = format!("Authorization: Bearer {token}");
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).to_string();
    let mut arguments = vec!["--header", &header, "--header", JSON, "--data", &body];
    arguments.extend(more);
    let (code, text) = server.ask("", SELF, &arguments);
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    (code, answer["status"]["userInfo"].clone())
}

fn accepted(asked: &Asked, user: &Value) -> Reply {
    let status = json!({"authenticated": true, "user": user});
    let answer = json!({"apiVersion": asked.review["apiVersion"], "kind": "TokenReview", "status": status});
    Reply::Body(200, "application/json", answer.to_string())
}

/// The recorded answer to a call, by how many there were for this token.
fn recorded_reply(line: &Value, before: usize) -> Reply {
    let answer = match &line["answer"] {
        Value::Array(all) => all.get(before).or(all.last()).unwrap(),
        one => one,
    };
    let code = answer["http"].as_u64().map_or(200, |code| u16::try_from(code).unwrap());
    let media = match answer["type"].as_str() {
        None | Some("application/json") => "application/json",
        Some("text/html") => "text/html",
        Some("text/plain") => "text/plain",
        Some(other) => panic!("{other}"),
    };
    let body = answer["text"].as_str().map_or_else(|| answer["json"].to_string(), str::to_owned);
    Reply::Body(code, media, body)
}

/// Makes one attempt, and returns its outcome in the form of the recording.
fn attempt(server: &Running, line: &Value) -> Value {
    let token = line["token"].as_str().unwrap();
    let Some(audiences) = line.get("token_review_audiences") else {
        let (code, user) = who(server, token, &[]);
        return if code == 201 { json!({"code": code, "user": user}) } else { json!({"code": code}) };
    };
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences},
    });
    let (code, mut answer) = server.post("root", TOKENS, &review);
    let error = answer["status"].as_object_mut().and_then(|status| status.remove("error")).is_some();
    json!({"code": code, "status": answer["status"], "error": error})
}

/// All that differs from what was recorded of one setup.
fn replay(lines: &[Value]) -> Vec<String> {
    let scratch = Scratch::new();
    let by_token: HashMap<String, Value> =
        lines.iter().map(|line| (line["token"].as_str().unwrap().to_owned(), line.clone())).collect();
    let calls = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    let counted = Arc::clone(&calls);
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        let token = token_of(asked);
        let before = {
            let mut counted = counted.lock().unwrap();
            let count = counted.entry(token.clone()).or_default();
            *count += 1;
            *count - 1
        };
        recorded_reply(&by_token[&token], before)
    });
    let mut flags = vec!["--api-audiences=https://kubernetes.default.svc"];
    flags.extend(lines[0]["flags"].as_array().unwrap().iter().filter_map(Value::as_str));
    let server = start(&scratch, &service, &flags);
    let differences = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for line in lines {
            let (server, service, calls, differences) = (&server, &service, &calls, &differences);
            scope.spawn(move || {
                let token = line["token"].as_str().unwrap();
                let count = || calls.lock().unwrap().get(token).copied().unwrap_or_default();
                let pause = line["seconds_between"].as_f64().map(Duration::from_secs_f64);
                let (mut outcomes, mut made) = (Vec::new(), Vec::new());
                for at in 0..line["outcomes"].as_array().unwrap().len() {
                    if let Some(pause) = pause.filter(|_| at > 0) {
                        thread::sleep(pause);
                    }
                    let before = count();
                    outcomes.push(attempt(server, line));
                    made.push(count() - before);
                }
                let asked = service.asked();
                let first = asked.iter().find(|asked| token_of(asked) == token).unwrap();
                let sent = |name: &str| {
                    first
                        .head
                        .iter()
                        .find_map(|line| line.strip_prefix(&format!("{name}: ")))
                        .unwrap_or_default()
                };
                let mut words = first.line.split(' ');
                let found = json!({
                    "outcomes": outcomes, "calls": made,
                    "sent": {
                        "method": words.next(), "path": words.next(), "body": first.review,
                        "content_type": sent("content-type"), "accept": sent("accept"),
                    },
                });
                for part in ["outcomes", "calls", "sent"] {
                    if found[part] != line[part] {
                        let (id, found, line) = (&line["id"], &found[part], &line[part]);
                        differences.lock().unwrap().push(format!("{id} {part}: {found} instead of {line}"));
                    }
                }
            });
        }
    });
    let log = server.stop();
    assert!(lines.iter().all(|line| !log.contains(line["token"].as_str().unwrap())), "{log}");
    differences.into_inner().unwrap()
}

#[test]
fn tokens_are_reviewed_as_recorded_an_56() {
    let mut setups = BTreeMap::<String, Vec<Value>>::new();
    for line in recorded::lines("webhook-authentication/replies.jsonl") {
        setups.entry(line["setup"].as_str().unwrap().to_owned()).or_default().push(line);
    }
    assert_eq!(setups.values().map(Vec::len).sum::<usize>(), 56);
    let differences: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = setups.values().map(|lines| scope.spawn(|| replay(lines))).collect();
        running.into_iter().flat_map(|setup| setup.join().unwrap()).collect()
    });
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn what_is_not_clearly_a_review_authenticates_nobody_an_56() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        let version = asked.review["apiVersion"].as_str().unwrap();
        let user = r#""user":{"username":"eve"}"#;
        let review = |status: String| {
            let body = format!(r#"{{"apiVersion":"{version}","kind":"TokenReview","status":{status}}}"#);
            Reply::Body(200, "application/json", body)
        };
        match token_of(asked).as_str() {
            "twice" => review(format!(r#"{{"authenticated":false,"authenticated":true,{user}}}"#)),
            "a-word" => review(format!(r#"{{"authenticated":"true",{user}}}"#)),
            "a-number" => review(format!(r#"{{"authenticated":1,{user}}}"#)),
            "other-case" => review(format!(r#"{{"Authenticated":true,{user}}}"#)),
            "a-list" => review(format!(r#"[{{"authenticated":true,{user}}}]"#)),
            "groups" => review(
                r#"{"authenticated":true,"user":{"username":"eve","groups":"system:masters"}}"#.to_owned(),
            ),
            "two" => Reply::Body(
                200,
                "application/json",
                format!(r#"{{"status":{{"authenticated":true,{user}}}}}{{}}"#),
            ),
            "large" => review(format!(r#"{{"authenticated":true,{user},"junk":"{}"}}"#, "x".repeat(2 << 20))),
            "elsewhere" => Reply::Head(307, "Location: https://127.0.0.2:1/authenticate\r\n".to_owned()),
            "closed" => Reply::Close,
            "forged" => review(format!(r#"{{"authenticated":true,{user}}}"#)),
            other => panic!("{other}"),
        }
    });
    let server = start(&scratch, &service, &[]);
    assert_eq!(who(&server, "forged", &[]).0, 201, "the service is asked");
    for token in [
        "twice",
        "a-word",
        "a-number",
        "other-case",
        "a-list",
        "groups",
        "two",
        "large",
        "elsewhere",
        "closed",
    ] {
        assert_eq!(who(&server, token, &[]).0, 401, "{token}");
    }
}

/// Other tokens never come to the webhook, if they are accepted; and it is not asked twice at the same time.
#[test]
fn a_webhook_is_asked_about_what_nothing_else_accepts_and_once_at_a_time_an_10() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        Reply::After(Duration::from_millis(500), Box::new(accepted(asked, &json!({"username": "ana"}))))
    });
    let server = start(&scratch, &service, &[]);
    assert_eq!(who(&server, "alice-token", &[]).1["username"], "alice");
    assert_eq!(service.asked().len(), 0);
    thread::scope(|scope| {
        let running: Vec<_> = (0..10).map(|_| scope.spawn(|| who(&server, "ana-token", &[]))).collect();
        for answer in running {
            let (code, user) = answer.join().unwrap();
            assert_eq!((code, &user["username"]), (201, &json!("ana")));
        }
    });
    assert_eq!(service.asked().len(), 1);
}

/// An attacker sends made-up tokens, for which the webhook takes for ever: others are authenticated meanwhile.
#[test]
fn made_up_tokens_of_one_address_delay_nobody_else() {
    const MADE_UP: usize = 24;
    let scratch = Scratch::new();
    let released = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&released);
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        if token_of(asked) == "good" {
            return accepted(asked, &json!({"username": "ana"}));
        }
        while !gate.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(20));
        }
        Reply::Body(200, "application/json", r#"{"status":{"authenticated":false}}"#.to_owned())
    });
    let server = start(&scratch, &service, &[]);
    thread::scope(|scope| {
        let server = &server;
        let made_up: Vec<_> = (0..MADE_UP)
            .map(|at| {
                scope.spawn(move || who(server, &format!("made-up-{at}"), &["--interface", "127.0.0.2"]).0)
            })
            .collect();
        let asked = || service.asked().iter().filter(|asked| token_of(asked) != "good").count();
        wait::until("the webhook is asked", || asked() >= 8);
        // The gate is closed: these do not wait for those.
        assert_eq!(who(server, "good", &[]).0, 201);
        assert_eq!(who(server, "alice-token", &["--interface", "127.0.0.2"]).0, 201);
        assert_eq!(asked(), 8, "the calls of one address at a time");
        released.store(true, Ordering::SeqCst);
        for code in made_up {
            assert_eq!(code.join().unwrap(), 401);
        }
    });
}

/// A call keeps its seat when the caller disconnects: otherwise an attacker could start as many as it likes.
#[test]
fn callers_that_disconnect_start_no_further_calls() {
    let scratch = Scratch::new();
    let released = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&released);
    let service = WebhookService::start(scratch.path(), move |asked, _| {
        while token_of(asked) != "good" && !gate.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(20));
        }
        accepted(asked, &json!({"username": "ana"}))
    });
    let server = start(&scratch, &service, &[]);
    let asked = || service.asked().iter().filter(|asked| token_of(asked) != "good").count();
    // Each wave has gone before the next one comes.
    for wave in 0..3 {
        thread::scope(|scope| {
            let server = &server;
            for at in 0..12 {
                let flags = ["--interface", "127.0.0.2", "--max-time", "2"];
                scope.spawn(move || assert_ne!(who(server, &format!("made-up-{wave}-{at}"), &flags).0, 201));
            }
        });
        wait::until("the webhook is asked", || asked() >= 8);
    }
    // The webhook has answered none of them yet.
    assert_eq!(asked(), 8, "the calls of one address at a time");
    assert_eq!(who(&server, "good", &[]).0, 201);
    released.store(true, Ordering::SeqCst);
}

#[test]
fn a_webhook_that_can_never_be_asked_stops_the_start_an_56() {
    const FLAG: &str = "--authentication-token-webhook-config-file";
    let scratch = Scratch::new();
    let error = refused(&scratch, &[FLAG, "/nowhere/webhook.yaml"]);
    assert!(error.contains(FLAG) && error.contains("/nowhere/webhook.yaml"), "{error}");
    let plain = scratch.write(
        "plain.yaml",
        "clusters: [{name: a, cluster: {server: 'http://192.0.2.1/authenticate'}}]\n\
         contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n",
    );
    let error = refused(&scratch, &[FLAG, text(&plain)]);
    assert!(error.contains(FLAG) && error.contains("http"), "{error}");
    let error = refused(&scratch, &["--authentication-token-webhook-version=v2"]);
    assert!(error.contains("v2"), "{error}");
}
