//! Exports that are not what they were, values that cannot be read, and flags that make no sense.

use std::fs;
use std::path::Path;

use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

use crate::store::support::{
    config_map, encryption, files, fill, kept, manifest, provider, recording, store, stored, text,
    write_export,
};

fn damage(name: &str, root: &Path) {
    let a = root.join("core/configmaps/default/a.yaml");
    let change = |from: &str, to: &str| {
        let text = fs::read_to_string(&a).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&a, text.replace(from, to)).unwrap();
    };
    let manifest = root.join("manifest.yaml");
    match name {
        "empty" => fs::write(&a, "").unwrap(),
        "cut" => change("\"}", ""),
        "binary" => fs::write(&a, b"\xff\xfe").unwrap(),
        "renamed" => fs::rename(&a, a.with_file_name("other.yaml")).unwrap(),
        "twice" => drop(fs::copy(&a, a.with_file_name("%61.yaml")).unwrap()),
        "field" => change("\"data\"", "\"dada\""),
        "key" => change("\"data\"", "\"kind\": \"ConfigMap\", \"data\""),
        "type" => change("\"xxxx\"", "7"),
        "kind" => change("ConfigMap", "Secret"),
        "namespace" => change("\"default\"", "\"other\""),
        "gone" => fs::remove_file(&a).unwrap(),
        "more" => {
            fs::write(root.join("core/configmaps/default/b.yaml"), config_map("b", 4).to_string()).unwrap()
        }
        "stranger" => fs::write(root.join("notes.txt"), "x").unwrap(),
        "unknown kind" => {
            fs::create_dir_all(root.join("example.com/widgets/default")).unwrap();
            fs::write(root.join("example.com/widgets/default/w.yaml"), "{}").unwrap();
        }
        "link" => {
            fs::rename(&a, root.join("moved.yaml")).unwrap();
            std::os::unix::fs::symlink(root.join("moved.yaml"), &a).unwrap();
        }
        "incomplete" => fs::remove_file(&manifest).unwrap(),
        "version" => {
            let text = fs::read_to_string(&manifest).unwrap();
            fs::write(&manifest, text.replace("portcullis.dev/v1", "portcullis.dev/v2")).unwrap();
        }
        _ => panic!("{name}"),
    }
}

#[test]
fn nothing_is_written_of_an_export_in_which_anything_is_wrong() {
    let etcd = Etcd::start();
    let cases = [
        ("empty", "core/configmaps/default/a.yaml: the file is empty"),
        ("cut", "core/configmaps/default/a.yaml: "),
        ("binary", "core/configmaps/default/a.yaml: "),
        ("renamed", "core/configmaps/default/other: has the metadata.name \"a\", but its key says \"other\""),
        ("twice", "core/configmaps/default/%61.yaml: is no file of an export"),
        ("field", "core/configmaps/default/a: has an unknown field \"dada\""),
        ("key", "the key kind is given twice"),
        ("type", "core/configmaps/default/a: is not a ConfigMap"),
        ("kind", "has the kind \"Secret\", not ConfigMap"),
        ("namespace", "has the metadata.namespace \"other\", but its key says \"default\""),
        ("gone", "core/configmaps: there are 0 files where the manifest says 1"),
        ("more", "core/configmaps: there are 2 files where the manifest says 1"),
        ("stranger", "notes.txt: is no file of an export"),
        ("unknown kind", "example.com/widgets/default/w: "),
        ("link", "core/configmaps/default/a.yaml: is no file of an export"),
        ("incomplete", "not a complete export"),
        ("version", "portcullis.dev/v2"),
    ];
    for (name, problem) in cases {
        let scratch = Scratch::new();
        let objects = [
            ("core/configmaps", config_map("a", 4)),
            (
                "core/secrets",
                json!({"apiVersion": "v1",
            "kind": "Secret", "metadata": {"name": "good", "namespace": "default"}}),
            ),
        ];
        let from = write_export(&scratch, "saved", objects);
        damage(name, &from);
        let data = scratch.path().join("data");
        let done = store(&["import", "--from", text(&from), "--etcd-servers", &etcd.endpoint()]);
        assert!(done.stderr.contains(problem), "{name}: {done:#?}");
        done.refused(&[]);
        let done = store(&["import", "--from", text(&from), "--data-dir", text(&data)]);
        done.refused(&[problem]);
        assert!(!data.exists(), "{name}");
    }
    assert_eq!(etcd.keys("/"), Vec::<String>::new());
}

/// Nobody could read such objects after the import.
#[test]
fn custom_objects_are_imported_with_a_definition_that_can_be_served_and_not_without() {
    let object = |version: &str| {
        json!({"apiVersion": format!("stable.example.com/{version}"), "kind": "CronTab",
            "metadata": {"name": "a", "namespace": "default"}, "spec": {"size": 1}})
    };
    let definition = |strategy: Value| {
        let version = json!({"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "crontabs.stable.example.com"},
            "spec": {"group": "stable.example.com", "scope": "Namespaced", "conversion": strategy,
                "names": {"plural": "crontabs", "kind": "CronTab"}, "versions": [version]}})
    };
    let webhook = json!({"strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "https://example.com"}, "conversionReviewVersions": ["v1"]}});
    let none = json!({"strategy": "None"});
    for (definition, version, problem) in [
        (None, "v1", Some("no definition describes")),
        (Some(definition(webhook)), "v1", Some("this server would refuse")),
        (Some(definition(none.clone())), "v2", Some("stable.example.com/v2")),
        (Some(definition(none)), "v1", None),
    ] {
        let (etcd, scratch) = (Etcd::start(), Scratch::new());
        let mut objects = vec![("stable.example.com/crontabs", object(version))];
        objects.extend(definition.map(|it| ("apiextensions.k8s.io/customresourcedefinitions", it)));
        let from = write_export(&scratch, "saved", objects);
        let data = scratch.path().join("data");
        for target in [["--etcd-servers", &etcd.endpoint()], ["--data-dir", text(&data)]] {
            let done = store(&[&["import", "--from", text(&from)], &target[..]].concat());
            match problem {
                Some(problem) => done.refused(&[problem]),
                None => {
                    assert_eq!(done.code, 0, "{done:#?}");
                    let check = store(&[&["check"], &target[..]].concat());
                    assert!(check.stdout.contains("2 objects, 0 stale, 0 cannot be read"), "{check:#?}");
                }
            }
        }
        if problem.is_none() {
            let kept = kept(&etcd, "/registry/stable.example.com/crontabs/default/a");
            assert!(kept.is_object());
        }
    }
}

#[test]
fn values_that_cannot_be_read_are_named_and_stay_as_they_are() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let broken = [
        ("/registry/configmaps/default/text", &b"garbage"[..]),
        ("/registry/configmaps/default/blank", b" "),
        ("/registry/secrets/default/other", b"{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"x\",\"namespace\":\"default\"}}"),
        ("/registry/pods/default/proto", b"k8s\0garbage"),
        ("/registry/secrets/default/sealed", b"k8s:enc:aesgcm:v1:gone:garbage"),
    ];
    for (key, value) in broken {
        etcd.put(key, value);
    }
    etcd.put("/registry/configmaps/default/good", config_map("good", 3).to_string().as_bytes());
    let before: Vec<Value> = broken.iter().map(|(key, _)| kept(&etcd, key)).collect();
    let endpoint = etcd.endpoint();
    let at = ["--etcd-servers", &*endpoint];
    let (to, again) = (scratch.path().join("to"), scratch.path().join("again"));
    let runs = [
        store(&[&["check"], &at[..]].concat()),
        store(&[&["rewrite", "--all"], &at[..]].concat()),
        store(&[&["export", "--to", text(&to)], &at[..]].concat()),
        store(&[&["export", "--skip-unreadable", "--to", text(&again)], &at[..]].concat()),
    ];
    for done in &runs {
        assert_eq!(done.code, 1, "{done:#?}");
        for (key, _) in broken {
            assert!(done.stderr.contains(&format!("error: the value of {key} ")), "{key}: {done:#?}");
        }
        assert!(!done.stderr.contains("default/good"), "{done:#?}");
    }
    assert!(runs[0].stdout.contains("1 object, 0 stale, 5 cannot be read"), "{}", runs[0].stdout);
    assert!(runs[1].stdout.contains("1 value read, 1 rewritten, 5 cannot be read"), "{}", runs[1].stdout);
    assert!(!to.join("manifest.yaml").exists());
    let data = scratch.path().join("data");
    store(&["import", "--from", text(&to), "--data-dir", text(&data)]).refused(&["not a complete export"]);
    let left_out = manifest(&again)["leftOut"].as_array().unwrap().len();
    assert_eq!((files(&again).len(), left_out), (1, 5));
    assert_eq!(store(&["import", "--from", text(&again), "--data-dir", text(&data)]).code, 0);
    let after: Vec<Value> = broken.iter().map(|(key, _)| kept(&etcd, key)).collect();
    assert_eq!(before, after);
}

#[test]
fn without_its_key_an_encrypted_object_is_named_and_none_is_taken_for_another() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let recording = recording("etcd-registry/encryption.jsonl");
    fill(&etcd, &recording);
    let endpoint = etcd.endpoint();
    let encrypted: Vec<&String> =
        recording.iter().filter(|(_, one)| one.value.starts_with(b"k8s:enc:")).map(|(key, _)| key).collect();
    assert!(encrypted.len() > 5, "{encrypted:?}");
    let wrong = encryption(&scratch, "wrong.json", &json!([provider("box1", 'Y'), {"identity": {}}]));
    for config in [&[][..], &["--encryption-provider-config", text(&wrong)]] {
        let done = store(&[&["check", "--etcd-servers", &*endpoint], config].concat());
        assert_eq!(done.code, 1, "{done:#?}");
        for key in &encrypted {
            assert!(done.stderr.contains(&format!("error: the value of {key} ")), "{key}: {done:#?}");
        }
        assert_eq!(done.stderr.matches("error: ").count(), encrypted.len());
    }
    // The file of a data directory, too.
    let keys = encryption(&scratch, "keys.json", &json!([provider("k", 'I')]));
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}});
    let from =
        write_export(&scratch, "saved", [("core/secrets", secret), ("core/configmaps", config_map("a", 1))]);
    let data = scratch.path().join("data");
    let sealed = ["--data-dir", text(&data), "--encryption-provider-config", text(&keys)];
    assert_eq!(store(&[&["import", "--from", text(&from)], &sealed[..]].concat()).code, 0);
    assert_eq!(store(&[&["check"], &sealed[..]].concat()).code, 0);
    let before = fs::read(data.join("objects.redb")).unwrap();
    let to = scratch.path().join("to");
    for command in [&["check"][..], &["rewrite"], &["export", "--to", text(&to)]] {
        let done = store(&[command, &["--data-dir", text(&data)]].concat());
        assert_eq!(done.code, 1, "{done:#?}");
        assert!(
            done.stderr.contains("error: the value of /core/secrets/default/s was encrypted"),
            "{done:#?}"
        );
    }
    let after = fs::read(data.join("objects.redb")).unwrap();
    assert!(before.len() == after.len() && !to.join("manifest.yaml").exists());
    assert_eq!(store(&[&["check"], &sealed[..]].concat()).code, 0);
}

#[test]
fn an_export_never_writes_into_a_directory_with_files() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let file = scratch.write("to/notes.txt", "mine");
    let to = scratch.path().join("to");
    let done = store(&["export", "--etcd-servers", &etcd.endpoint(), "--to", text(&to)]);
    done.refused(&["--to", "not empty"]);
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
    // An empty store is an export as well.
    let to = scratch.path().join("empty");
    assert_eq!(store(&["export", "--etcd-servers", &etcd.endpoint(), "--to", text(&to)]).code, 0);
    let data = scratch.path().join("data");
    assert_eq!(store(&["import", "--from", text(&to), "--data-dir", text(&data)]).code, 0);
}

#[test]
fn the_flags_must_name_one_store_that_can_be_reached() {
    let scratch = Scratch::new();
    let from = write_export(&scratch, "saved", [("core/configmaps", config_map("a", 1))]);
    for arguments in [
        &["check"][..],
        &["check", "--data-dir", "d", "--etcd-servers", "http://127.0.0.1:1"],
        &["check", "--etcd-servers", "127.0.0.1:1"],
        &["check", "--etcd-servers", "http://127.0.0.1:1", "--etcd-prefix", "/"],
        &["check", "--data-dir", "d", "--encryption-provider-config", "/nowhere"],
        &["import", "--data-dir", "d"],
        &["import", "--from", "/nowhere", "--data-dir", "d"],
        &["export", "--data-dir", "d"],
    ] {
        let done = store(arguments);
        assert_eq!((done.code, &*done.stdout), (2, ""), "{arguments:?}: {done:#?}");
    }
    let nobody = ["--etcd-servers", "http://127.0.0.1:1"];
    store(&[&["import", "--from", text(&from)], &nobody[..]].concat()).must(3, &["etcd cannot be reached"]);
    store(&[&["check"], &nobody[..]].concat()).must(3, &["etcd cannot be reached"]);
}

/// Reads back what is stored, so that a test that compares has something to compare.
#[test]
fn an_imported_object_lies_in_etcd_as_a_server_writes_it() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let recording = recording("etcd-registry/registry-json.jsonl");
    let (key, one) = recording.iter().find(|(key, _)| key.starts_with("/registry/services/specs/")).unwrap();
    let shown = crate::store::support::moved(&one.shown);
    let from = write_export(&scratch, "saved", [("core/services", shown)]);
    assert_eq!(store(&["import", "--from", text(&from), "--etcd-servers", &etcd.endpoint()]).code, 0);
    let written = stored(&etcd, key);
    let parsed = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    assert_eq!(parsed(&written), parsed(&one.value));
    assert!(written.ends_with(b"}\n"));
}
