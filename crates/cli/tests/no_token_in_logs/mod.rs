//! No token that `portcullis serve` receives or issues is in its log, at any level, or in its metrics.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    missing_docs,
    reason = "tests"
)]

use std::fs;
use std::path::Path;

use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use serde_json::{Value, json};

const STATIC: &str = "static-5c7d0f2b91";
const WRONG: &str = "wrong-e19b44a7c3";
const BOOTSTRAP: &str = "abcdef.5c7d0f2b91e19b44";
const STRANGE: &str = "abcdef.e19b44a7c35c7d0f";

struct Asker<'a> {
    data: &'a Path,
    url: String,
}

impl Asker<'_> {
    fn ask(&self, token: Option<&str>, words: &[&str], path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut curl = tool::command("curl");
        curl.args(["-sS", "--max-time", "20", "-w", "\n%{http_code}", "--cacert"])
            .arg(self.data.join("ca.crt"));
        match token {
            Some(token) => curl.args(["-H", &format!("Authorization: Bearer {token}")]),
            None => curl
                .arg("--cert")
                .arg(self.data.join("admin.crt"))
                .arg("--key")
                .arg(self.data.join("admin.key")),
        };
        if let Some(body) = body {
            curl.args(["-H", "Content-Type: application/json", "--data-binary", &body.to_string()]);
        }
        let out = curl.args(words).arg(format!("{}{path}", self.url)).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap();
        let (body, code) = text.rsplit_once('\n').unwrap();
        (code.parse().unwrap(), serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
    }
}

#[test]
fn no_token_is_in_the_log_or_the_metrics() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let users = scratch.path().join("users.csv");
    fs::write(&users, format!("{STATIC},jane,7\n")).unwrap();
    let mut command = program!().serve_command(&data);
    command.env("RUST_LOG", "trace").arg("--token-auth-file").arg(&users);
    let served = Running::start(command);
    let asker = Asker { data: &data, url: served.url() };

    let secret = json!({"kind": "Secret", "apiVersion": "v1", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-abcdef"}, "stringData": {"token-id": "abcdef",
        "token-secret": BOOTSTRAP.split_once('.').unwrap().1, "usage-bootstrap-authentication": "true"}});
    let (code, _) = asker.ask(None, &[], "/api/v1/namespaces/kube-system/secrets", Some(&secret));
    assert_eq!(code, 201);
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, made) = asker.ask(None, &[], path, Some(&json!({"spec": {}})));
    assert_eq!(code, 201);
    let requested = made["status"]["token"].as_str().unwrap().to_owned();
    let (code, made) = asker.ask(None, &[], path, Some(&json!({"spec": {"audiences": ["elsewhere"]}})));
    assert_eq!(code, 201);
    let elsewhere = made["status"]["token"].as_str().unwrap().to_owned();
    // The last letters of a signature do not all count; the first ones do.
    let (message, signature) = requested.rsplit_once('.').unwrap();
    let (first, rest) = signature.split_at(1);
    let other = if first == "A" { "B" } else { "A" };
    let forged = format!("{message}.{other}{rest}");

    for (token, expected) in [
        (STATIC, 200),
        (WRONG, 401),
        (BOOTSTRAP, 200),
        (STRANGE, 401),
        (requested.as_str(), 200),
        (elsewhere.as_str(), 401),
        (forged.as_str(), 401),
    ] {
        for version in ["--http1.1", "--http2"] {
            assert_eq!(asker.ask(Some(token), &[version], "/api", None).0, expected);
        }
        let review = json!({"spec": {"token": token}});
        let (code, reviewed) =
            asker.ask(None, &[], "/apis/authentication.k8s.io/v1/tokenreviews", Some(&review));
        assert_eq!((code, &reviewed["spec"]["token"]), (201, &json!(token)));
        assert!(!reviewed["status"].to_string().contains(token), "the part that is answered");
        assert_eq!(reviewed["status"]["authenticated"].as_bool(), (expected == 200).then_some(true));
    }
    let (code, metrics) = asker.ask(None, &[], "/metrics", None);
    assert_eq!(code, 200);
    let Finished { code, stderr: log, .. } = served.stop();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("unauthorized"), "that much is logged");
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("apiserver_request_total"));
    let last = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    for token in [STATIC, WRONG, BOOTSTRAP, STRANGE, &requested, &elsewhere, &forged] {
        for (text, place) in [(log.as_str(), "log"), (metrics, "metrics")] {
            assert!(
                !text.contains(&last(token)),
                "a token is in the {place}: {}",
                line_with(text, &last(token))
            );
        }
    }
}

fn line_with<'t>(text: &'t str, part: &str) -> &'t str {
    text.lines().find(|line| line.contains(part)).unwrap_or_default()
}
