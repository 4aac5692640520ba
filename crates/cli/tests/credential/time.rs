//! Renewal with a clock that the test moves, and interruptions at each step.

use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use portcullis_client::Clock as _;
use portcullis_client::node_certificate::agent::{Agent, Observer, Progress, Settings};
use portcullis_client::node_certificate::error::CredentialError;
use portcullis_client::node_certificate::metrics::CertificateMetrics;
use portcullis_testkit::metrics::value;
use portcullis_testkit::tool::certificate_end;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use serde_json::json;

use crate::clock::MovedClock;
use crate::credential::support::*;

fn settings(cluster: &Cluster) -> Settings {
    Settings {
        bootstrap_kubeconfig: Some(cluster.path("bootstrap.kubeconfig")),
        kubeconfig: Some(cluster.path("node.kubeconfig")),
        cert_dir: cluster.path("pki"),
        node_name: "node-1".into(),
        expiration_seconds: None,
        rebootstrap: true,
        serving: None,
    }
}

/// The value of the metric with exactly this name.
#[track_caller]
fn figure(metrics: &CertificateMetrics, now: SystemTime, name: &str) -> f64 {
    let (mut registry, mut out) = (Registry::default(), String::new());
    metrics.register(&mut registry, now);
    text::encode(&mut out, &registry).unwrap();
    value(&out, name)
}

/// How long openssl says that a certificate is valid. In seconds.
pub(crate) fn seconds_left(file: &Path, now: SystemTime) -> f64 {
    let end = SystemTime::from(certificate_end(file).parse::<jiff::Timestamp>().unwrap());
    match end.duration_since(now) {
        Ok(left) => left.as_secs_f64(),
        Err(passed) => -passed.duration().as_secs_f64(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_141_what_a_kubelet_tells_of_its_client_certificate() {
    let cluster = Cluster::start();
    let clock = MovedClock::at(SystemTime::now());
    let moved = clock.clone();
    let _signer = Signer::at(&cluster, move || moved.now());
    let missing = cluster.path("missing.kubeconfig");
    let settings =
        Settings { bootstrap_kubeconfig: Some(missing.clone()), kubeconfig: None, ..settings(&cluster) };
    let agent = Agent::new(settings, Arc::new(clock.clone()), silent()).unwrap();
    let metrics = agent.metrics().clone();
    let told = |name: &str| figure(&metrics, clock.now(), name);
    let errors = || told("kubelet_certificate_manager_client_expiration_renew_errors");
    let ttl = || told("kubelet_certificate_manager_client_ttl_seconds");
    assert_eq!((errors(), ttl()), (0.0, f64::INFINITY));
    let running = tokio::spawn(async move { agent.run(std::future::pending()).await });
    // Each attempt that fails is counted.
    assert!(clock.advance_until(120, || errors() >= 2.0).await);
    assert_eq!(ttl(), f64::INFINITY);
    fs::copy(cluster.path("bootstrap.kubeconfig"), &missing).unwrap();
    assert!(clock.advance_until(120, || ttl().is_finite()).await);
    let left = seconds_left(&cluster.path("pki/kubelet-client-current.pem"), clock.now());
    assert!((left - ttl()).abs() < 60.0, "openssl: {left}, told: {}", ttl());
    assert_eq!(ttl().fract(), 0.0, "whole seconds");
    assert_eq!(told("kubelet_server_expiration_renew_errors"), 0.0);
    running.abort();
    // Without anybody who renews it, it expires.
    clock.advance(LIFETIME);
    assert!(ttl() < 0.0, "{}", ttl());
}

pub(crate) fn silent() -> Observer {
    Arc::new(|_| ControlFlow::Continue(()))
}

pub(crate) fn agent(cluster: &Cluster, clock: &MovedClock, observer: Observer) -> Agent {
    Agent::new(settings(cluster), Arc::new(clock.clone()), observer).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_at_any_step_it_goes_on_with_the_same_key_and_the_same_request() {
    for step in
        ["KeyReady", "Requested", "Received", "Written", "Switched", "KubeconfigWritten", "KeyForgotten"]
    {
        let cluster = Cluster::start();
        let _signer = Signer::start(&cluster);
        let clock = MovedClock::at(SystemTime::now());
        let observer: Observer = Arc::new(move |progress| {
            let is_now = format!("{progress:?}").starts_with(step);
            if is_now { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let stopped = agent(&cluster, &clock, observer).once(Duration::from_secs(60)).await;
        assert!(matches!(stopped, Err(CredentialError::Stopped)), "{step}: {stopped:?}");
        let (pending, current) =
            (cluster.path("pki/kubelet-client.key.tmp"), cluster.path("pki/kubelet-client-current.pem"));
        let key = |file: &Path| tool("openssl", ["pkey", "-in", file.to_str().unwrap(), "-pubout"]);
        let first = key(if pending.exists() { &pending } else { &current });
        agent(&cluster, &clock, silent()).once(Duration::from_secs(60)).await.unwrap();
        assert_eq!(key(&current), first, "{step}");
        assert_eq!(cluster.requests().len(), 1, "{step}");
        assert!(!pending.exists(), "{step}");
        openssl_accepts(&cluster, &current);
        let kubeconfig = cluster.path("node.kubeconfig");
        tool("kubectl", ["--kubeconfig", kubeconfig.to_str().unwrap(), "auth", "whoami"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_102_a_certificate_is_replaced_at_70_to_90_percent_of_its_life_by_its_own_power() {
    let cluster = Cluster::start();
    let clock = MovedClock::at(SystemTime::now());
    let moved = clock.clone();
    let _signer = Signer::at(&cluster, move || moved.now());
    let dates = Arc::new(Mutex::new(Vec::new()));
    let told = dates.clone();
    let observer: Observer = Arc::new(move |progress| {
        if let Progress::Resting { not_after, until } = progress {
            told.lock().unwrap().push((*not_after, *until));
        }
        ControlFlow::Continue(())
    });
    let agent = agent(&cluster, &clock, observer);
    let running = tokio::spawn(async move { agent.run(std::future::pending()).await });
    let count = || dates.lock().unwrap().len();
    assert!(clock.advance_until(30, || count() == 1).await);
    assert_eq!(cluster.requests().len(), 1);
    let (not_after, until) = dates.lock().unwrap()[0];
    // Kubernetes backdates by five minutes, which are part of the life of a long one.
    let life = LIFETIME;
    let share =
        |date: SystemTime| 1.0 - not_after.duration_since(date).unwrap().as_secs_f64() / life.as_secs_f64();
    assert!((0.7..=0.9).contains(&share(until)), "{}", share(until));

    let first = fs::read(cluster.path("pki/kubelet-client-current.pem")).unwrap();
    clock.advance(until.duration_since(clock.now()).unwrap() - Duration::from_secs(30));
    assert!(!clock.advance_until(20, || count() > 1).await, "not a moment too early");
    assert_eq!(cluster.requests().len(), 1);
    assert!(clock.advance_until(100, || count() > 1).await);
    let requests = cluster.requests();
    assert_eq!(requests.len(), 2);
    let users: HashSet<&str> =
        requests.iter().map(|request| request["spec"]["username"].as_str().unwrap()).collect();
    assert_eq!(users, HashSet::from([BOOTSTRAPPER, "system:node:node-1"]), "CS-136");
    let second = fs::read(cluster.path("pki/kubelet-client-current.pem")).unwrap();
    assert_ne!(first, second);
    assert_eq!(cluster.pairs().len(), 2, "old ones are kept");
    let key = |text: &[u8]| {
        let file = cluster.scratch.write("pair.pem", text);
        tool("openssl", ["pkey", "-in", file.to_str().unwrap(), "-pubout"])
    };
    assert_ne!(key(&first), key(&second), "CS-100: each request is for a new key");
    running.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_has_expired_is_replaced_with_the_bootstrap_credential() {
    let cluster = Cluster::start();
    let clock = MovedClock::at(SystemTime::now());
    let moved = clock.clone();
    let _signer = Signer::at(&cluster, move || moved.now());
    agent(&cluster, &clock, silent()).once(Duration::from_secs(60)).await.unwrap();
    clock.advance(LIFETIME);
    let agent = agent(&cluster, &clock, silent());
    assert!(agent.current().unwrap().is_none(), "CS-106");
    let pair = agent.once(Duration::from_secs(60)).await.unwrap();
    assert!(pair.is_unexpired(clock.now()));
    let requests = cluster.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|request| request["spec"]["username"] == BOOTSTRAPPER));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_104_one_request_is_waited_for_and_people_are_reminded() {
    let cluster = Cluster::start();
    let clock = MovedClock::at(SystemTime::now());
    let reminded = Arc::new(Mutex::new(Vec::new()));
    let told = reminded.clone();
    let observer: Observer = Arc::new(move |progress| {
        if let Progress::Waiting { since, .. } = progress {
            told.lock().unwrap().push(since.as_secs());
        }
        ControlFlow::Continue(())
    });
    let agent = agent(&cluster, &clock, observer);
    let waiting = tokio::spawn(async move { agent.once(Duration::from_secs(300)).await });
    assert!(clock.advance_until(400, || waiting.is_finished()).await);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, CredentialError::Pending { is_approved: false, .. }), "{error}");
    let reminded = reminded.lock().unwrap();
    assert!(reminded.len() >= 9 && reminded.windows(2).all(|pair| pair[1] - pair[0] >= 30), "{reminded:?}");
    assert_eq!(cluster.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_137_a_certificate_inside_the_kubeconfig_is_good_for_asking_for_another_one() {
    let cluster = Cluster::start();
    let _signer = Signer::start(&cluster);
    let clock = MovedClock::at(SystemTime::now());
    agent(&cluster, &clock, silent()).once(Duration::from_secs(60)).await.unwrap();
    // The same pair, in the file itself, and nothing else on the machine.
    let kubeconfig = cluster.path("node.kubeconfig");
    let file = kubeconfig.to_str().unwrap();
    let pair = cluster.path("pki/kubelet-client-current.pem");
    let pair = fs::canonicalize(pair).unwrap();
    let embed = ["--kubeconfig", file, "config", "set-credentials", "default-auth", "--embed-certs=true"];
    let certificate = format!("--client-certificate={}", pair.display());
    let key = format!("--client-key={}", pair.display());
    tool("kubectl", [&embed[..], &[certificate.as_str(), key.as_str()]].concat());
    fs::remove_dir_all(cluster.path("pki")).unwrap();
    fs::remove_file(cluster.path("bootstrap.kubeconfig")).unwrap();

    agent(&cluster, &clock, silent()).once(Duration::from_secs(60)).await.unwrap();
    let requests = cluster.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().any(|request| request["spec"]["username"] == "system:node:node-1"));
    openssl_accepts(&cluster, &cluster.path("pki/kubelet-client-current.pem"));
    let config = tool("kubectl", ["--kubeconfig", file, "config", "view", "-o", "json"]);
    assert!(config.contains("kubelet-client-current.pem") && !config.contains("client-key-data"), "{config}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs_103_a_serving_certificate_follows_the_addresses_of_the_node() {
    let cluster = Cluster::start();
    let clock = MovedClock::at(SystemTime::now());
    let moved = clock.clone();
    let signer = Signer::at(&cluster, move || moved.now());
    agent(&cluster, &clock, silent()).once(Duration::from_secs(60)).await.unwrap();
    drop(signer);
    let serving = agent(&cluster, &clock, silent());
    let metrics = serving.metrics().clone();
    let told = |name: &str| figure(&metrics, clock.now(), name);
    assert_eq!(told("kubelet_certificate_manager_server_ttl_seconds"), f64::INFINITY);
    let running = tokio::spawn(async move { serving.serve(std::future::pending()).await });
    let requests = || {
        let all = cluster.requests();
        all.into_iter()
            .filter(|request| request["spec"]["signerName"] == "kubernetes.io/kubelet-serving")
            .collect::<Vec<_>>()
    };
    // Without a Node, there is nothing to ask for.
    assert!(!clock.advance_until(30, || !requests().is_empty()).await);
    let mut admin = cluster.admin();
    admin.must(201, "POST", "/api/v1/nodes", Some(&json!({"metadata": {"name": "node-1"}})));
    let mut address = |ip: &str| {
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": "node-1"}]}});
        let mut node = admin.must(200, "GET", "/api/v1/nodes/node-1", None);
        node["status"] = status["status"].clone();
        // Whatever controllers write meanwhile.
        node["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        admin.must(200, "PUT", "/api/v1/nodes/node-1/status", Some(&node));
    };
    address("10.0.0.1");
    assert!(clock.advance_until(60, || requests().len() == 1).await);
    let request = requests().remove(0);
    assert_eq!(request["spec"]["username"], "system:node:node-1");
    assert_eq!(request["spec"]["usages"], json!(["digital signature", "server auth"]));
    // Other addresses before anybody has approved: another request.
    address("10.0.0.2");
    assert!(clock.advance_until(120, || requests().len() == 2).await);
    let moved = clock.clone();
    let _signer = Signer::at(&cluster, move || moved.now());
    let current = cluster.path("pki/kubelet-server-current.pem");
    let file = current.to_str().unwrap();
    let is_for = |ip: &str| {
        current.exists()
            && tool("openssl", ["x509", "-in", file, "-noout", "-checkip", ip]).contains("does match")
    };
    assert!(clock.advance_until(60, || is_for("10.0.0.2")).await);
    let authority = cluster.path("data/ca.crt");
    tool("openssl", ["verify", "-purpose", "sslserver", "-CAfile", authority.to_str().unwrap(), file]);
    assert!(tool("openssl", ["x509", "-in", file, "-noout", "-checkhost", "node-1"]).contains("does match"));
    let key = tool("openssl", ["pkey", "-in", file, "-pubout"]);
    assert_eq!(key, tool("openssl", ["x509", "-in", file, "-noout", "-pubkey"]));
    let rotations = "kubelet_certificate_manager_server_rotation_seconds_count";
    assert_eq!(told(rotations), 0.0, "CS-141: the first one replaces none");
    // And other ones when there is a certificate.
    address("10.0.0.3");
    assert!(clock.advance_until(200, || is_for("10.0.0.3")).await);
    assert_ne!(key, tool("openssl", ["pkey", "-in", file, "-pubout"]));
    assert_eq!(mode(&fs::canonicalize(&current).unwrap()), 0o600);
    assert!(clock.advance_until(60, || told(rotations) == 1.0).await);
    let (left, ttl) =
        (seconds_left(&current, clock.now()), told("kubelet_certificate_manager_server_ttl_seconds"));
    assert!((left - ttl).abs() < 60.0, "openssl: {left}, told: {ttl}");
    running.abort();
}
