//! Running a guard: log, metrics, limits, flags.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use portcullis_testkit::https::Client;
use portcullis_testkit::metrics::{assert_documented, value};
use portcullis_testkit::tool::{self, Finished, certificate_end};
use portcullis_testkit::upgrade::{self, Protocol};
use portcullis_testkit::wait::until;
use serde_json::Value;

use crate::guard::support::{self, Guarded};

/// A plain HTTP GET.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: guard\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// Has a guard tell its figures wherever there is room.
const FIGURES: [&str; 2] = ["--metrics-bind-address", "127.0.0.1:0"];

#[test]
fn every_request_is_in_the_access_log_and_no_credential_is() {
    let guarded = Guarded::start(&[]);
    let log = guarded.scratch.path().join("access.log");
    let guard = guarded.another(&["--access-log-path", log.to_str().unwrap()]);
    guarded.grant("jane", "get", "nodes/pods");
    guarded.grant("joe", "*", "nodes/proxy");
    let mut jane = Client::new(guard.address, &guarded.user("jane"));
    for (path, code) in [("/pods?secret=sesame", 200), ("/configz", 403), ("/nosuch", 404), ("/logs", 307)] {
        assert_eq!(jane.ask("GET", path, None).unwrap().code, code);
    }
    let mut wrong = Client::new(guard.address, &guarded.nobody()).header("Authorization: Bearer sesame");
    assert_eq!(wrong.ask("GET", "/pods", None).unwrap().code, 401);
    let joe = guarded.user("joe");
    let path = "/exec/ns/p/c?command=cat&input=1&output=1&mode=echo";
    let spdy = Protocol::Spdy(&["v4.channel.k8s.io"]);
    let (_, stream) = upgrade::open(guard.address, &joe, "POST", path, &[], spdy).unwrap();
    (&stream).write_all(b"hello").unwrap();
    stream.close_write().unwrap();
    (&stream).read_to_end(&mut Vec::new()).unwrap();
    let text = || fs::read_to_string(&log).unwrap();
    until("everything is written", || text().lines().count() == 7);
    assert!(!text().contains("sesame") && !text().contains("-token"), "{}", text());
    let lines: Vec<Value> = text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| -> Vec<String> {
        lines
            .iter()
            .map(|line| line[name].as_str().map_or_else(|| line[name].to_string(), str::to_owned))
            .collect()
    };
    assert_eq!(
        of("decision"),
        ["allowed", "denied", "not-found", "redirected", "unauthenticated", "allowed", "allowed"]
    );
    assert_eq!(of("code"), ["200", "403", "404", "307", "401", "101", "101"]);
    assert_eq!(of("user"), ["jane", "jane", "", "", "", "joe", "joe"]);
    assert_eq!(of("rule"), ["KA-54", "KA-54", "KA-7", "KA-8", "KA-48", "KA-54", "KA-54"]);
    assert_eq!(of("path")[0], "/pods");
    assert_eq!(of("endpoint")[5], "/exec");
    assert_eq!((&*of("subresource")[0], &*of("verb")[0], &*of("by")[0]), ("pods", "get", "Webhook"));
    assert_eq!(lines[1]["tried"], serde_json::json!(["configz", "proxy"]));
    assert_eq!(of("event")[6], "closed");
    assert_eq!((lines[6]["sentBytes"].as_u64(), lines[6]["receivedBytes"].as_u64()), (Some(5), Some(5)));
}

#[test]
fn health_and_figures_are_told_and_no_label_is_a_callers_to_choose() {
    let guarded = Guarded::start(&[]);
    let guard = guarded.another(&FIGURES);
    let metrics = guard.figures();
    guarded.grant("jane", "get", "nodes/pods");
    let mut jane = Client::new(guard.address, &guarded.user("jane"));
    assert_eq!(jane.ask("GET", "/pods", None).unwrap().code, 200);
    assert_eq!(get(metrics, "/healthz"), (200, "ok".to_owned()));
    assert_eq!(get(metrics, "/readyz").0, 200);
    // NC-10
    for path in ["/debug/pprof/", "/pods", "/healthz/log", "/configz"] {
        assert_eq!(get(metrics, path).0, 404, "{path}");
    }
    let labels = |text: &str| -> BTreeSet<String> {
        let names = text.lines().filter(|line| line.starts_with("portcullis_guard_requests_total"));
        names.map(|line| line.split_once('}').unwrap().0.to_owned()).collect()
    };
    // NC-11
    let mut nobody = Client::new(guard.address, &guarded.nobody());
    for (path, method) in [("/nosuch", "GET"), ("/healthz", "GET"), ("/pods/x", "GET")] {
        nobody.ask(method, path, None).unwrap();
    }
    let (_, text) = get(metrics, "/metrics");
    let before = labels(&text);
    for at in 0..2_000 {
        let (method, path) = match at % 4 {
            0 => ("GET", format!("/nosuch-{at}")),
            1 => ("GET", format!("/pods/{at}")),
            2 => ("GET", format!("/healthz/{at}")),
            _ => ("GET", "/healthz".to_owned()),
        };
        nobody.ask(method, &path, None).unwrap();
        if at % 100 == 0 {
            nobody.ask(&format!("METHOD{at}"), "/pods/x", None).unwrap();
        }
    }
    let (_, text) = get(metrics, "/metrics");
    assert_eq!(labels(&text), before);
    assert_documented(&["guard"], &text);
    let end = certificate_end(&guarded.scratch.path().join("kubelet/kubelet.pem"));
    let end: jiff::Timestamp = end.parse().unwrap();
    let exported = value(&text, "portcullis_guard_serving_certificate_expiration_timestamp_seconds");
    assert_eq!(exported, end.as_second() as f64);
    assert!(
        text.contains("kubernetes_feature_enabled{name=\"KubeletFineGrainedAuthz\",stage=\"\"} 1"),
        "{text}"
    );
    for name in [
        "apiserver_delegated_authn_request_total{code=\"201\"}",
        "apiserver_delegated_authz_request_total{code=\"201\"}",
        "portcullis_guard_request_duration_seconds_bucket",
        "process_resident_memory_bytes",
        "portcullis_guard_connections",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let older =
        guarded.another(&[FIGURES[0], FIGURES[1], "--feature-gates", "KubeletFineGrainedAuthz=false"]);
    let off = older.figures();
    let (_, text) = get(off, "/metrics");
    assert!(
        text.contains("kubernetes_feature_enabled{name=\"KubeletFineGrainedAuthz\",stage=\"\"} 0"),
        "{text}"
    );
}

/// KA-57, KA-60, K22: answers are remembered, and with mode RBAC nothing is asked about what roles allow.
#[test]
fn what_roles_allow_costs_no_review_and_what_they_no_longer_allow_is_refused_at_once() {
    let guarded = Guarded::start(&[]);
    let guard = guarded.another(&[
        FIGURES[0],
        FIGURES[1],
        "--authorization-mode",
        "RBAC,Webhook",
        "--authorization-webhook-cache-authorized-ttl",
        "0s",
    ]);
    let metrics = guard.figures();
    let reviews = || {
        let (_, text) = get(metrics, "/metrics");
        let lines = text.lines().filter(|line| line.starts_with("apiserver_delegated_authz_request_total"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    guarded.grant("jane", "get", "nodes/pods");
    let mut jane = Client::new(guard.address, &guarded.user("jane"));
    // No yes is kept: one that costs no review comes from the roles.
    until("the grant counts", || {
        let before = reviews();
        jane.ask("GET", "/pods", None).unwrap().code == 200 && reviews() == before
    });
    let before = reviews();
    for _ in 0..50 {
        assert_eq!(jane.ask("GET", "/runningpods/", None).unwrap().code, 200);
    }
    assert_eq!(reviews(), before);
    // With roles alone, what is taken away is gone when the watch has told so: no answer is remembered.
    let strict = guarded.another(&["--authorization-mode", "RBAC"]);
    let mut jane = Client::new(strict.address, &guarded.user("jane"));
    until("roles are known", || jane.ask("GET", "/pods", None).unwrap().code == 200);
    guarded.revoke("jane", "get", "nodes/pods");
    until("the grant is gone", || jane.ask("GET", "/pods", None).unwrap().code == 403);
}

/// Where roles may not be followed they decide nothing, in whatever order: the API server does, or nobody (KA-54).
#[test]
fn roles_that_are_not_known_allow_nothing_and_keep_nobody_from_deciding() {
    let guarded = Guarded::start(&[]);
    let role = serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reviews"},
        "rules": [
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        ],
    });
    guarded.admin(201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", Some(&role));
    guarded.bind("reviews", "User", "nobody", "reviews");
    guarded.grant("jane", "get", "nodes/pods");
    let kubeconfig = guarded.scratch.path().join("nobody.kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://{}', certificate-authority: '{}'}}}}]\n\
         users: [{{name: u, user: {{token: nobody-token}}}}]\n",
        guarded.api,
        guarded.data().join("ca.crt").display(),
    );
    fs::write(&kubeconfig, text).unwrap();
    for (modes, allowed, refused) in
        [("RBAC,Webhook", 200, 403), ("Webhook,RBAC", 200, 403), ("RBAC", 500, 500)]
    {
        let flags = ["--authorization-mode", modes];
        let command = support::command(&guarded.scratch, &kubeconfig, guarded.kubelet.address(), &flags);
        let guard = support::run(command);
        let code =
            |user| Client::new(guard.address, &guarded.user(user)).ask("GET", "/pods", None).unwrap().code;
        assert_eq!((code("jane"), code("joe")), (allowed, refused), "{modes}");
    }
}

#[test]
fn a_user_who_asks_too_often_is_told_to_wait_and_others_are_not() {
    let guarded = Guarded::start(&["--user-qps", "0.01", "--user-burst", "3"]);
    guarded.grant("jane", "get", "nodes/pods");
    guarded.grant("joe", "get", "nodes/pods");
    let mut jane = guarded.client("jane");
    let codes: Vec<u16> = (0..5).map(|_| jane.ask("GET", "/pods", None).unwrap().code).collect();
    assert_eq!(codes, [200, 200, 200, 429, 429]);
    assert_eq!(guarded.code("joe", "GET", "/pods"), 200);
    assert_eq!(guarded.kubelet.requests().len(), 4);
}

#[test]
fn curl_gets_its_answers_over_http_2_and_http_1() {
    let guarded = Guarded::start(&[]);
    guarded.grant("jane", "get", "nodes/pods");
    for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let mut curl = tool::command("curl");
        curl.args(["--silent", "--show-error", flag, "--cacert"])
            .arg(guarded.kubelet.authority())
            .args(["--header", "Authorization: Bearer jane-token"])
            .args(["--write-out", "\n%{http_version} %{http_code}"])
            .arg(format!("https://{}/pods", guarded.guard.address));
        let Finished { stdout, stderr, .. } = Finished::of(&mut curl);
        let (body, figures) = stdout.rsplit_once('\n').unwrap();
        assert_eq!(figures, format!("{version} 200"), "{stderr}");
        let list: Value = serde_json::from_str(body).unwrap();
        assert_eq!(list["kind"], "PodList");
    }
}

/// Every mistake in flags is told with the flag, and ends with exit code 2 before anything is served.
#[test]
fn flags_that_cannot_be_used_are_told_by_name() {
    let guarded = Guarded::start(&[]);
    let kubeconfig = guarded.data().join("admin.kubeconfig");
    for (flags, words) in [
        (&["--authorization-mode", "RBAC,RBAC"][..], &["--authorization-mode", "twice"][..]),
        (&["--authorization-mode", "Node"], &["--authorization-mode", "Webhook"]),
        (&["--feature-gates", "Other=true"], &["--feature-gates", "KubeletFineGrainedAuthz"]),
        (&["--user-qps=-1"], &["--user-qps", "below 0"]),
        (&["--kubelet-server-name", "no name"], &["no name", "--kubelet-server-name"]),
    ] {
        let mut command = support::command(&guarded.scratch, &kubeconfig, guarded.kubelet.address(), flags);
        let Finished { code, stdout, stderr } = Finished::of(&mut command);
        assert_eq!((code, &*stdout), (2, ""), "{flags:?}: {stderr}");
        assert!(words.iter().all(|word| stderr.contains(word)), "{flags:?}: {stderr}");
    }
    let missing = scratch_without_key(&guarded);
    assert_eq!(missing.code, 2);
    assert!(
        missing.stderr.contains("guard-key.pem") && missing.stderr.contains("--kubelet-client-key"),
        "{}",
        missing.stderr
    );
}

fn scratch_without_key(guarded: &Guarded) -> Finished {
    fs::remove_file(guarded.scratch.path().join("kubelet/guard-key.pem")).unwrap();
    let kubeconfig = guarded.data().join("admin.kubeconfig");
    let mut command = support::command(&guarded.scratch, &kubeconfig, guarded.kubelet.address(), &[]);
    Finished::of(&mut command)
}
