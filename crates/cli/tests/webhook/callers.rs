//! Authentication of callers (BC-2), and the paths that are served.

use std::fs;

use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::wait::until;
use serde_json::{Value, json};

use crate::webhook::support::{Webhook, ask, command};

const STATE: &str = "webhook-authorization/state.json";

fn review() -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "nobody", "nonResourceAttributes": {"path": "/nowhere", "verb": "get"}},
    })
}

#[test]
fn callers_prove_themselves_by_certificate_or_token_bc_2() {
    let scratch = Scratch::new();
    let tokens = scratch.write("tokens", "first\nsecond\n");
    // Made with the certificates.
    drop(command(&scratch.path().join("webhook"), &[]));
    let authority = scratch.path().join("webhook/ca.pem");
    let webhook = Webhook::over(
        &scratch,
        STATE,
        &[
            "--client-ca-file",
            authority.to_str().unwrap(),
            "--allowed-names",
            "kube-apiserver,apiserver",
            "--caller-token-file",
            tokens.to_str().unwrap(),
        ],
    );
    for (mut client, expected) in [
        (webhook.apiserver(), 200),
        (webhook.with_token("first"), 200),
        (webhook.with_token("second"), 200),
        (webhook.with_token("third"), 401),
        (webhook.client(), 401),
    ] {
        for (method, path) in [("POST", "/authorize"), ("GET", "/metrics"), ("GET", "/configz")] {
            let body = review();
            let answer = client.ask(method, path, (method == "POST").then_some(&body)).unwrap();
            assert_eq!(answer.code, expected, "{method} {path}: {}", answer.text());
        }
        // Kubelets and load balancers have no credentials.
        for path in ["/livez", "/readyz", "/healthz"] {
            assert_eq!(client.ask("GET", path, None).unwrap().code, 200, "{path}");
        }
    }
    // A token that is taken out of the file ends at once.
    fs::write(&tokens, "second\n").unwrap();
    until("the first token has ended", || {
        webhook.with_token("first").ask("POST", "/authorize", Some(&review())).unwrap().code == 401
    });
    assert_eq!(webhook.with_token("second").ask("POST", "/authorize", Some(&review())).unwrap().code, 200);
}

#[test]
fn a_certificate_with_another_name_is_refused_bc_2() {
    let scratch = Scratch::new();
    drop(command(&scratch.path().join("webhook"), &[]));
    let authority = scratch.path().join("webhook/ca.pem");
    let authority = authority.to_str().unwrap();
    let webhook =
        Webhook::over(&scratch, STATE, &["--client-ca-file", authority, "--allowed-names", "kube-apiserver"]);
    let mut client = webhook.apiserver();
    let answer = client.ask("POST", "/authorize", Some(&review())).unwrap();
    answer.assert_status(401, "Unauthorized");
    let finished = Finished::of(&mut command(&scratch.path().join("webhook"), &["--allowed-names", "a"]));
    assert_eq!(finished.code, 2, "{finished:#?}");
    assert!(finished.stderr.contains("--client-ca-file"), "{finished:#?}");
}

#[test]
fn paths_and_methods_are_those_that_are_served_bc_1() {
    let scratch = Scratch::new();
    let webhook = Webhook::over(&scratch, STATE, &[]);
    let mut client = webhook.client();
    for (method, path, code) in [
        ("GET", "/authorize", 405),
        ("PUT", "/admit", 405),
        ("POST", "/readyz", 405),
        ("GET", "/", 404),
        ("GET", "/authorize/", 404),
        ("POST", "/Authorize", 404),
        ("HEAD", "/livez", 200),
    ] {
        assert_eq!(client.ask(method, path, None).unwrap().code, code, "{method} {path}");
    }
    let configz = client.must(200, "GET", "/configz", None);
    assert_eq!(configz["portcullis.dev/webhook"]["authorizationModes"], json!(["Node", "RBAC"]));
    ask(&mut client, "/authorize", &review());
    let line = webhook.metric("portcullis_webhook_requests_total{endpoint=\"authorize\",code=\"200\"}");
    assert!(line.ends_with(" 1"), "{line}");
}

#[test]
fn modes_that_decide_without_looking_are_refused() {
    let scratch = Scratch::new();
    for mode in ["AlwaysAllow", "AlwaysDeny", "Webhook", "Node,AlwaysAllow"] {
        let folder = scratch.path().join("webhook");
        let finished = Finished::of(&mut command(&folder, &["--authorization-mode", mode, "--state", "."]));
        assert_eq!(finished.code, 2, "{finished:#?}");
        assert!(
            finished.stderr.contains("a webhook has the modes Deny, Node, RBAC and ABAC"),
            "{finished:#?}"
        );
    }
}
