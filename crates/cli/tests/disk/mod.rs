//! `portcullis serve` with a full disk and with a damaged store: it reports the problem, loses nothing, and never
//! serves less than it had.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::mutate::dice;
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::wait::until;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What the process may write to one file, in the 512 bytes that a shell counts in.
const ROOM: &str = "8192";

fn map(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m-{number:04}")},
        "data": {"number": number.to_string(), "filling": "x".repeat(10_000 + number % 7 * 1_000)}})
}

/// Whether exactly the first maps are there, each as it was written.
fn check(client: &mut Client, count: usize) {
    let list = client.must(200, "GET", MAPS, None);
    let items: Vec<&Value> = list["items"].as_array().unwrap().iter().collect();
    let data: Vec<&Value> = items
        .iter()
        .filter(|item| item["metadata"]["name"].as_str().unwrap().starts_with("m-"))
        .map(|item| &item["data"])
        .collect();
    let due: Vec<Value> = (0..count).map(|number| map(number)["data"].clone()).collect();
    assert_eq!(data, due.iter().collect::<Vec<_>>());
}

#[test]
fn a_watch_continues_after_a_restart_where_it_was() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let mut client = Client::new(served.address(), &Identity::admin(&data));
    let first = client.must(201, "POST", MAPS, Some(&map(0)));
    client.must(201, "POST", MAPS, Some(&map(1)));
    client.must(200, "DELETE", &format!("{MAPS}/m-0000"), None);
    let listed = client.must(200, "GET", MAPS, None);
    assert_eq!(served.stop().code, 0);

    let served = program!().serve(&data);
    let identity = Identity::admin(&data);
    let mut client = Client::new(served.address(), &identity);
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{MAPS}?watch=true&resourceVersion={version}");
    let mut watch = Client::new(served.address(), &identity).watch(&path).unwrap();
    client.must(201, "POST", MAPS, Some(&map(2)));
    for (kind, name) in [("ADDED", "m-0001"), ("DELETED", "m-0000"), ("ADDED", "m-0002")] {
        let event = watch.next().unwrap().unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!(kind), &json!(name)));
    }
    let version = listed["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(client.must(200, "GET", &exact, None), listed);
    assert_eq!(served.stop().code, 0);
}

#[test]
fn a_full_disk_refuses_writes_says_why_and_lets_them_go_on_once_there_is_room() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    // Without the signal, a write beyond the limit fails as one to a full disk does.
    let mut command = Command::new("sh");
    let serve = program!().serve_command(&data);
    command.args(["-c", "trap '' XFSZ && ulimit -S -f \"$0\" && exec \"$@\"", ROOM]);
    command.arg(serve.get_program()).args(serve.get_args());
    let served = Running::start(command);
    let mut client = Client::new(served.address(), &Identity::admin(&data));
    let mut written = 0;
    let refusal = loop {
        let answer = client.ask("POST", MAPS, Some(&map(written))).unwrap();
        if answer.code != 201 {
            break answer;
        }
        written += 1;
        assert!(written < 5_000, "the disk is never full");
    };
    assert!(written > 20, "there was room for {written} only");
    assert_eq!((refusal.code, &refusal.json()["reason"]), (500, &json!("InternalError")));
    for _ in 0..3 {
        client.must(500, "POST", MAPS, Some(&map(written)));
        client.must(404, "GET", &format!("{MAPS}/m-{written:04}"), None);
        check(&mut client, written);
    }
    let roomy =
        Command::new("prlimit").args(["--pid", &served.id().to_string(), "--fsize=unlimited"]).status();
    assert!(roomy.unwrap().success());
    for _ in 0..30 {
        client.must(201, "POST", MAPS, Some(&map(written)));
        written += 1;
    }
    check(&mut client, written);
    let Finished { code, stderr: log, .. } = served.stop();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains(data.join("objects.redb").to_str().unwrap()), "which file: {log}");
    assert!(log.contains("make room"), "what to do: {log}");

    let served = program!().serve(&data);
    check(&mut Client::new(served.address(), &Identity::admin(&data)), written);
}

#[test]
fn a_store_that_has_its_quota_is_read_only_but_for_deletions_and_nodes() {
    const QUOTA: &str = "2000000";
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let mut serve = program!().serve_command(&data);
    serve.args(["--quota-backend-bytes", QUOTA]);
    let served = Running::start(serve);
    let mut client = Client::new(served.address(), &Identity::admin(&data));
    let mut held = map(0);
    held["metadata"] = json!({"name": "held", "finalizers": ["example.org/held"]});
    client.must(201, "POST", MAPS, Some(&held));
    let lease =
        json!({"metadata": {"name": "n"}, "spec": {"holderIdentity": "n", "leaseDurationSeconds": 40}});
    client.must(201, "POST", LEASES, Some(&lease));
    let mut written = 0;
    let refusal = loop {
        let answer = client.ask("POST", MAPS, Some(&map(written))).unwrap();
        if answer.code != 201 {
            break answer;
        }
        written += 1;
        assert!(written < 1_000, "the store is never full");
    };
    assert_eq!((refusal.code, &refusal.json()["reason"]), (507, &json!("InsufficientStorage")));
    let message = refusal.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(QUOTA), "{message}");
    check(&mut client, written);
    // Nodes stay alive, and what must go can go, in the two steps of an object with finalizers as well.
    let renewal = json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}});
    client.must(200, "PATCH", &format!("{LEASES}/n"), Some(&renewal));
    let marked = client.must(200, "DELETE", &format!("{MAPS}/held"), None);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    client.must(200, "PATCH", &format!("{MAPS}/held"), Some(&json!({"metadata": {"finalizers": null}})));
    client.must(404, "GET", &format!("{MAPS}/held"), None);
    client.must(200, "DELETE", &format!("{MAPS}/m-{:04}", written - 1), None);
    client.must(201, "POST", MAPS, Some(&map(written - 1)));
    let metric = |client: &mut Client, name: &str| -> u64 {
        let text = client.ask("GET", "/metrics", None).unwrap().text();
        // With labels, or without.
        let is_of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let line = text.lines().find(is_of).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    until("it is counted", || metric(&mut client, "portcullis_storage_full_refusals_total") > 0);
    assert_eq!(metric(&mut client, "portcullis_storage_quota_bytes").to_string(), QUOTA);
    assert!(metric(&mut client, "apiserver_storage_size_bytes") > 1_900_000);
    let Finished { code, stderr: log, .. } = served.stop();
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("the store is full") && log.contains("--quota-backend-bytes"), "{log}");

    // With more room, and without a limit.
    for more in ["3000000", "-1"] {
        let mut serve = program!().serve_command(&data);
        serve.args(["--quota-backend-bytes", more]);
        let served = Running::start(serve);
        let mut client = Client::new(served.address(), &Identity::admin(&data));
        client.must(201, "POST", MAPS, Some(&map(written)));
        written += 1;
        check(&mut client, written);
        assert_eq!(served.stop().code, 0);
    }
}

/// A data directory with some maps in it, that nobody uses.
struct Kept {
    scratch: Scratch,
    maps: usize,
}

impl Kept {
    fn new(maps: usize) -> Self {
        let kept = Self { scratch: Scratch::new(), maps };
        let served = program!().serve(&kept.data());
        let mut client = Client::new(served.address(), &Identity::admin(&kept.data()));
        for number in 0..maps {
            client.must(201, "POST", MAPS, Some(&map(number)));
        }
        assert_eq!(served.stop().code, 0);
        kept
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn store(&self) -> PathBuf {
        self.data().join("objects.redb")
    }

    /// The exit code and the log of a server that does not start. One that starts must have all maps.
    fn refusal(&self) -> Option<(i32, String)> {
        match Running::try_start(program!().serve_command(&self.data())) {
            Ok(served) => {
                check(&mut Client::new(served.address(), &Identity::admin(&self.data())), self.maps);
                None
            }
            Err(finished) => Some((finished.code, finished.stderr)),
        }
    }

    /// Serving must end with exit code 3, name the file and say this.
    #[track_caller]
    fn is_refused(&self, what: &str) {
        let (code, log) = self.refusal().unwrap_or_else(|| panic!("it serves what {what}"));
        assert_eq!(code, 3, "{log}");
        assert!(log.contains(self.store().to_str().unwrap()), "which file: {log}");
        assert!(log.contains(what), "{log}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
}

#[test]
fn a_store_that_lost_something_is_refused_with_what_to_do() {
    let kept = Kept::new(12);
    let good = fs::read(kept.store()).unwrap();

    for other in [String::new(), "no store at all, but some text\n".repeat(2_000)] {
        fs::write(kept.store(), &other).unwrap();
        kept.is_refused("is not a store");
        assert_eq!(fs::read_to_string(kept.store()).unwrap(), other, "what is not ours is left alone");
    }
    fs::remove_file(kept.store()).unwrap();
    kept.is_refused("is gone");
    assert!(!kept.store().exists());
    fs::write(kept.store(), &good).unwrap();
    assert_eq!(kept.refusal(), None, "the whole file is served again");
}

#[test]
fn an_older_copy_is_refused_until_that_is_meant() {
    let mut kept = Kept::new(5);
    let copied = kept.scratch.path().join("copy");
    copy(&kept.store(), &copied);
    let served = program!().serve(&kept.data());
    let mut client = Client::new(served.address(), &Identity::admin(&kept.data()));
    for number in 5..8 {
        client.must(201, "POST", MAPS, Some(&map(number)));
    }
    assert_eq!(served.stop().code, 0);
    copy(&copied, &kept.store());
    kept.is_refused("older copy");
    fs::remove_file(kept.data().join("objects.redb.lock")).unwrap();
    kept.maps = 5;
    assert_eq!(kept.refusal(), None, "restored as docs/backup.md says");
}

#[test]
fn a_damaged_store_is_refused_or_whole_and_never_another() {
    let kept = Kept::new(12);
    let good = fs::read(kept.store()).unwrap();
    let mut refused = 0;
    for round in 0..40 {
        let mut bytes = good.clone();
        let at = dice(round) as usize % bytes.len();
        match round % 4 {
            // One bit, a lost page, a torn end.
            0 | 1 => bytes[at] ^= 1 << (dice(round) % 8),
            2 => {
                let end = bytes.len().min(at + 4_096);
                bytes[at..end].fill(0);
            }
            _ => bytes.truncate(at),
        }
        fs::write(kept.store(), &bytes).unwrap();
        if let Some((code, log)) = kept.refusal() {
            refused += 1;
            assert_eq!(code, 3, "{log}");
            assert!(log.contains(kept.store().to_str().unwrap()), "{log}");
        }
    }
    assert!(refused >= 10, "only {refused} were noticed");
}

#[test]
fn a_second_process_on_the_same_directory_is_refused() {
    let kept = Kept::new(3);
    let served = program!().serve(&kept.data());
    let mut client = Client::new(served.address(), &Identity::admin(&kept.data()));
    let (code, log) = kept.refusal().unwrap();
    assert_eq!(code, 3, "{log}");
    assert!(log.contains("in use"), "{log}");
    check(&mut client, 3);
}

#[test]
fn a_backup_is_written_on_demand_while_clients_write_and_restores_to_one_moment() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let mut client = Client::new(served.address(), &Identity::admin(&data));
    let mut written = 0;
    let mut write = |count: usize| {
        for _ in 0..count {
            client.must(201, "POST", MAPS, Some(&map(written)));
            written += 1;
        }
        written
    };
    let before = write(40);
    served.signal("USR1");
    let found = || -> Option<PathBuf> {
        let entries = fs::read_dir(data.join("backups")).ok()?;
        let mut paths = entries.map(|entry| entry.unwrap().path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "redb"))
    };
    let (backup, after) = loop {
        let after = write(1);
        if let Some(backup) = found() {
            break (backup, after);
        }
        assert!(after < 5_000, "there is no backup");
    };
    assert_eq!(served.stop().code, 0);

    // As docs/backup.md says.
    fs::remove_file(data.join("objects.redb")).unwrap();
    fs::remove_file(data.join("objects.redb.lock")).unwrap();
    copy(&backup, &data.join("objects.redb"));
    let served = program!().serve(&data);
    let mut client = Client::new(served.address(), &Identity::admin(&data));
    let list = client.must(200, "GET", MAPS, None);
    let names =
        list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap());
    let restored = names.filter(|name| name.starts_with("m-")).count();
    assert!((before..=after).contains(&restored), "{restored} of {before} to {after}");
    check(&mut client, restored);
    client.must(201, "POST", MAPS, Some(&map(restored)));
}

/// A configuration of encryption at rest: the providers of secrets.
fn encryption(providers: &Value) -> String {
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": providers}]})
    .to_string()
}

/// The files of a folder, and of those below it, that hold a text.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path).unwrap().windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path);
        }
    }
    found
}

#[test]
fn secrets_are_encrypted_on_disk_and_keys_change_with_a_restart() {
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    const PASSWORD: &str = "cGFzc3dvcmQgb2YgdGhlIGRhdGFiYXNl";
    const READABLE: &str = "secrets are readable in the files of the store";
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let secret = json!({"metadata": {"name": "database"}, "data": {"password": PASSWORD}});
    let served = program!().serve(&data);
    let mut client = Client::new(served.address(), &Identity::admin(&data));
    client.must(201, "POST", SECRETS, Some(&secret));
    let written = client.must(200, "GET", &format!("{SECRETS}/database"), None);
    let Finished { stderr: log, .. } = served.stop();
    assert!(log.contains(READABLE) && log.contains("--encryption-provider-config"), "{log}");
    assert_eq!(files_with(&data, PASSWORD), [data.join("objects.redb")]);

    let old = json!({"aesgcm": {"keys": [{"name": "old", "secret": "FI7YBrYKmEP5VmKOytaaGA=="}]}});
    let new = json!({"secretbox": {"keys": [{"name": "new", "secret": "G+oU8IfRSp1hA8Fq9RBTcy+hvsVBYKU4j3gNjykpEU8="}]}});
    let with = |providers: &Value| {
        let file = scratch.write("encryption.json", encryption(providers));
        let mut command = program!().serve_command(&data);
        command.arg("--encryption-provider-config").arg(file);
        command
    };
    for providers in [json!([old, {"identity": {}}]), json!([new, old]), json!([new])] {
        let served = Running::start(with(&providers));
        let mut client = Client::new(served.address(), &Identity::admin(&data));
        assert_eq!(client.must(200, "GET", &format!("{SECRETS}/database"), None), written);
        served.signal("USR1");
        until("the backup is there", || served.log().contains("objects-"));
        let Finished { code, stderr: log, .. } = served.stop();
        assert!(code == 0 && !log.contains(READABLE), "{log}");
        assert_eq!(files_with(&data, PASSWORD), [] as [PathBuf; 0]);
    }
    for (mut command, part) in [
        (program!().serve_command(&data), "--encryption-provider-config"),
        (with(&json!([old, {"identity": {}}])), "with the key \"new\""),
    ] {
        let refused = Finished::of(&mut command);
        assert_eq!(refused.code, 3, "{refused:?}");
        assert!(refused.stderr.contains(part) && refused.stderr.contains("objects.redb"), "{refused:?}");
    }
    let refused = Finished::of(&mut with(&json!([{"kms": {"name": "a"}}])));
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("resources[0].providers[0].kms"), "{refused:?}");
    // As it was before: readable again.
    let served = Running::start(with(&json!([{"identity": {}}, new])));
    let mut client = Client::new(served.address(), &Identity::admin(&data));
    assert_eq!(client.must(200, "GET", &format!("{SECRETS}/database"), None), written);
    assert_eq!(served.stop().code, 0);
    let served = program!().serve(&data);
    let mut client = Client::new(served.address(), &Identity::admin(&data));
    assert_eq!(client.must(200, "GET", &format!("{SECRETS}/database"), None), written);
}
