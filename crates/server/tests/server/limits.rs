//! The server under too much load, at its shutdown, and when its files change.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use crate::common::{Identity, REVIEW, REVIEWS, STARTED, Setup, Started, Tls, scratch, start, start_with};
use portcullis_pki::ca::Usage;
use portcullis_server::bootstrap::Bootstrap;
use portcullis_server::http::limits::Limits;
use portcullis_server::http::serving_certificate::ServingCertificate;
use portcullis_testkit::metrics::assert_documented;
use portcullis_testkit::tool::{self, Finished};

const SELF: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const SELF_REVIEW: &str = r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"nonResourceAttributes":{"verb":"get","path":"/livez"}}}"#;

/// Half of a review; the rest of it is returned.
fn begin_review(tls: &mut Tls) -> &'static str {
    let (head, tail) = REVIEW.split_at(20);
    let length = REVIEW.len();
    let request = format!("POST {REVIEWS} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{head}");
    tls.send(request.as_bytes());
    tail
}

/// A user who may do everything, but is no administrator: requests of administrators are not limited.
fn operator(server: &Started) -> Identity {
    let binding = serde_json::json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(server.post(bindings, binding.to_string()).by(&server.admin()).send().code, 201);
    server.user("operator", &[])
}

#[test]
fn requests_beyond_the_limit_are_told_to_come_back_and_writes_go_on() {
    let limits = Limits { read_only_in_flight: 1, shutdown: Duration::from_secs(1), ..Limits::default() };
    let server = start_with(Setup { limits, is_cluster: true, ..Setup::default() });
    let operator = operator(&server);
    let metric = |name: &str, count: usize| {
        server.wait_for_metric(&format!(
            r#"apiserver_current_{name}_requests{{request_kind="readOnly"}} {count}"#
        ));
    };
    // A list from the future waits for three seconds.
    let waiting = || {
        let mut tls = server.open_tls_as(&operator, "http/1.1");
        tls.send(b"GET /api/v1/namespaces?resourceVersion=1000000 HTTP/1.1\r\nHost: x\r\n\r\n");
        tls
    };
    let first = waiting();
    metric("inflight", 1);
    let second = waiting();
    metric("inqueue", 1);
    let refused = server.get("/api/v1/namespaces").by(&operator).send();
    assert_eq!(refused.code, 429);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.text(), "Too many requests, please try again later.\n");
    // Somebody else waits for one request of the operator, not for all of them. Writes have seats of their own, and
    // administrators need none.
    assert_eq!(server.get("/version").by(&server.user("jane", &[])).send().code, 200);
    assert_eq!(server.post(SELF, SELF_REVIEW).by(&operator).send().code, 201);
    assert_eq!(server.get("/api/v1/namespaces").by(&server.admin()).send().code, 200);
    first.cut();
    second.cut();
    metric("inflight", 0);
    metric("inqueue", 0);
    let metrics = server.app.metrics().render().unwrap();
    assert_documented(&["serve"], &metrics);
    assert!(
        metrics.lines().any(|line| line.starts_with("apiserver_request_terminations_total{verb=\"LIST\"")
            && line.contains("code=\"429\"")
            && line.ends_with("} 1")),
        "{metrics}"
    );
}

#[test]
fn unfinished_bodies_keep_nobody_waiting() {
    let limits = Limits { mutating_in_flight: 1, shutdown: Duration::from_secs(1), ..Limits::default() };
    let server = start_with(Setup { limits, ..Setup::default() });
    let jane = server.user("jane", &[]);
    let length = REVIEW.len();
    let unfinished: Vec<Tls> = (0..50)
        .map(|_| {
            let mut tls = server.open_tls_as(&jane, "http/1.1");
            tls.send(
                format!("POST {SELF} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{{").as_bytes(),
            );
            tls
        })
        .collect();
    for user in [&jane, &server.user("joe", &[])] {
        assert_eq!(server.post(SELF, SELF_REVIEW).by(user).send().code, 201);
    }
    unfinished.into_iter().for_each(Tls::cut);
}

#[test]
fn watches_and_health_checks_are_answered_when_all_places_are_taken() {
    let limits = Limits {
        mutating_in_flight: 1,
        read_only_in_flight: 1,
        shutdown: Duration::from_secs(1),
        ..Limits::default()
    };
    let server = start_with(Setup { limits, is_cluster: true, ..Setup::default() });
    // Two watches, neither of which counts.
    let uri = "/api/v1/namespaces?watch=true&timeoutSeconds=600";
    let watch = || {
        let mut tls = server.open_tls();
        tls.send(format!("GET {uri} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        tls
    };
    let (first, second) = (watch(), watch());
    let line = r#"apiserver_longrunning_requests{verb="WATCH",group="",version="v1",resource="namespaces",subresource="",scope="cluster",component="apiserver"} 2"#;
    server.wait_for_metric(line);
    assert_eq!(server.get("/version").send().code, 200);
    assert_eq!(server.get("/readyz").send().text(), "ok");
    first.cut();
    second.cut();
    server.wait_for_metric(&line.replace("} 2", "} 0"));
}

#[test]
fn a_request_that_takes_too_long_is_given_up() {
    let limits = Limits { request: Duration::from_millis(200), ..Limits::default() };
    let server = start_with(Setup { limits, ..Setup::default() });
    let mut tls = server.open_tls();
    begin_review(&mut tls);
    let text = tls.rest();
    assert!(text.starts_with("HTTP/1.1 504"), "{text}");
    assert!(text.contains(r#""reason":"Timeout""#), "{text}");
}

#[test]
fn a_server_that_is_about_to_stop_is_not_ready_and_serves_on() {
    let server = start();
    assert_eq!(server.get("/readyz/shutdown").by(&server.admin()).send().text(), "ok");
    server.app.begin_shutdown();
    let answer = server.get("/readyz").send();
    assert_eq!(
        (answer.code, answer.text()),
        (500, &*format!("[+]ping ok\n{STARTED}[-]shutdown failed: reason withheld\nreadyz check failed\n"))
    );
    assert_eq!(server.get("/livez").send().text(), "ok");
    assert_eq!(server.post(REVIEWS, REVIEW).by(&server.admin()).send().code, 201);
}

#[test]
fn a_watch_ends_whole_when_the_server_stops() {
    let limits = Limits { shutdown: Duration::from_secs(60), ..Limits::default() };
    let mut server = start_with(Setup { is_cluster: true, limits, ..Setup::default() });
    let mut tls = server.open_tls();
    let uri = "/api/v1/namespaces?watch=true&timeoutSeconds=600";
    tls.send(format!("GET {uri} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    let line = r#"apiserver_longrunning_requests{verb="WATCH",group="",version="v1",resource="namespaces",subresource="",scope="cluster",component="apiserver"} 1"#;
    server.wait_for_metric(line);
    server.stop();
    let text = tls.rest();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("\"ADDED\""), "{text}");
    assert!(text.ends_with("\r\n0\r\n\r\n"), "the end is said: {text}");
}

/// The serial number of the certificate that is served, as openssl sees it.
fn served_serial(server: &Started) -> String {
    let mut client = tool::command("openssl");
    let shown = Finished::of(client.args(["s_client", "-connect", &server.address.to_string()])).stdout;
    let mut serial = tool::command("openssl");
    Finished::with_input(serial.args(["x509", "-noout", "-serial"]), shown.as_bytes()).ok()
}

#[test]
fn a_changed_serving_certificate_is_taken_up_and_a_broken_one_is_not() {
    let server = start();
    let (certificate, key) = (server.dir.join("apiserver.crt"), server.dir.join("apiserver.key"));
    let mut serving = ServingCertificate::new(certificate.clone(), key.clone());
    assert!(serving.take_up(&server.tls).unwrap());
    assert!(!serving.take_up(&server.tls).unwrap(), "nothing has changed");
    let before = served_serial(&server);
    let new = server.issued(server.authority(), "kube-apiserver", &[], Usage::Server, SystemTime::now());
    // The certificate alone: its key is another one.
    fs::copy(&new.certificate, &certificate).unwrap();
    assert!(serving.take_up(&server.tls).is_err());
    assert_eq!(served_serial(&server), before);
    assert!(!serving.take_up(&server.tls).unwrap(), "what was refused is told once");
    fs::copy(&new.key, &key).unwrap();
    assert!(serving.take_up(&server.tls).unwrap());
    let after = served_serial(&server);
    assert_ne!(after, before);
    fs::File::create(&key).unwrap().write_all(b"no key").unwrap();
    assert!(serving.take_up(&server.tls).is_err());
    fs::remove_file(&key).unwrap();
    assert!(serving.take_up(&server.tls).is_err());
    assert_eq!(served_serial(&server), after);
}

#[test]
fn keys_that_others_could_read_no_longer_can_be() {
    let dir = scratch();
    let prepare = || Bootstrap::prepare(&dir, "127.0.0.1".parse().unwrap(), SystemTime::now()).unwrap();
    drop(prepare());
    let keys = ["ca.key", "apiserver.key", "admin.key"];
    for key in keys {
        fs::set_permissions(dir.join(key), Permissions::from_mode(0o644)).unwrap();
    }
    drop(prepare());
    for key in keys {
        assert_eq!(fs::metadata(dir.join(key)).unwrap().permissions().mode() & 0o777, 0o600, "{key}");
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_is_stored_and_who_decided_is_counted() {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    let admin = server.admin();
    let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pods = "/api/v1/namespaces/default/pods";
    let has = |line: &str| {
        let answer = server.get("/metrics").by(&admin).send();
        assert!(answer.text().lines().any(|found| found == line), "{line}\n{}", answer.text());
    };
    has(r#"apiserver_storage_objects{resource="pods"} 0"#);
    has(r#"apiserver_storage_objects{resource="namespaces"} 4"#);
    let made = server.post(pods, pod.to_string()).by(&admin).send();
    assert_eq!(made.code, 201, "{}", made.text());
    has(r#"apiserver_storage_objects{resource="pods"} 1"#);
    has(r#"node_authorizer_graph_actions_duration_seconds_count{operation="AddPod"} 1"#);
    has("portcullis_graph_lag_revisions 0");
    let gone = format!("{pods}/p?gracePeriodSeconds=0");
    assert_eq!(server.request("DELETE", &gone).by(&admin).send().code, 200);
    has(r#"apiserver_storage_objects{resource="pods"} 0"#);
    let mut node = server.kubelet("n0");
    node.must(404, "GET", "/api/v1/nodes/n0", None);
    has(r#"apiserver_authorization_decisions_total{type="Node",name="node",decision="allowed"} 1"#);
    node.must(403, "GET", "/api/v1/namespaces/default/secrets/s", None);
    has("portcullis_node_denials_total 1");
    assert_eq!(server.get("/version").header("Authorization: Bearer x").send().code, 401);
    has(r#"authentication_attempts{result="error"} 1"#);
    let metrics = server.app.metrics().render().unwrap();
    for name in ["process_resident_memory_bytes", "process_cpu_seconds_total"] {
        assert!(metrics.contains(&format!("\n{name} ")), "{name}");
    }
}
