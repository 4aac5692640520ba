//! Secrets stay secret: what nobody else may know is in no line of any log, no metric, no refusal and no line of the audit

//! log, whatever is done with it.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex};

use crate::common::{Setup, Started, start_with};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_server::logging;
use serde_json::json;
use tracing_subscriber::EnvFilter;

/// Everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const VALUE: &str = "planted-value-Ci7Ohxoo";
const TEXT: &str = "planted-text-eiP0Aith";
const TOKEN: &str = "planted-token-Oos3ooye";
const UNKNOWN: &str = "planted-unknown-thie4Cah";
const PASSWORD: &str = "planted-password-ahs3Saiv";
const BOOTSTRAP: &str = "plants.f395accd246ae52d";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nplantedkeyaY9eimeiMohw3oof\n-----END PRIVATE KEY-----\n";

const POLICY: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse}]}";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Does with secrets what can be done with them, right and wrong. The bodies of all refusals.
fn use_them(server: &Started) -> Vec<String> {
    let admin = server.admin();
    let jane = server.user("jane", &[]);
    let mut refusals = Vec::new();
    let mut codes = Vec::new();
    let mut ask =
        |who: Option<&crate::common::Identity>, method: &str, path: &str, words: &[&str], body: String| {
            for version in ["--http1.1", "--http2"] {
                let mut curl = server.request(method, path).word(version);
                if let Some(who) = who {
                    curl = curl.by(who);
                }
                for header in words {
                    curl = curl.header(header);
                }
                if !body.is_empty() {
                    curl = curl.body(body.clone());
                }
                let answer = curl.send();
                codes.push(answer.code);
                if answer.code >= 400 {
                    refusals.push(format!("{}\n{}", answer.head, String::from_utf8_lossy(&answer.body)));
                }
            }
        };
    let value = STANDARD.encode(VALUE);
    let json = "Content-Type: application/json";
    let secret = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque",
            "data": {"value": value, "key": STANDARD.encode(KEY)}, "stringData": {"text": TEXT}})
    };
    let one = format!("{SECRETS}/one");
    // Right, and refused because it is there.
    ask(Some(&admin), "POST", SECRETS, &[json], secret("one").to_string());
    ask(Some(&admin), "GET", &one, &[], String::new());
    ask(
        Some(&admin),
        "GET",
        SECRETS,
        &["Accept: application/json;as=Table;v=v1;g=meta.k8s.io"],
        String::new(),
    );
    ask(Some(&jane), "POST", SECRETS, &[json], secret("two").to_string());
    ask(Some(&jane), "GET", &one, &[], String::new());
    // Wrong in every way.
    for broken in [
        secret("Not A Name").to_string(),
        secret("two").to_string().replace("\"Secret\"", "\"ConfigMap\""),
        secret("two").to_string().replace("\"v1\"", "\"v7\""),
        format!("{}{TEXT}", secret("two")),
        secret("two").to_string().replace('}', ""),
        json!({"metadata": {"name": "two"}, "data": TEXT}).to_string(),
        json!({"metadata": {"name": "two"}, "data": [TEXT]}).to_string(),
        json!({"metadata": {"name": "two"}, "data": {"value": TEXT}}).to_string(),
        json!({"metadata": {"name": "two"}, "data": {"value": format!("{value}!")}}).to_string(),
        json!({"metadata": {"name": "two"}, "stringData": {"value": {"nested": TEXT}}}).to_string(),
        json!({"metadata": {"name": "two"}, "stringData": {"a/b": TEXT}}).to_string(),
        json!({"metadata": {"name": "two"}, "type": "kubernetes.io/tls", "data": {"tls.key": value}})
            .to_string(),
        json!({"metadata": {"name": "two"}, "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": TEXT}})
        .to_string(),
    ] {
        ask(Some(&admin), "POST", SECRETS, &[json], broken.clone());
        ask(Some(&admin), "POST", &format!("{SECRETS}?fieldValidation=Strict"), &[json], broken.clone());
        ask(Some(&admin), "POST", SECRETS, &["Content-Type: application/yaml"], broken.clone());
        ask(
            Some(&admin),
            "POST",
            SECRETS,
            &["Content-Type: application/vnd.kubernetes.protobuf"],
            broken.clone(),
        );
        ask(Some(&admin), "POST", SECRETS, &["Content-Type: text/plain"], broken.clone());
        ask(Some(&admin), "PUT", &one, &[json], broken);
    }
    ask(
        Some(&admin),
        "POST",
        SECRETS,
        &["Content-Type: application/yaml"],
        format!("metadata: {{name: two}}\ndata: [\n  {TEXT}: {TEXT}\n {TEXT}"),
    );
    let stale =
        secret("one").to_string().replace("\"name\":\"one\"", "\"name\":\"one\",\"resourceVersion\":\"1\"");
    ask(Some(&admin), "PUT", &one, &[json], stale);
    for (kind, patch) in [
        ("merge-patch", json!({"stringData": {"text": TEXT}}).to_string()),
        ("merge-patch", json!({"data": {"value": TEXT}}).to_string()),
        ("merge-patch", json!({"data": TEXT}).to_string()),
        ("merge-patch", format!("{{\"data\": {TEXT}")),
        ("strategic-merge-patch", json!({"stringData": {"text": TEXT}}).to_string()),
        ("strategic-merge-patch", json!({"data": {"$patch": TEXT}}).to_string()),
        ("strategic-merge-patch", json!({"data": [TEXT]}).to_string()),
        ("json-patch", json!([{"op": "test", "path": "/data/value", "value": TEXT}]).to_string()),
        ("json-patch", json!([{"op": "replace", "path": "/data/value", "value": {"a": TEXT}}]).to_string()),
        ("json-patch", json!([{"op": "replace", "path": "/data/nothing", "value": TEXT}]).to_string()),
        ("json-patch", json!({"op": TEXT}).to_string()),
    ] {
        let content = format!("Content-Type: application/{kind}+json");
        ask(Some(&admin), "PATCH", &one, &[&content], patch.clone());
        ask(Some(&jane), "PATCH", &one, &[&content], patch);
    }
    let bootstrap = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-plants", "namespace": "kube-system"},
        "stringData": {"token-id": "plants", "token-secret": "f395accd246ae52d",
            "usage-bootstrap-authentication": "true"}});
    ask(Some(&admin), "POST", "/api/v1/namespaces/kube-system/secrets", &[json], bootstrap.to_string());
    // Tokens that are known, unknown, and in the wrong place.
    for header in [
        format!("Authorization: Bearer {TOKEN}"),
        format!("Authorization: bearer {UNKNOWN}"),
        format!("Authorization: Bearer {BOOTSTRAP}"),
        format!("Authorization: Basic {}", STANDARD.encode(format!("user:{PASSWORD}"))),
        format!("Authorization: {PASSWORD}"),
        format!("Authorization: Bearer {UNKNOWN} {PASSWORD}"),
        format!("Cookie: session={PASSWORD}"),
        format!("Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.{}", STANDARD.encode(UNKNOWN)),
    ] {
        ask(None, "GET", "/api/v1/namespaces", &[&header], String::new());
        ask(None, "GET", "/nowhere", &[&header], String::new());
        ask(Some(&jane), "GET", "/api/v1/nodes", &[&header], String::new());
        ask(
            Some(&admin),
            "POST",
            SECRETS,
            &[&header, json, "Impersonate-User: nobody"],
            secret("two").to_string(),
        );
    }
    for token in [TOKEN, UNKNOWN, BOOTSTRAP] {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        ask(Some(&admin), "POST", path, &[json], review.to_string());
        ask(Some(&jane), "POST", path, &[json], review.to_string());
        ask(Some(&admin), "POST", path, &[json], review.to_string().replace('}', ""));
    }
    ask(Some(&admin), "DELETE", &one, &[], String::new());
    for expected in [200, 201, 400, 401, 403, 404, 409, 415, 422] {
        assert!(codes.contains(&expected), "{expected}: {codes:?}");
    }
    refusals
}

/// Fails if a planted value is in a text, as it is or in base64.
fn assert_clean(server: &Started, what: &str, text: &str) {
    let mut planted: Vec<String> =
        [VALUE, TEXT, TOKEN, UNKNOWN, PASSWORD, "f395accd246ae52d", "plantedkeyaY9eimeiMohw3oof"]
            .map(str::to_owned)
            .to_vec();
    for key in ["ca.key", "apiserver.key", "admin.key"] {
        let pem = fs::read_to_string(server.dir.join(key)).unwrap();
        planted.extend(pem.lines().filter(|line| !line.starts_with('-')).map(str::to_owned));
    }
    let encoded: Vec<String> = [VALUE, TEXT, TOKEN, UNKNOWN, "user:planted-password-ahs3Saiv", KEY]
        .iter()
        .map(|value| STANDARD.encode(value).trim_end_matches('=').to_owned())
        .collect();
    planted.extend(encoded);
    // A part of it is as bad.
    let parts: Vec<&str> = planted.iter().map(|value| value.get(..value.len().min(20)).unwrap()).collect();
    let told: Vec<&str> = text.lines().filter(|line| parts.iter().any(|part| line.contains(part))).collect();
    assert!(told.is_empty(), "planted values are in {what}:\n{}", told.join("\n"));
}

#[test]
fn secrets_stay_secret() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(logging::filter(u8::MAX)))
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .try_init()
        .unwrap();
    let server = start_with(Setup {
        is_cluster: true,
        audit: Some(POLICY),
        tokens: Some("planted-token-Oos3ooye,jane,7"),
        ..Setup::default()
    });
    let refusals = use_them(&server);
    assert!(refusals.len() > 100);
    assert_clean(&server, "a refusal", &refusals.join("\n"));
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for level in ["DEBUG", "INFO"] {
        assert!(logged.contains(level), "{level} is logged");
    }
    assert!(logged.contains("access") && logged.contains("unauthorized"));
    assert_clean(&server, "the log", &logged);
    assert_clean(&server, "the metrics", &server.app.metrics().render().unwrap());
    let audited = fs::read_to_string(server.dir.join("audit.log")).unwrap();
    assert!(audited.lines().count() > 200);
    assert_clean(&server, "the audit log", &audited);
}
