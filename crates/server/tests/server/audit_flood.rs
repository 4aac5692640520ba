//! What is left of the audit log when somebody floods it, or when its disk is full.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Setup, Started, scratch, start_with};
use portcullis_server::audit::sink::Rotation;
use portcullis_server::audit::{Mode, SinkOptions, WhenFull};
use portcullis_testkit::metrics::assert_documented;
use portcullis_testkit::wait;
use serde_json::{Value, json};

const METADATA: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
const BODIES: &str = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse}]}";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn cluster(audit: &'static str, path: PathBuf) -> Started {
    let audit_sink = SinkOptions {
        name: "audit log",
        path: Some(path),
        mode: Mode::Batch,
        when_full: WhenFull::Wait,
        rotation: Rotation::default(),
    };
    start_with(Setup { is_cluster: true, audit: Some(audit), audit_sink, ..Setup::default() })
}

/// A pipe that nobody reads yet.
fn pipe() -> (PathBuf, File) {
    let dir = scratch();
    fs::create_dir_all(&dir).unwrap();
    let path = dir.join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = File::options().read(true).write(true).open(&path).unwrap();
    (path, reader)
}

fn metric(server: &Started, name: &str) -> u64 {
    let answer = server.get("/metrics").by(&server.admin()).send();
    let text = answer.text();
    assert_documented(&["serve"], text);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |number| number.parse().unwrap())
}

/// Whether a request was answered with a success.
fn is_complete(event: &Value, uri: &str) -> bool {
    event["stage"] == "ResponseComplete"
        && event["requestURI"] == uri
        && event["responseStatus"]["code"] == 201
}

fn binding(name: &str) -> String {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}]})
    .to_string()
}

#[test]
fn a_flood_of_strangers_on_a_slow_disk_hides_no_new_cluster_admin() {
    let (path, reader) = pipe();
    let server = cluster(METADATA, path);
    let long = "x".repeat(4000);
    let paths: Vec<String> = (0..400).map(|i| format!("/livez?n={i}&{long}")).collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let codes = server.codes("GET", &paths, None);
                assert!(codes.iter().all(|code| *code == 200), "{codes:?}");
            });
        }
    });
    assert!(metric(&server, r#"portcullis_audit_lost_total{reason="stranger"}"#) > 0);
    for n in 0..50 {
        let answer = server.post(BINDINGS, binding(&format!("b{n}"))).by(&server.admin()).send();
        assert_eq!(answer.code, 201, "{}", answer.text());
    }
    assert_eq!(metric(&server, r#"portcullis_audit_lost_total{reason="full"}"#), 0);
    let mut names = Vec::new();
    let mut lines = BufReader::new(reader).lines();
    while names.len() < 50 {
        let line = lines.next().unwrap().unwrap();
        // What a stranger chooses is cut.
        assert!(line.len() < 4000, "{line}");
        let event: Value = serde_json::from_str(&line).unwrap();
        if is_complete(&event, BINDINGS) {
            names.push(event["objectRef"]["name"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(names, (0..50).map(|n| format!("b{n}")).collect::<Vec<_>>());
    // The writer ends when all is read.
    std::thread::spawn(move || lines.for_each(drop));
}

fn config_map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "x".repeat(900_000)}})
        .to_string()
}

fn complete(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    // The last line may be half written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let events = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let done = events.filter(|event| is_complete(event, CONFIG_MAPS));
    done.map(|event| event["objectRef"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn writes_are_refused_on_a_full_disk_and_no_event_is_missing_when_there_is_space_again() {
    let dir = scratch();
    fs::create_dir_all(&dir).unwrap();
    let (path, log) = (dir.join("audit.log"), dir.join("repaired.log"));
    symlink("/dev/full", &path).unwrap();
    let server = cluster(BODIES, path.clone());
    let admin = server.admin();
    let mut made = Vec::new();
    let refused = loop {
        let name = format!("c{}", made.len());
        let uri = if made.len() < 20 { CONFIG_MAPS.to_owned() } else { format!("{CONFIG_MAPS}?timeout=1s") };
        let answer = server.post(&uri, config_map(&name)).by(&admin).send();
        if answer.code != 201 {
            answer.assert_status(503, "ServiceUnavailable");
            assert!(answer.text().contains("nothing was changed"), "{}", answer.text());
            break name;
        }
        made.push((name, uri));
        assert!(made.len() < 200, "the queue is not bounded");
    };
    assert!(made.len() > 20, "{}", made.len());
    // A stranger does not wait for its event.
    assert_eq!(server.get("/livez").send().code, 200);
    let repaired = dir.join("link");
    symlink(&log, &repaired).unwrap();
    fs::rename(&repaired, &path).unwrap();
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/{refused}")).by(&admin).send().code, 404);
    assert_eq!(server.post(CONFIG_MAPS, config_map("last")).by(&admin).send().code, 201);
    let expected: Vec<String> = made
        .iter()
        .filter(|(_, uri)| uri == CONFIG_MAPS)
        .map(|(name, _)| name.clone())
        .chain(["last".to_owned()])
        .collect();
    wait::until_ok("the events", || {
        let found = complete(&log);
        if found == expected { Ok(()) } else { Err(found) }
    });
    assert_eq!(metric(&server, r#"portcullis_audit_lost_total{reason="unwritten"}"#), 0);
}
