//! The audit log, as programs read it: one `audit.k8s.io/v1` Event a line.

use std::fs;
use std::path::PathBuf;

use crate::common::{Identity, REVIEW, REVIEWS, Setup, Started, start_with};
use base64::Engine as _;
use portcullis_server::audit::sink::Rotation;
use portcullis_server::audit::{Mode, SinkOptions, WhenFull};
use portcullis_testkit::wait;
use serde_json::{Value, json};

const ALL: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: RequestResponse
";

fn cluster(audit: &'static str) -> Started {
    start_with(Setup { is_cluster: true, audit: Some(audit), ..Setup::default() })
}

/// The events of requests to a path.
fn events(server: &Started, uri: &str) -> Vec<Value> {
    server.audited().into_iter().filter(|event| event["requestURI"] == uri).collect()
}

/// Waits until so many events are there.
fn wait_for(server: &Started, uri: &str, count: usize) -> Vec<Value> {
    wait::until_ok(&format!("{count} events of {uri}"), || {
        let found = events(server, uri);
        if found.len() >= count { Ok(found) } else { Err(found) }
    })
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

#[test]
fn a_write_is_told_when_it_comes_and_when_it_is_answered_ac_124() {
    let server = cluster(ALL);
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let answer = server
        .post(CONFIG_MAPS, body.to_string())
        .header("User-Agent: tester/1.0")
        .header("X-Forwarded-For: 192.0.2.7, nonsense, 2001:db8::1")
        .by(&server.admin())
        .send();
    assert_eq!(answer.code, 201);
    let events = events(&server, CONFIG_MAPS);
    let stages: Vec<&str> = events.iter().map(|e| e["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["RequestReceived", "ResponseComplete"]);
    let (first, last) = (&events[0], &events[1]);
    for event in &events {
        assert_eq!(event["kind"], "Event");
        assert_eq!(event["apiVersion"], "audit.k8s.io/v1");
        assert_eq!(event["level"], "RequestResponse");
        assert_eq!(event["verb"], "create");
        assert_eq!(event["user"]["username"], "kubernetes-admin");
        assert_eq!(event["user"]["groups"], json!(["system:masters", "system:authenticated"]));
        assert_eq!(event["sourceIPs"], json!(["192.0.2.7", "2001:db8::1", "127.0.0.1"]));
        assert_eq!(event["userAgent"], "tester/1.0");
        assert_eq!(event["auditID"], answer.header("audit-id"));
        assert_eq!(event["objectRef"]["resource"], "configmaps");
        assert_eq!(event["objectRef"]["namespace"], "default");
        assert_eq!(event["objectRef"]["apiVersion"], "v1");
    }
    assert!(first.get("responseStatus").is_none() && first.get("annotations").is_none());
    assert_eq!(last["responseStatus"], json!({"metadata": {}, "code": 201}));
    assert_eq!(last["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(last["annotations"]["authorization.k8s.io/reason"], "");
    assert_eq!(last["objectRef"]["name"], "a");
    assert_eq!(last["requestObject"]["data"], json!({"k": "v"}));
    assert_eq!(last["responseObject"], answer.json());
}

#[test]
fn a_refusal_is_told_with_its_reason_and_who_decided() {
    let server = cluster(ALL);
    let jane = server.user("jane", &[]);
    assert_eq!(server.get(SECRETS).by(&jane).send().code, 403);
    let last = events(&server, SECRETS).pop().unwrap();
    assert_eq!(last["responseStatus"]["code"], 403);
    assert_eq!(last["responseStatus"]["reason"], "Forbidden");
    assert_eq!(last["responseStatus"]["status"], "Failure");
    assert_eq!(last["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert!(last["annotations"].get("portcullis.dev/authorizer").is_none());
    // A request that the default policy allows everybody.
    assert_eq!(server.get("/version").by(&jane).send().code, 200);
    let last = events(&server, "/version").pop().unwrap();
    assert!(last.get("objectRef").is_none());
    assert_eq!(last["annotations"]["portcullis.dev/authorizer"], "RBAC");
    let reason = last["annotations"]["authorization.k8s.io/reason"].as_str().unwrap();
    assert!(reason.contains("ClusterRoleBinding \"system:"), "{reason}");
}

/// The keys are those of Kubernetes' admission plugin PodSecurity.
#[test]
fn violations_of_pod_security_standards_are_told() {
    let server = cluster(ALL);
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/audit-version": "v1.7",
    });
    let namespace = json!({"metadata": {"name": "team", "labels": labels}});
    let made = server.post("/api/v1/namespaces", namespace.to_string()).by(&server.admin()).send();
    assert_eq!(made.code, 201, "{}", made.text());
    let path = "/api/v1/namespaces/team/pods";
    let pod = |spec: Value| json!({"metadata": {"generateName": "p"}, "spec": spec}).to_string();
    let audited = "runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)";
    let containers = json!([{"name": "c", "image": "i"}]);
    for (spec, code) in
        [(json!({"containers": containers}), 201), (json!({"containers": containers, "hostPID": true}), 403)]
    {
        let answer = server.post(path, pod(spec)).by(&server.admin()).send();
        assert_eq!(answer.code, code, "{}", answer.text());
        let annotations = events(&server, path).pop().unwrap()["annotations"].clone();
        assert_eq!(annotations["pod-security.kubernetes.io/enforce-policy"], "baseline:latest");
        let told = annotations["pod-security.kubernetes.io/audit-violations"].as_str().unwrap();
        assert!(told.ends_with(audited), "{told}");
        assert!(told.starts_with("would violate PodSecurity \"restricted:v1.7\": "), "{told}");
    }
}

#[test]
fn an_issued_token_is_named_and_not_shown_an_96() {
    let server = cluster(ALL);
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let made = server.post(path, r#"{"spec":{"audiences":["vault"]}}"#).by(&server.admin()).send();
    assert_eq!(made.code, 201, "{}", made.text());
    let token = made.json()["status"]["token"].as_str().unwrap().to_owned();
    let payload =
        base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&payload).unwrap();
    let last = events(&server, path).pop().unwrap();
    let named = &last["annotations"]["authentication.kubernetes.io/issued-credential-id"];
    assert_eq!(named, &json!(format!("JTI={}", claims["jti"].as_str().unwrap())));
    assert!(!last.to_string().contains(&token));
}

#[test]
fn whoever_is_not_known_leaves_one_event_that_says_what_was_tried() {
    let server = cluster(ALL);
    let answer = server.get("/version").header("Authorization: Bearer not-a-token").send();
    assert_eq!(answer.code, 401);
    let events = events(&server, "/version");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["stage"], "ResponseStarted");
    assert_eq!(events[0]["user"], json!({}));
    let status = json!({"metadata": {}, "message": "Authentication failed, attempted: bearer", "code": 401});
    assert_eq!(events[0]["responseStatus"], status);
}

#[test]
fn both_users_of_an_impersonated_request_are_told_ac_2() {
    let server = cluster(ALL);
    let answer = server.get("/version").header("Impersonate-User: jane").by(&server.admin()).send();
    assert_eq!(answer.code, 200);
    let last = events(&server, "/version").pop().unwrap();
    assert_eq!(last["user"]["username"], "kubernetes-admin");
    assert_eq!(last["impersonatedUser"], json!({"username": "jane", "groups": ["system:authenticated"]}));
}

#[test]
fn the_verb_of_constrained_impersonation_is_told_an_151() {
    let server = cluster(ALL);
    let constraint = |user: &str, by: &Identity, path: &str| {
        let answer = server.get(path).header(&format!("Impersonate-User: {user}")).by(by).send();
        assert_eq!(answer.code, 200, "{}", answer.text());
        events(&server, path).pop().unwrap()["authenticationMetadata"].clone()
    };
    let admin = server.admin();
    assert_eq!(
        constraint("jane", &admin, "/api"),
        json!({"impersonationConstraint": "impersonate:user-info"})
    );
    let node = constraint("system:node:n1", &admin, "/apis");
    assert_eq!(node, json!({"impersonationConstraint": "impersonate:arbitrary-node"}));
    // The legacy verb is no constraint.
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["jane"]}]);
    let role = json!({"metadata": {"name": "as-jane"}, "rules": rules});
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"});
    let binding = json!({"metadata": {"name": "as-jane"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "as-jane"}});
    for (kind, body) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let made = server.post(&format!("{rbac}/{kind}"), body.to_string()).by(&admin).send();
        assert_eq!(made.code, 201, "{}", made.text());
    }
    assert_eq!(constraint("jane", &server.user("eve", &[]), "/version"), Value::Null);
}

#[test]
fn kept_tokens_are_told_with_their_secret_an_73_an_77_an_78() {
    let server = cluster(ALL);
    let admin = server.admin();
    let account = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(server.post(account, r#"{"metadata":{"name":"bot"}}"#).by(&admin).send().code, 201);
    let of_bot = r#"{"kubernetes.io/service-account.name":"bot"}"#;
    let body = format!(
        r#"{{"metadata":{{"name":"tok","annotations":{of_bot}}},"type":"kubernetes.io/service-account-token"}}"#
    );
    assert_eq!(server.post(SECRETS, body).by(&admin).send().code, 201);
    let path = format!("{SECRETS}/tok");
    let token = wait::until_some("the token", || {
        let found = server.get(&path).by(&admin).send().json();
        let token = found["data"]["token"].as_str()?.to_owned();
        Some(String::from_utf8(base64::engine::general_purpose::STANDARD.decode(token).unwrap()).unwrap())
    });
    let told = |uri: &str, code: u16| {
        let answer = server.get(uri).header(&format!("Authorization: Bearer {token}")).send();
        assert_eq!(answer.code, code, "{}", answer.text());
        events(&server, uri).pop().unwrap()["annotations"].clone()
    };
    let annotations = told("/version", 200);
    assert_eq!(annotations["authentication.k8s.io/legacy-token"], "system:serviceaccount:default:bot");
    assert_eq!(annotations["authentication.k8s.io/legacy-token-manual-secret"], "tok");
    let patch = |path: &str, body: &str| {
        let request = server.request("PATCH", path).by(&admin);
        let answer = request.header("Content-Type: application/merge-patch+json").body(body).send();
        assert_eq!(answer.code, 200, "{}", answer.text());
    };
    patch(&format!("{account}/bot"), r#"{"secrets":[{"name":"tok"}]}"#);
    let annotations = told("/apis", 200);
    assert_eq!(annotations["authentication.k8s.io/legacy-token-autogenerated-secret"], "tok");
    // The text of kube-apiserver, which kubectl shows. A refused token has none.
    let warned = |uri: &str| {
        let answer = server.get(uri).header(&format!("Authorization: Bearer {token}")).send();
        answer.header("warning").to_owned()
    };
    let text = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated \
                secret-based tokens.";
    assert_eq!(warned("/version"), format!(r#"299 - "{text}""#).to_lowercase());
    let label = r#"{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":"2020-01-01"}}}"#;
    patch(&path, label);
    assert_eq!(warned("/api"), "");
    let annotations = told("/api", 401);
    assert_eq!(annotations["authentication.k8s.io/legacy-token-invalidated"], "tok/default");
}

#[test]
fn a_watch_is_told_when_it_starts_and_when_it_ends() {
    let server = cluster(ALL);
    let uri = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1";
    assert_eq!(server.get(uri).by(&server.admin()).send().code, 200);
    let events = wait_for(&server, uri, 3);
    let stages: Vec<&str> = events.iter().map(|e| e["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
    assert_eq!(events[2]["responseStatus"]["code"], 200);
    assert!(events[2].get("responseObject").is_none());
}

#[test]
fn a_client_names_its_request_if_the_name_is_plain() {
    let server = cluster(ALL);
    let ask = |header: &str| server.get("/livez").header(header).send().header("audit-id").to_owned();
    assert_eq!(ask("Audit-ID: my-own.id"), "my-own.id");
    assert_eq!(events(&server, "/livez").pop().unwrap()["auditID"], "my-own.id");
    let long = format!("Audit-ID: {}", "x".repeat(65));
    let made = ask(&long);
    assert_eq!(made.len(), 36, "{made}");
    assert_ne!(made, ask("Accept: */*"));
}

#[test]
fn bodies_of_secrets_are_told_only_by_a_rule_that_names_them() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "planted"}});
    let tell = |policy| {
        let server = cluster(policy);
        let admin = server.admin();
        assert_eq!(server.post(SECRETS, secret.to_string()).by(&admin).send().code, 201);
        assert_eq!(server.get(SECRETS).by(&admin).send().code, 200);
        let lines = server.audited();
        assert!(lines.iter().filter(|e| e["objectRef"]["resource"] == "secrets").count() >= 4);
        lines
    };
    for policy in [
        ALL,
        "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse, resources: [{group: ''}]}]}",
        "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse, resources: [{group: '', resources: ['*']}]}]}",
    ] {
        for event in tell(policy).iter().filter(|e| e["objectRef"]["resource"] == "secrets") {
            assert_eq!(event["level"], "Metadata");
            assert!(event.get("requestObject").is_none() && event.get("responseObject").is_none());
        }
    }
    let named = tell(
        "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse, resources: [{group: '', resources: [secrets]}]}]}",
    );
    assert!(named.iter().any(|e| e["requestObject"]["data"]["k"] == "cGxhbnRlZA=="));
    assert!(named.iter().any(|e| e["responseObject"]["kind"] == "SecretList"));
}

#[test]
fn managed_fields_and_stages_can_be_left_out() {
    let server = cluster(
        "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: RequestResponse
  verbs: [update]
  omitManagedFields: false
- level: RequestResponse
  omitStages: [ResponseStarted]
",
    );
    let admin = server.admin();
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": [
        {"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {}}]}});
    assert_eq!(server.post(CONFIG_MAPS, body.to_string()).by(&admin).send().code, 201);
    let events = events(&server, CONFIG_MAPS);
    assert_eq!(events.len(), 1);
    assert!(events[0]["requestObject"]["metadata"].get("managedFields").is_none());
    let one = "/api/v1/namespaces/default/configmaps/a";
    let put = server.request("PUT", one).header("Content-Type: application/json");
    assert_eq!(put.body(body.to_string()).by(&admin).send().code, 200);
    let last = self::events(&server, one).pop().unwrap();
    assert_eq!(last["requestObject"]["metadata"]["managedFields"][0]["manager"], "m");
}

#[test]
fn a_node_that_only_rbac_allows_is_told_as_denied() {
    let server = cluster(ALL);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "all-nodes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(server.post(bindings, binding.to_string()).by(&server.admin()).send().code, 201);
    let mut node = server.kubelet("n0");
    let secret = "/api/v1/namespaces/default/secrets/of-another";
    node.must(404, "GET", secret, None);
    let last = events(&server, secret).pop().unwrap();
    assert_eq!(last["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(last["annotations"]["portcullis.dev/authorizer"], "RBAC");
    let reason = last["annotations"]["portcullis.dev/node-deny"].as_str().unwrap();
    assert!(reason.contains("no relationship found"), "{reason}");
    // A request that the node may make is no denial.
    let own = "/api/v1/nodes/n0";
    node.must(404, "GET", own, None);
    let last = events(&server, own).pop().unwrap();
    assert_eq!(last["annotations"]["portcullis.dev/authorizer"], "Node");
    assert!(last["annotations"].get("portcullis.dev/node-deny").is_none());
}

fn full_disk(mode: Mode) -> Started {
    let audit_sink = SinkOptions {
        name: "audit log",
        path: Some(PathBuf::from("/dev/full")),
        mode,
        when_full: WhenFull::Drop,
        rotation: Rotation::default(),
    };
    start_with(Setup { audit: Some(ALL), audit_sink, ..Setup::default() })
}

#[test]
fn a_log_that_may_lose_events_stops_requests_only_in_strict_mode() {
    let admin = |server: &Started| server.admin();
    for mode in [Mode::Batch, Mode::Blocking] {
        let server = full_disk(mode);
        assert_eq!(server.post(REVIEWS, REVIEW).by(&admin(&server)).send().code, 201);
        server.wait_for_metric(r#"apiserver_audit_error_total{plugin="log"} 2"#);
    }
    let server = full_disk(Mode::BlockingStrict);
    let answer = server.post(REVIEWS, REVIEW).by(&admin(&server)).send();
    answer.assert_status(500, "InternalError");
}

#[test]
fn a_full_file_is_put_aside_and_what_is_too_many_is_removed() {
    let rotation = Rotation { max_bytes: 4000, max_files: 2, compress: true, ..Rotation::default() };
    let audit_sink = SinkOptions {
        name: "audit log",
        path: None,
        mode: Mode::Blocking,
        when_full: WhenFull::Wait,
        rotation,
    };
    let server = start_with(Setup { audit: Some(ALL), audit_sink, ..Setup::default() });
    let paths: Vec<String> = (0..40).map(|i| format!("/livez?n={i}")).collect();
    assert!(server.codes("GET", &paths, None).iter().all(|code| *code == 200));
    let log = fs::metadata(server.dir.join("audit.log")).unwrap();
    assert!((1..=4000).contains(&log.len()), "{}", log.len());
    let aside = wait::until_ok("two compressed files", || {
        let names: Vec<String> = fs::read_dir(&server.dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("audit-"))
            .collect();
        let is_done = names.len() == 2 && names.iter().all(|name| name.ends_with(".log.gz"));
        if is_done { Ok(names) } else { Err(names) }
    });
    for name in aside {
        use std::os::unix::fs::PermissionsExt;
        let path = server.dir.join(name);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let out = std::process::Command::new("gzip").args(["-dc"]).arg(&path).output().unwrap();
        assert!(out.status.success());
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.lines().count() > 1);
        for line in text.lines() {
            assert_eq!(serde_json::from_str::<Value>(line).unwrap()["kind"], "Event");
        }
    }
}
