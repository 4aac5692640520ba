//! Mode Webhook: what is sent, what is taken for an answer, and that nothing but a clear answer allows (WH-).

use std::time::Duration;

use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use serde_json::{Value, json};

use crate::authorization::support::{POLICY, Running, refused, text};

const PODS: &str = "/api/v1/namespaces/kittensandponies/pods";

fn start(scratch: &Scratch, service: &WebhookService, more: &[&str]) -> Running {
    let kubeconfig = service.kubeconfig();
    let mut flags =
        vec!["--authorization-mode=Webhook", "--authorization-webhook-config-file", text(&kubeconfig)];
    flags.extend(more);
    Running::start(scratch, &flags)
}

fn allow(asked: &Asked, _: usize) -> Reply {
    Reply::status(asked, &json!({"allowed": true}))
}

#[test]
fn the_service_is_sent_what_the_guide_shows_wh_10_to_wh_15() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), allow);
    let server = start(&scratch, &service, &[]);
    assert_eq!(server.get("jane", &format!("{PODS}/p1")), 404);
    assert_eq!(server.get("jane", "/debug"), 404);
    let asked = service.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].line, "POST /authorize?timeout=30s HTTP/1.1");
    assert!(asked[0].has_certificate);
    assert!(asked[0].head.contains(&"content-type: application/json".to_owned()));
    // v1beta1 by default, where groups are `group` (WH-120).
    let group = json!(["group1", "group2", "system:authenticated"]);
    assert_eq!(
        asked[0].review,
        json!({
            "apiVersion": "authorization.k8s.io/v1beta1", "kind": "SubjectAccessReview", "metadata": {},
            "spec": {
                "resourceAttributes": {
                    "namespace": "kittensandponies", "verb": "get", "version": "v1", "resource": "pods", "name": "p1",
                },
                "user": "jane", "group": group, "uid": "4",
            },
            "status": {"allowed": false},
        })
    );
    assert_eq!(asked[1].review["spec"]["nonResourceAttributes"], json!({"path": "/debug", "verb": "get"}));
    assert_eq!(asked[1].review["spec"]["resourceAttributes"], Value::Null);
}

#[test]
fn version_v1_says_groups_and_selectors_take_part_wh_13_wh_16_wh_17() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), allow);
    let server = start(&scratch, &service, &["--authorization-webhook-version=v1"]);
    let query = "fieldSelector=spec.nodeName%3Dn1,status.phase!%3DFailed&labelSelector=app+in+(a,b),!old,new";
    assert_eq!(server.get("jane", &format!("{PODS}?{query}")), 200);
    let review = service.asked().remove(0).review;
    assert_eq!(review["apiVersion"], "authorization.k8s.io/v1");
    assert_eq!(review["spec"]["groups"], json!(["group1", "group2", "system:authenticated"]));
    let attributes = &review["spec"]["resourceAttributes"];
    assert_eq!(attributes["verb"], "list");
    assert_eq!(
        attributes["fieldSelector"],
        json!({"requirements": [
            {"key": "spec.nodeName", "operator": "In", "values": ["n1"]},
            {"key": "status.phase", "operator": "NotIn", "values": ["Failed"]},
        ]})
    );
    assert_eq!(
        attributes["labelSelector"],
        json!({"requirements": [
            {"key": "app", "operator": "In", "values": ["a", "b"]},
            {"key": "new", "operator": "Exists"},
            {"key": "old", "operator": "DoesNotExist"},
        ]})
    );
}

#[test]
fn every_answer_has_its_outcome_wh_42() {
    let scratch = Scratch::new();
    // The user's name says what is answered.
    let service = WebhookService::start(scratch.path(), |asked, _| {
        let status = match asked.review["spec"]["user"].as_str().unwrap() {
            "alice" => json!({"allowed": true, "reason": "good <friend>"}),
            "bob" => json!({"allowed": false, "reason": "user does not have read access to the namespace"}),
            "jane" => json!({"allowed": false, "denied": true, "reason": "never"}),
            _ => json!({"allowed": true, "denied": true}),
        };
        Reply::status(asked, &status)
    });
    let server = start(&scratch, &service, &[]);
    assert_eq!(server.get("alice", PODS), 200);
    let refusal = server.message("bob", PODS);
    assert!(refusal.ends_with(": user does not have read access to the namespace"), "{refusal}");
    assert!(server.message("jane", PODS).ends_with(": never"));
    // WH-44
    let (code, body) = server.ask("kubelet", PODS, &[]);
    assert_eq!(code, 500);
    assert!(body.contains("webhook subject access review returned both allow and deny response"), "{body}");
    // The masters are not asked about.
    let before = service.asked().len();
    assert_eq!(server.get("root", PODS), 200);
    assert_eq!(service.asked().len(), before);
}

/// Everything that is not a clear answer.
fn broken(asked: &Asked, how: &str) -> Reply {
    let ours = asked.review["apiVersion"].as_str().unwrap();
    let status = r#""status":{"allowed":true}"#;
    let json = |text: String| Reply::Body(200, "application/json", text);
    let review =
        |fields: &str| json(format!(r#"{{"apiVersion":"{ours}","kind":"SubjectAccessReview",{fields}}}"#));
    match how {
        "empty" => json(String::new()),
        "not JSON" => json("allowed: true".to_owned()),
        "half" => json(format!(r#"{{"apiVersion":"{ours}","kind":"SubjectAccessReview",{status}"#)),
        "two" => json(format!(r#"{{{status}}}{{{status}}}"#)),
        "a list" => json(format!(r#"[{{{status}}}]"#)),
        "a word" => review(r#""status":{"allowed":"true"}"#),
        "a number" => review(r#""status":{"allowed":1}"#),
        "a status that is a list" => review(r#""status":[true]"#),
        "allowed twice" => review(r#""status":{"allowed":false,"allowed":true}"#),
        "a user that is a number" => review(&format!(r#""spec":{{"user":5}},{status}"#)),
        "another version" => json(format!(
            r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview",{status}}}"#
        )),
        "another kind" => {
            json(format!(r#"{{"apiVersion":"{ours}","kind":"SelfSubjectAccessReview",{status}}}"#))
        }
        "a Status" => json(format!(r#"{{"apiVersion":"v1","kind":"Status","allowed":true,{status}}}"#)),
        "too large" => review(&format!(r#"{status},"junk":"{}""#, "x".repeat(2 << 20))),
        "too deep" => review(&format!(r#"{status},"junk":{}{}"#, "[".repeat(5000), "]".repeat(5000))),
        "code 403" => Reply::Body(403, "application/json", format!("{{{status}}}")),
        "code 207" => Reply::Body(207, "application/json", format!("{{{status}}}")),
        "code 302" => Reply::Head(302, "Location: /elsewhere\r\n".to_owned()),
        "code 307" => Reply::Head(307, "Location: //authz.example.com/elsewhere\r\n".to_owned()),
        "code 308" => Reply::Head(308, format!("Location: https://{}/elsewhere\r\n", "127.0.0.1:1")),
        "closed" => Reply::Close,
        other => panic!("{other}"),
    }
}

#[test]
fn whatever_is_not_a_clear_answer_never_allows_wh_20_wh_41() {
    let kinds = [
        "empty",
        "not JSON",
        "half",
        "two",
        "a list",
        "a word",
        "a number",
        "a status that is a list",
        "allowed twice",
        "a user that is a number",
        "another version",
        "another kind",
        "a Status",
        "too large",
        "too deep",
        "code 403",
        "code 207",
        "code 302",
        "code 307",
        "code 308",
        "closed",
    ];
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        // A service that is pointed to would allow.
        if asked.line.contains("/elsewhere") {
            return allow(asked, 0);
        }
        let path = asked.review["spec"]["nonResourceAttributes"]["path"].as_str().unwrap_or_default();
        broken(asked, &path.trim_start_matches('/').replace('_', " "))
    });
    let server = start(&scratch, &service, &[]);
    for kind in kinds {
        // WH-45: an error, and nobody who allows.
        let (code, body) = server.ask("jane", &format!("/{}", kind.replace(' ', "_")), &[]);
        assert_eq!(code, 500, "{kind}: {body}");
        assert!(body.starts_with("Internal Server Error: "), "{kind}: {body}");
    }
    assert!(service.asked().iter().all(|asked| !asked.line.contains("elsewhere")));
    let failed = server.metric("apiserver_authorization_webhook_evaluations_fail_open_total{");
    assert!(failed.ends_with(&format!(" {}", kinds.len())), "{failed}");
}

#[test]
fn an_answer_counts_whatever_its_content_type_wh_20() {
    let scratch = Scratch::new();
    // The path says the type. The recorded cases `text-type` of webhook-authorization and `html` of
    // webhook-authentication: the content decides.
    let service = WebhookService::start(scratch.path(), |asked, _| {
        let path = asked.review["spec"]["nonResourceAttributes"]["path"].as_str().unwrap_or_default();
        let media = match path {
            "/metrics" => "text/plain; charset=utf-8",
            "/livez" => "text/html",
            "/readyz" => "application/octet-stream",
            _ => "",
        };
        let is_allowed = asked.review["spec"]["user"] == "jane";
        let status = json!({"allowed": is_allowed, "denied": !is_allowed, "reason": "I say so"});
        let answer = json!({
            "apiVersion": asked.review["apiVersion"], "kind": "SubjectAccessReview", "status": status,
        });
        Reply::Body(200, media, answer.to_string())
    });
    let kubeconfig = service.kubeconfig();
    let modes = "--authorization-mode=Webhook,AlwaysAllow";
    let flags = [modes, "--authorization-webhook-config-file", text(&kubeconfig)];
    let server = Running::start(&scratch, &flags);
    for path in ["/metrics", "/livez", "/readyz", "/version"] {
        assert_eq!(server.get("jane", path), 200, "{path}");
        // The next authorizer allows everything; only a denial that is heard keeps bob out.
        let refusal = server.message("bob", path);
        assert!(refusal.ends_with(": I say so"), "{path}: {refusal}");
    }
}

#[test]
fn what_is_missing_in_an_answer_is_taken_as_expected_wh_20_wh_21() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        let user = asked.review["spec"]["user"].as_str().unwrap();
        let text = match user {
            "alice" => r#"{"status":{"allowed":true},"more":{"things":[1]}}"#,
            _ => r#"{"metadata":{},"spec":{}}"#,
        };
        Reply::Body(201, "application/json; charset=utf-8", text.to_owned())
    });
    let server = start(&scratch, &service, &[]);
    assert_eq!(server.get("alice", PODS), 200);
    assert_eq!(server.get("bob", PODS), 403);
}

#[test]
fn answers_are_remembered_by_their_kind_wh_50_to_wh_54() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        Reply::status(asked, &json!({"allowed": asked.review["spec"]["user"] == "alice"}))
    });
    let server = start(&scratch, &service, &["--authorization-webhook-cache-unauthorized-ttl=0"]);
    for _ in 0..3 {
        assert_eq!(server.get("alice", PODS), 200);
        assert_eq!(server.get("bob", PODS), 403);
    }
    let by = |user: &str| service.asked().iter().filter(|a| a.review["spec"]["user"] == user).count();
    assert_eq!((by("alice"), by("bob")), (1, 3));
    // Another question is another one.
    assert_eq!(server.get("alice", "/api/v1/namespaces/other/pods"), 200);
    assert_eq!(by("alice"), 2);
}

#[test]
fn an_answer_for_one_user_is_never_given_to_another_wh_51() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, before| {
        Reply::status(asked, &json!({"allowed": before == 0}))
    });
    let server = start(&scratch, &service, &[]);
    assert_eq!(server.get("alice", PODS), 200);
    assert_eq!(server.get("bob", PODS), 403);
    assert_eq!(server.get("alice", PODS), 200);
}

#[test]
fn a_service_that_stumbles_is_asked_again_wh_30_to_wh_32() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, before| match before {
        0 => Reply::Body(500, "text/plain", "oh".to_owned()),
        1 => Reply::Head(503, "Retry-After: 0\r\n".to_owned()),
        2 => Reply::Body(429, "text/plain", String::new()),
        _ => allow(asked, before),
    });
    let server = start(&scratch, &service, &[]);
    assert_eq!(server.get("alice", PODS), 200);
    assert_eq!(service.asked().len(), 4);
}

#[test]
fn a_service_that_only_fails_is_asked_five_times_wh_30() {
    let scratch = Scratch::new();
    let service =
        WebhookService::start(scratch.path(), |_, _| Reply::Body(500, "text/plain", "oh".to_owned()));
    let server = start(&scratch, &service, &[]);
    assert_eq!(server.get("alice", PODS), 500);
    assert_eq!(service.asked().len(), 5);
    // 400 to 403 are not worth another try (WH-31).
    let scratch = Scratch::new();
    let service =
        WebhookService::start(scratch.path(), |_, _| Reply::Body(401, "text/plain", "who?".to_owned()));
    let server = start(&scratch, &service, &[]);
    assert_eq!(server.get("alice", PODS), 500);
    assert_eq!(service.asked().len(), 1);
}

#[test]
fn a_service_that_is_down_leaves_it_to_the_others_wh_41_wh_45() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), allow);
    // Nobody listens there.
    let kubeconfig =
        service.kubeconfig_with("https://127.0.0.1:1/authorize", "certificate-authority: ca.pem");
    let policy = scratch.write("policy.jsonl", POLICY);
    let flags = [
        "--authorization-mode=Webhook,ABAC",
        "--authorization-webhook-config-file",
        text(&kubeconfig),
        "--authorization-policy-file",
        text(&policy),
    ];
    let server = Running::start(&scratch, &flags);
    assert_eq!(server.get("alice", PODS), 200);
    assert_eq!(server.get("jane", PODS), 500);
}

#[test]
fn a_denial_stops_the_chain_and_no_opinion_does_not_wh_43() {
    for (modes, joe) in [("Webhook,AlwaysAllow", 403), ("AlwaysAllow,Webhook", 200)] {
        let scratch = Scratch::new();
        let service = WebhookService::start(scratch.path(), |asked, _| {
            Reply::status(asked, &json!({"allowed": false, "denied": asked.review["spec"]["user"] == "bob"}))
        });
        let kubeconfig = service.kubeconfig();
        let mode = format!("--authorization-mode={modes}");
        let flags = [&mode, "--authorization-webhook-config-file", text(&kubeconfig)];
        let server = Running::start(&scratch, &flags);
        assert_eq!(server.get("bob", PODS), joe, "{modes}");
        assert_eq!(server.get("alice", PODS), 200, "{modes}");
    }
}

#[test]
fn only_a_service_with_the_right_certificate_is_asked_wh_6_wh_8() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), allow);
    let other = WebhookService::start_as(scratch.path(), "selfsigned", allow);
    let at = |service: &WebhookService, fields: &str| {
        service.kubeconfig_with(&format!("https://{}/authorize", service.address()), fields)
    };
    for (kubeconfig, code) in [
        // Of another authority.
        (at(&service, "certificate-authority: selfsigned.pem"), 500),
        // Of the right one, for another name.
        (at(&service, "certificate-authority: ca.pem\n      tls-server-name: other.example.com"), 500),
        (at(&service, "certificate-authority: ca.pem\n      tls-server-name: authz.example.com"), 200),
        (at(&other, "certificate-authority: ca.pem"), 500),
        // Self-signed, and trusted as it is.
        (at(&other, "certificate-authority: selfsigned.pem"), 200),
    ] {
        let scratch = Scratch::new();
        let flags =
            ["--authorization-mode=Webhook", "--authorization-webhook-config-file", text(&kubeconfig)];
        let server = Running::start(&scratch, &flags);
        let (found, body) = server.ask("alice", PODS, &[]);
        assert_eq!(found, code, "{}: {body}", std::fs::read_to_string(&kubeconfig).unwrap());
    }
}

#[test]
fn a_connection_file_that_is_not_safe_or_not_complete_is_refused_wh_2() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), allow);
    let good = std::fs::read_to_string(service.kubeconfig()).unwrap();
    for (from, to, expected) in [
        ("https://127.0.0.1", "http://authz.example.com", "http is not safe"),
        (
            "certificate-authority: ca.pem",
            "insecure-skip-tls-verify: true",
            "insecure-skip-tls-verify is not supported",
        ),
        ("certificate-authority: ca.pem", "certificate-authority: gone.pem", "cannot read"),
        ("certificate-authority: ca.pem", "proxy-url: http://proxy", "proxy-url is not supported"),
        ("client-key: apiserver-key.pem", "client-key: ca-key.pem", "KeyMismatch"),
        ("client-key: apiserver-key.pem", "", "client-certificate without client-key"),
        ("current-context: webhook", "", "no current-context"),
        ("current-context: webhook", "current-context: other", "names no context"),
        (
            "cluster: name-of-remote-authz-service\n    user",
            "cluster: other\n    user",
            "there is no cluster \"other\"",
        ),
        ("clusters:\n", "clusters: [\n", "not valid YAML"),
    ] {
        assert!(good.contains(from), "{from}");
        let path = service.file("changed.yaml");
        std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
        let said = refused(
            &scratch,
            &["--authorization-mode=Webhook", "--authorization-webhook-config-file", text(&path)],
        );
        assert!(said.contains(expected) && said.contains(text(service.file("").as_path())), "{to}: {said}");
    }
}

#[test]
fn reviews_and_writes_of_roles_ask_the_service_too_wh_80_rb_60() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        let attributes = &asked.review["spec"]["resourceAttributes"];
        let is_bob = asked.review["spec"]["user"] == "bob";
        // Bob may do much, but not hand on what he does not hold.
        let allowed = !(is_bob && attributes["verb"] == "escalate");
        Reply::status(asked, &json!({"allowed": allowed, "reason": "said so"}))
    });
    let server = start(&scratch, &service, &[]);
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "someone", "resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    let (code, answer) = server.post("alice", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review);
    assert_eq!((code, &answer["status"]), (201, &json!({"allowed": true, "reason": "said so"})));
    let role = |name: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
        })
    };
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    assert_eq!(server.post("bob", roles, &role("a")).0, 403);
    assert_eq!(server.post("alice", roles, &role("b")).0, 201);
    let escalate = |asked: &Asked| asked.review["spec"]["resourceAttributes"]["verb"] == "escalate";
    assert_eq!(service.asked().iter().filter(|asked| escalate(asked)).count(), 2);
}

#[test]
fn a_slow_service_holds_up_nobody_else_wh_33() {
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| {
        let reply = allow(asked, 0);
        let is_slow = asked.review["spec"]["user"] == "alice";
        if is_slow { Reply::After(Duration::from_secs(3), Box::new(reply)) } else { reply }
    });
    let server = start(&scratch, &service, &[]);
    std::thread::scope(|scope| {
        let slow: Vec<_> = (0..8)
            .map(|at| {
                scope.spawn({
                    let server = &server;
                    move || server.get("alice", &format!("{PODS}/{at}"))
                })
            })
            .collect();
        for at in 0..8 {
            assert_eq!(server.get("bob", &format!("{PODS}/{at}")), 404);
        }
        for asked in slow {
            assert_eq!(asked.join().unwrap(), 404);
        }
    });
}
