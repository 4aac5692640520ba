//! What depends on time, with a clock that is moved; and stops at each step, by an observer.

use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use portcullis_client::Clock as _;
use portcullis_client::node_certificate::agent::{Agent, CredentialError, Observer, Progress, Settings};

use crate::common::clock::MovedClock;
use crate::support::*;

fn settings(cluster: &Cluster) -> Settings {
    Settings {
        bootstrap_kubeconfig: Some(cluster.path("bootstrap.kubeconfig")),
        kubeconfig: Some(cluster.path("node.kubeconfig")),
        cert_dir: cluster.path("pki"),
        node_name: "node-1".into(),
        expiration_seconds: None,
        rebootstrap: true,
    }
}

pub(crate) fn silent() -> Observer {
    Arc::new(|_| ControlFlow::Continue(()))
}

pub(crate) fn agent(cluster: &Cluster, clock: &MovedClock, observer: Observer) -> Agent {
    Agent::new(settings(cluster), Arc::new(clock.clone()), observer).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_after_each_step_it_goes_on_with_the_same_key_and_request() {
    let cluster = Cluster::start();
    let signer = Signer::start(&cluster);
    let clock = MovedClock::at(SystemTime::now());
    let mut seen = HashSet::new();
    let mut keys = HashSet::new();
    for step in 0.. {
        let at = Arc::new(Mutex::new((0, String::new())));
        let counted = at.clone();
        let observer: Observer = Arc::new(move |progress| {
            let mut at = counted.lock().unwrap();
            let name = format!("{progress:?}").split(['{', ' ']).next().unwrap().to_owned();
            *at = (at.0 + 1, name);
            if at.0 > step { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let done = agent(&cluster, &clock, observer).once(Duration::from_secs(60)).await;
        let current = cluster.path("pki/kubelet-client-current.pem");
        for file in [cluster.path("pki/kubelet-client.key.tmp"), current] {
            if file.exists() {
                keys.insert(tool("openssl", &["pkey", "-in", file.to_str().unwrap(), "-pubout"]));
            }
        }
        match done {
            Err(CredentialError::Stopped) => seen.insert(at.lock().unwrap().1.clone()),
            Ok(_) => break,
            Err(error) => panic!("{step}: {error}"),
        };
        // What is left behind is what was there after fewer steps, and is begun with again from there.
        if step > 0 && !cluster.path("pki/kubelet-client-current.pem").exists() {
            assert_eq!(keys.len(), 1, "the key is the same");
        }
    }
    for step in ["KeyReady", "Requested", "Received"] {
        assert!(seen.contains(step), "{step}: {seen:?}");
    }
    assert_eq!(keys.len(), 1);
    assert_eq!(cluster.requests().len(), 1);
    openssl_accepts(&cluster, &cluster.path("pki/kubelet-client-current.pem"));
    drop(signer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_while_it_puts_the_certificate_in_its_place_it_loses_nothing() {
    for step in ["Written", "Switched", "KubeconfigWritten", "KeyForgotten"] {
        let cluster = Cluster::start();
        let _signer = Signer::start(&cluster);
        let clock = MovedClock::at(SystemTime::now());
        let observer: Observer = Arc::new(move |progress| {
            if format!("{progress:?}").starts_with(step) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let stopped = agent(&cluster, &clock, observer).once(Duration::from_secs(60)).await;
        assert!(matches!(stopped, Err(CredentialError::Stopped)), "{step}: {stopped:?}");
        agent(&cluster, &clock, silent()).once(Duration::from_secs(60)).await.unwrap();
        assert_eq!(cluster.requests().len(), 1, "{step}");
        assert!(!cluster.path("pki/kubelet-client.key.tmp").exists(), "{step}");
        openssl_accepts(&cluster, &cluster.path("pki/kubelet-client-current.pem"));
        let kubeconfig = cluster.path("node.kubeconfig");
        tool("kubectl", &["--kubeconfig", kubeconfig.to_str().unwrap(), "auth", "whoami"]);
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
        tool("openssl", &["pkey", "-in", file.to_str().unwrap(), "-pubout"])
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
    tool("kubectl", &[&embed[..], &[certificate.as_str(), key.as_str()]].concat());
    fs::remove_dir_all(cluster.path("pki")).unwrap();
    fs::remove_file(cluster.path("bootstrap.kubeconfig")).unwrap();

    agent(&cluster, &clock, silent()).once(Duration::from_secs(60)).await.unwrap();
    let requests = cluster.requests();
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().any(|request| request["spec"]["username"] == "system:node:node-1"));
    openssl_accepts(&cluster, &cluster.path("pki/kubelet-client-current.pem"));
    let config = tool("kubectl", &["--kubeconfig", file, "config", "view", "-o", "json"]);
    assert!(config.contains("kubelet-client-current.pem") && !config.contains("client-key-data"), "{config}");
}
