//! Rewriting what another key, another provider or another media type has left.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;

use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

use crate::store::support::{
    config_map, encryption, fill, kept, objects, provider, recording, revision, served, store, stored, text,
    write_export,
};

#[test]
fn after_a_rewrite_every_value_has_the_first_key_and_says_what_it_said() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let mut values = recording("etcd-registry/registry-protobuf.jsonl");
    let sealed = recording("etcd-registry/encryption.jsonl");
    let secrets: Vec<String> = sealed.keys().cloned().collect();
    values.extend(sealed);
    fill(&etcd, &values);
    let lease = etcd.etcdctl(["lease", "grant", "3000"]).ok();
    let lease = lease.split_whitespace().nth(1).unwrap().to_owned();
    let event = values.keys().find(|key| key.starts_with("/registry/events/")).unwrap().clone();
    // Written again as it is, with a lease.
    let file = scratch.write("event", &values[&event].value);
    let input =
        format!("etcdctl --endpoints {} put --lease={lease} {event} < {}", etcd.endpoint(), text(&file));
    portcullis_testkit::tool::run("sh", ["-c", &format!("ETCDCTL_API=3 {input}")]);
    let leased = kept(&etcd, &event)["lease"].clone();
    assert!(leased.is_number());

    let configurations = recorded::lines("etcd-registry/encryption.jsonl")[0]["configurations"].clone();
    let endpoint = etcd.endpoint();
    let due = served(&values);
    let prefixes = [
        "k8s:enc:aescbc:v1:cbc1:",
        "k8s:enc:aesgcm:v1:gcm1:",
        "k8s:enc:secretbox:v1:box1:",
        "k8s:enc:aescbc:v1:small:",
        "{",
    ];
    for (number, configuration) in configurations.as_array().unwrap().iter().enumerate() {
        let file = scratch.write("keys.json", configuration.to_string());
        let at = ["--etcd-servers", &*endpoint, "--encryption-provider-config", text(&file)];
        let done = store(&[&["rewrite"], &at[..]].concat());
        assert_eq!(done.code, 0, "{done:#?}");
        for key in &secrets {
            assert!(stored(&etcd, key).starts_with(prefixes[number].as_bytes()), "{key}");
        }
        for (key, one) in &values {
            let value = stored(&etcd, key);
            let is_served = !one.shown.is_null();
            if is_served && !key.contains("/secrets/") {
                assert!(value.starts_with(b"{"), "{key}");
            } else if !is_served {
                assert_eq!(value, one.value, "{key}");
            }
        }
        // All is done: nothing is left for a second run.
        let at_end = revision(&etcd);
        let again = store(&[&["rewrite"], &at[..]].concat());
        assert!(again.stdout.contains(" 0 rewritten"), "{again:#?}");
        let check = store(&[&["check"], &at[..]].concat());
        assert!(check.code == 0 && check.stdout.contains(" 0 stale"), "{check:#?}");
        assert_eq!(revision(&etcd), at_end);
        let to = scratch.path().join(format!("to-{number}"));
        assert_eq!(store(&[&["export", "--to", text(&to)], &at[..]].concat()).code, 0);
        let found = objects(&to);
        for (name, object) in &due {
            assert_eq!(found.get(name), Some(object), "{name}");
        }
        assert_eq!(found.len(), due.len());
    }
    assert_eq!(kept(&etcd, &event)["lease"], leased, "an event keeps the time that it has left");
}

#[test]
fn a_key_can_be_taken_away_after_a_rewrite_of_the_file() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "type": "Opaque"});
    let from =
        write_export(&scratch, "saved", [("core/secrets", secret), ("core/configmaps", config_map("a", 1))]);
    let old = encryption(&scratch, "old.json", &json!([provider("old", 'M')]));
    let both = encryption(&scratch, "both.json", &json!([provider("new", 'Q'), provider("old", 'M')]));
    let new = encryption(&scratch, "new.json", &json!([provider("new", 'Q')]));
    let run = |arguments: &[&str], keys: &std::path::Path| {
        let done = store(
            &[arguments, &["--data-dir", text(&data), "--encryption-provider-config", text(keys)]].concat(),
        );
        assert_eq!(done.code, 0, "{done:#?}");
        done.stdout
    };
    run(&["import", "--from", text(&from)], &old);
    assert!(run(&["check"], &both).contains("2 objects, 1 stale, 0 cannot be read"));
    assert!(run(&["rewrite"], &both).contains("2 values read, 1 rewritten"));
    assert!(run(&["rewrite"], &new).contains(" 0 rewritten"));
    let held = fs::read(data.join("objects.redb")).unwrap();
    let holds = |text: &[u8]| held.windows(text.len()).any(|window| window == text);
    assert!(holds(b"secretbox:v1:new:") && !holds(b"secretbox:v1:old:"));
    assert!(run(&["rewrite", "--all"], &new).contains("2 rewritten"));
    let to = scratch.path().join("to");
    run(&["export", "--to", text(&to)], &new);
    assert_eq!(objects(&to), objects(&from));
}

#[test]
fn a_rewrite_loses_no_change_that_a_server_makes_meanwhile() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let data = scratch.path().join("data");
    let endpoint = etcd.endpoint();
    let mut command = program!().serve_command(&data);
    command.args(["--etcd-servers", &endpoint]);
    let served = Running::start(command);
    let names: Vec<String> = (0..20).map(|number| format!("m{number}")).collect();
    let mut client = Client::new(served.address(), &Identity::admin(&data));
    let path = "/api/v1/namespaces/default/configmaps";
    for name in &names {
        client.must(201, "POST", path, Some(&json!({"metadata": {"name": name}, "data": {"n": "0"}})));
    }
    let is_done = AtomicBool::new(false);
    let written = scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = Client::new(served.address(), &Identity::admin(&data));
            let mut count = 0_u64;
            while !is_done.load(Ordering::Relaxed) {
                count += 1;
                for name in &names {
                    let patch = json!({"data": {"n": count.to_string()}});
                    client.must(200, "PATCH", &format!("{path}/{name}"), Some(&patch));
                }
            }
            count
        });
        for _ in 0..10 {
            let done = store(&["rewrite", "--all", "--etcd-servers", &endpoint]);
            assert_eq!(done.code, 0, "{done:#?}");
        }
        is_done.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    for name in &names {
        let found = client.must(200, "GET", &format!("{path}/{name}"), None);
        assert_eq!(found["data"]["n"], json!(written.to_string()), "{name}");
        let value: Value =
            serde_json::from_slice(&stored(&etcd, &format!("/registry/configmaps/default/{name}"))).unwrap();
        assert_eq!(value["data"]["n"], json!(written.to_string()), "{name}");
    }
    assert_eq!(served.stop().code, 0);
}
