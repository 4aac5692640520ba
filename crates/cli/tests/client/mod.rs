//! Connections, leases and watches of `portcullis_client`, against a running `portcullis serve`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::fs;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use crate::clock::MovedClock;
use portcullis_client::connect::{Credential, Parts};
use portcullis_client::lease::{LeaseConfig, Led, lead};
use portcullis_client::watched::{Event, Watched};
use portcullis_client::{ConnectError, Connection, Resource};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use serde::Deserialize;
use serde_json::{Value, json};

const MAPS: Resource = Resource::new("", "v1", "configmaps");

fn maps() -> Resource {
    MAPS.within("default")
}

async fn connect(data: &Path) -> Connection {
    Connection::from_kubeconfig(&data.join("admin.kubeconfig"), None).await.unwrap()
}

#[tokio::test]
async fn a_kubeconfig_leads_to_the_server_and_one_that_does_not_says_why() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let address = served.address();
    let connection = connect(&data).await;
    assert_eq!(connection.server(), format!("https://{address}"));
    let made: Value =
        connection.create(&maps(), &json!({"metadata": {"name": "one"}, "data": {"a": "b"}})).await.unwrap();
    let found: Value = connection.get(&maps(), "one").await.unwrap();
    assert_eq!(made["metadata"]["uid"], found["metadata"]["uid"]);
    let taken = connection.create::<Value>(&maps(), &json!({"metadata": {"name": "one"}})).await.unwrap_err();
    assert!(taken.is_already_exists() && !taken.is_conflict(), "{taken}");
    let missing = connection.get::<Value>(&maps(), "../configmaps/one").await.unwrap_err();
    assert_eq!(missing.code(), Some(404), "{missing}");

    let admin = data.join("admin.kubeconfig");
    let text = fs::read_to_string(&admin).unwrap();
    let context = Connection::from_kubeconfig(&admin, Some("other")).await.unwrap_err().to_string();
    assert!(context.contains("\"other\"") && context.contains("there are: "), "{context}");
    let nowhere = scratch.path().join("nowhere");
    let missing = Connection::from_kubeconfig(&nowhere, None).await.unwrap_err();
    assert!(matches!(missing, ConnectError::File { ref path, .. } if *path == nowhere), "{missing}");
    for (bad, word) in [
        ("", "current-context"),
        ("users: [{name: a, user: {token: [sesame, sesame]}}]\n", "not a kubeconfig"),
        ("users:\n- name: a\n  user:\n    token: sesame\n   bad: sesame\n", "not a kubeconfig"),
        ("{", "not a kubeconfig"),
        ("users: sesame\n", "not a kubeconfig"),
        ("users: [{name: a, user: sesame}]\n", "not a kubeconfig"),
        ("users: [{name: a, user: {exec: {provideClusterInfo: sesame}}}]\n", "not a kubeconfig"),
        ("current-context: a\ncontexts: [{name: a, context: {cluster: b, user: c}}]\n", "\"b\""),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: b, user: c}}]\nclusters: [{name: b, cluster: {}}]\n",
            "no server",
        ),
    ] {
        let file = scratch.write("bad", bad);
        let error = Connection::from_kubeconfig(&file, None).await.unwrap_err().to_string();
        assert!(error.contains(word) && error.contains(file.to_str().unwrap()), "{bad:?}: {error}");
        assert!(!error.contains("sesame") && error.lines().count() == 1, "a secret is shown: {error}");
    }
    // Trusting a server and not asking who it is cannot both be meant.
    let both = text.replace("server:", "insecure-skip-tls-verify: true\n    server:");
    if both != text {
        let error =
            Connection::from_kubeconfig(&scratch.write("both", both), None).await.unwrap_err().to_string();
        assert!(error.contains("insecure-skip-tls-verify"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_not_told_who_we_are() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let server = format!("https://{}", served.address());
    let token = Credential::Token("sesame".into());
    let authority = fs::read(data.join("ca.crt")).unwrap();
    let parts = Parts { server: server.clone(), certificate_authority: authority, credential: token.clone() };
    let refused = Connection::from_parts(parts).await.unwrap().get::<Value>(&maps(), "x").await.unwrap_err();
    assert_eq!(refused.code(), Some(401), "{refused}");

    let other =
        portcullis_pki::CertificateAuthority::generate("other", SystemTime::now(), Duration::from_secs(3600));
    let certificate_authority = other.unwrap().certificate_pem().into_bytes();
    let parts = Parts { server, certificate_authority, credential: token };
    let refused = Connection::from_parts(parts).await.unwrap().get::<Value>(&maps(), "x").await.unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    assert_eq!(refused.code(), None);

    let none = Parts {
        server: "https://127.0.0.1:1".into(),
        certificate_authority: b"nothing".to_vec(),
        credential: Credential::Anonymous,
    };
    assert!(Connection::from_parts(none).await.unwrap_err().to_string().contains("no certificate"));
}

#[tokio::test]
async fn a_credential_that_was_renewed_comes_into_use_when_asked() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let _served = program!().serve(&data);
    let text = fs::read_to_string(data.join("admin.kubeconfig")).unwrap();
    let file = scratch.write("kubeconfig", &text);
    let connection = Connection::from_kubeconfig(&file, None).await.unwrap();
    assert!(!connection.refresh().await.unwrap(), "nothing has changed");
    let clone = connection.clone();
    let list = || async { clone.text(http::Method::GET, &maps().path(), None).await };
    list().await.unwrap();
    // The same server, and nobody asking.
    let anonymous: String = text
        .lines()
        .filter(|line| !line.contains("client-"))
        .fold(String::new(), |all, line| all + line + "\n");
    fs::write(&file, anonymous).unwrap();
    list().await.unwrap();
    assert!(connection.refresh().await.unwrap());
    assert_eq!(list().await.unwrap_err().code(), Some(403));
    fs::write(&file, "{").unwrap();
    connection.refresh().await.unwrap_err();
    assert_eq!(list().await.unwrap_err().code(), Some(403), "what was there is still in use");
    fs::write(&file, text).unwrap();
    assert!(connection.refresh().await.unwrap());
    list().await.unwrap();
}

fn config(identity: &str) -> LeaseConfig {
    LeaseConfig {
        namespace: "kube-system".into(),
        name: "work".into(),
        identity: identity.into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
        release_on_exit: true,
    }
}

/// A contender whose work never ends, and whether it works now.
struct Contender {
    task: tokio::task::JoinHandle<Led<()>>,
    stop: tokio::sync::oneshot::Sender<()>,
    working: Arc<AtomicUsize>,
    terms: Arc<AtomicUsize>,
}

/// Counts those who work while it is there.
struct Working(Arc<AtomicUsize>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn contend(
    connection: &Connection,
    config: LeaseConfig,
    clock: &MovedClock,
    working: &Arc<AtomicUsize>,
) -> Contender {
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let terms = Arc::new(AtomicUsize::new(0));
    let (connection, clock) = (connection.clone(), Arc::new(clock.clone()));
    let (counter, all) = (terms.clone(), working.clone());
    let task = tokio::spawn(async move {
        let stop = async {
            let _ = stopped.await;
        };
        let work = |leadership: portcullis_client::lease::Leadership| async move {
            let others = all.fetch_add(1, Ordering::SeqCst);
            let _working = Working(all);
            assert_eq!(others, 0, "two work at the same time");
            assert!(leadership.holds());
            counter.fetch_add(1, Ordering::SeqCst);
            pending::<()>().await;
        };
        lead(&connection, config, clock, stop, work).await.unwrap()
    });
    Contender { task, stop, working: working.clone(), terms }
}

impl Contender {
    fn has_worked(&self) -> bool {
        self.terms.load(Ordering::SeqCst) > 0
    }

    fn works(&self) -> bool {
        self.has_worked() && !self.task.is_finished() && self.working.load(Ordering::SeqCst) == 1
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_contend_one_works_and_the_other_follows() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let _served = program!().serve(&data);
    let connection = connect(&data).await;
    let leases = Resource::new("coordination.k8s.io", "v1", "leases").within("kube-system");
    let holder = || async {
        connection.get::<Value>(&leases, "work").await.unwrap()["spec"]["holderIdentity"].clone()
    };

    // Each has a clock of its own, and their dates are years apart.
    let one_clock = MovedClock::at(SystemTime::now());
    let two_clock = MovedClock::at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    let working = Arc::new(AtomicUsize::new(0));
    let one = contend(&connection, config("one"), &one_clock, &working);
    assert!(one_clock.advance_until(5, || one.works()).await);
    let two = LeaseConfig { release_on_exit: false, ..config("two") };
    let two = contend(&connection, two, &two_clock, &working);
    for _ in 0..40 {
        one_clock.advance_slowly(2).await;
        two_clock.advance_slowly(2).await;
    }
    assert!(one.works() && !two.has_worked(), "one renews");
    assert_eq!(holder().await, "one");

    // A leader that ends gives the lease away: the other need not wait for its end.
    one.stop.send(()).unwrap();
    assert_eq!(one.task.await.unwrap(), Led::Stopped);
    assert_eq!(holder().await, "");
    assert!(two_clock.advance_until(4, || two.works()).await);
    assert_eq!(holder().await, "two");
    let lease: Value = connection.get(&leases, "work").await.unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1, "{lease}");

    // One that ends without a word is waited for.
    two.task.abort();
    assert!(two.task.await.unwrap_err().is_cancelled());
    let three = contend(&connection, config("three"), &one_clock, &working);
    assert!(!one_clock.advance_until(12, || three.has_worked()).await);
    assert!(one_clock.advance_until(10, || three.works()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_renew_stops_working_before_another_may_begin() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let clock = MovedClock::at(SystemTime::now());
    let working = Arc::new(AtomicUsize::new(0));
    let one = contend(&connect(&data).await, config("one"), &clock, &working);
    assert!(clock.advance_until(5, || one.works()).await);
    served.kill();
    let moved = clock.clone();
    let began = portcullis_client::Clock::running(&moved);
    assert!(clock.advance_until(20, || one.task.is_finished()).await, "it goes on without the lease");
    let took = portcullis_client::Clock::running(&moved) - began;
    assert!(took < config("one").lease_duration, "{took:?}");
    assert_eq!(working.load(Ordering::SeqCst), 0);
    let Led::Lost { why } = one.task.await.unwrap() else { panic!("not lost") };
    assert!(why.contains("not renewed in 10 s"), "{why}");
}

#[derive(Debug, Deserialize, PartialEq)]
struct Map {
    metadata: Metadata,
    #[serde(default)]
    data: Data,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Metadata {
    name: String,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
struct Data {
    #[serde(default)]
    shape: Option<Shape>,
}

/// What most maps of a cluster do not hold.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Round,
}

async fn name_of_next(watched: &mut Watched<Map>) -> String {
    loop {
        match watched.next().await {
            Event::Applied(map) => return format!("+{}", map.metadata.name),
            Event::Deleted(map) => return format!("-{}", map.metadata.name),
            Event::Listed(map) => return format!("={}", map.metadata.name),
            Event::Unreadable { name, namespace, .. } => return format!("?{namespace}/{name}"),
            Event::Synced => return "synced".into(),
            Event::Restarted => return "restarted".into(),
            Event::Current | Event::Resumed | Event::Failed { .. } => {}
        }
    }
}

#[tokio::test]
async fn a_watch_survives_a_restart_of_the_server_and_objects_that_cannot_be_read() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let port = served.address().port();
    let connection = connect(&data).await;
    let map = |name: &str, shape: &str| json!({"metadata": {"name": name}, "data": {"shape": shape}});
    let create = async |map: Value| connection.create::<Value>(&maps(), &map).await.unwrap();
    create(map("a", "round")).await;
    create(map("b", "square")).await;
    create(json!({"metadata": {"name": "other"}})).await;
    let fields = "metadata.name!=other,metadata.name!=kube-root-ca.crt".to_owned();
    let mut watched = Watched::<Map>::new(&connection, maps(), Some(fields));
    for due in ["restarted", "=a", "?default/b", "synced"] {
        assert_eq!(name_of_next(&mut watched).await, due);
    }
    create(map("c", "round")).await;
    create(map("d", "oval")).await;
    connection.text(http::Method::DELETE, &maps().object("c"), None).await.unwrap();
    for due in ["+c", "?default/d", "-c"] {
        assert_eq!(name_of_next(&mut watched).await, due);
    }

    served.kill();
    assert!(matches!(watched.next().await, Event::Failed { .. }));
    let served = Running::start(program!().serve_command_at(&data, port));
    create(map("e", "round")).await;
    // Whether it goes on where it was or lists again, it learns of what has come since.
    let mut heard = Vec::new();
    while !heard.iter().any(|event: &String| event.ends_with('e')) {
        heard.push(name_of_next(&mut watched).await);
    }
    create(map("f", "round")).await;
    while !heard.iter().any(|event: &String| event == "+f") {
        heard.push(name_of_next(&mut watched).await);
    }

    // Another store behind the same address, with a history that is younger than what was seen.
    served.kill();
    let other = scratch.path().join("other");
    fs::create_dir(&other).unwrap();
    for entry in fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_file() && !entry.to_str().unwrap().contains(".redb") {
            fs::copy(&entry, other.join(entry.file_name().unwrap())).unwrap();
        }
    }
    let mut command = std::process::Command::new("chmod");
    command.arg("0700").arg(&other).status().unwrap();
    let _served = Running::start(program!().serve_command_at(&other, port));
    create(map("young", "round")).await;
    while !heard.iter().any(|event: &String| event.ends_with("young")) {
        heard.push(name_of_next(&mut watched).await);
    }
    let last_list = heard.iter().rposition(|event| event == "restarted").unwrap();
    assert!(heard[last_list..].iter().all(|event| !event.ends_with('f')), "{heard:?}");
}
