//! Moves in all directions, of what a kube-apiserver wrote.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

use crate::store::support::{
    encryption, files, fill, kept, manifest, moved, objects, provider, recording, revision, served, store,
    stored, text,
};

fn exports_what_a_cluster_showed(name: &str) {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let recording = recording(name);
    fill(&etcd, &recording);
    let before = revision(&etcd);
    let to = scratch.path().join("saved");
    let done = store(&["export", "--etcd-servers", &etcd.endpoint(), "--to", text(&to)]);
    assert_eq!(done.code, 0, "{done:#?}");
    let due = served(&recording);
    assert!(due.len() > 200, "{}", due.len());
    let found = objects(&to);
    for (name, object) in &due {
        assert_eq!(found.get(name), Some(object), "{name}");
    }
    assert_eq!(found.len(), due.len());
    let manifest = manifest(&to);
    assert_eq!((&manifest["source"], &manifest["revision"]), (&json!("etcd"), &json!(before)));
    let counts: u64 = manifest["resources"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(counts, due.len() as u64);
    for path in ["core/nodes/node-a.yaml", "rbac.authorization.k8s.io/clusterroles/system%3Anode.yaml"] {
        assert!(to.join(path).exists(), "{path}: {:?}", files(&to).keys().collect::<Vec<_>>());
    }
    assert_eq!(revision(&etcd), before, "nothing is written to etcd");
    for word in ["ranges 1", "masterleases 1"] {
        assert!(done.stderr.contains(word), "{word}: {}", done.stderr);
    }
    assert!(done.stdout.contains("secrets in plain text"), "{}", done.stdout);
}

#[test]
fn an_export_of_the_etcd_of_a_cluster_has_every_object_as_the_cluster_showed_it_in_protobuf() {
    exports_what_a_cluster_showed("etcd-registry/registry-protobuf.jsonl");
}

#[test]
fn an_export_of_the_etcd_of_a_cluster_has_every_object_as_the_cluster_showed_it_in_json() {
    exports_what_a_cluster_showed("etcd-registry/registry-json.jsonl");
}

#[test]
fn objects_are_equal_after_a_way_through_both_stores_and_back_with_encryption_on_the_way() {
    let (first, second, scratch) = (Etcd::start(), Etcd::start(), Scratch::new());
    fill(&first, &recording("etcd-registry/registry-protobuf.jsonl"));
    let keys = encryption(&scratch, "keys.json", &json!([provider("one", 'A'), {"identity": {}}]));
    let others = encryption(&scratch, "others.json", &json!([provider("two", 'E')]));
    let path = |name: &str| scratch.path().join(name);
    let (data, dirs) = (path("data"), ["1", "2", "3", "4"].map(path));
    let run = |arguments: &[&str]| {
        let done = store(arguments);
        assert_eq!(done.code, 0, "{arguments:?}: {done:#?}");
        done
    };
    run(&["export", "--etcd-servers", &first.endpoint(), "--to", text(&dirs[0])]);
    let (data_dir, with_keys) = (["--data-dir", text(&data)], ["--encryption-provider-config", text(&keys)]);
    let import =
        |from: usize, target: &[&str]| run(&[&["import", "--from", text(&dirs[from])], target].concat());
    let export = |to: usize, source: &[&str]| run(&[&["export", "--to", text(&dirs[to])], source].concat());
    let encrypted = [data_dir, with_keys].concat();
    import(0, &encrypted);
    export(1, &encrypted);
    let endpoint = second.endpoint();
    let elsewhere = [
        "--etcd-servers",
        &endpoint,
        "--etcd-prefix",
        "/other",
        "--encryption-provider-config",
        text(&others),
    ];
    let done = import(1, &elsewhere);
    assert!(!done.stdout.contains("Secrets are readable"), "{}", done.stdout);
    export(2, &elsewhere);
    assert!(stored(&second, "/other/secrets/team-a/basic").starts_with(b"k8s:enc:secretbox:v1:two:"));
    assert!(kept(&second, "/other/minions/node-a").is_object());
    let events = second.keys("/other/events/");
    assert!(!events.is_empty());
    for key in events {
        assert!(kept(&second, &key)["lease"].as_i64().is_some_and(|lease| lease != 0), "{key} has a lease");
    }
    let back = path("back");
    import(2, &["--data-dir", text(&back)]);
    export(3, &["--data-dir", text(&back)]);
    let all = files(&dirs[0]);
    assert!(all.len() > 200);
    for dir in &dirs[1..] {
        assert!(files(dir) == all, "{} differs", dir.display());
    }
    let held = fs::read(data.join("objects.redb")).unwrap();
    let holds = |text: &[u8]| held.windows(text.len()).any(|window| window == text);
    assert!(holds(b"k8s:enc:secretbox:v1:one:"));
    // Neither the files nor the folders can be read by others.
    for file in [&dirs[0], &dirs[0].join("core"), &data] {
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o700, "{}", file.display());
    }
    for file in
        [dirs[0].join("manifest.yaml"), dirs[0].join("core/nodes/node-a.yaml"), data.join("objects.redb")]
    {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }
}

/// All objects of some kinds, as a server shows them.
fn shown(served: &Running, data: &std::path::Path) -> Vec<Value> {
    let mut client = Client::new(served.address(), &Identity::admin(data));
    let lists = [
        "/api/v1/secrets",
        "/api/v1/configmaps",
        "/api/v1/services",
        "/api/v1/nodes",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    ];
    let items = lists.map(|path| client.must(200, "GET", path, None)["items"].as_array().unwrap().clone());
    items.concat().iter().map(moved).collect()
}

#[test]
fn a_server_goes_on_in_etcd_where_it_stopped_with_its_file() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let (data, saved) = (scratch.path().join("data"), scratch.path().join("saved"));
    // Without controllers nothing but the test changes objects.
    let embedded = || {
        let mut command = program!().serve_command(&data);
        command.arg("--controllers=");
        command
    };
    let served = Running::start(embedded());
    let mut client = Client::new(served.address(), &Identity::admin(&data));
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "yes: \"no\"\n"}});
    client.must(201, "POST", "/api/v1/namespaces/default/secrets", Some(&secret));
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    client.must(201, "POST", "/api/v1/namespaces/default/services", Some(&service));
    let before = shown(&served, &data);
    assert!(before.len() > 100);
    assert_eq!(served.stop().code, 0);
    let (endpoint, from) = (etcd.endpoint(), ["--data-dir", text(&data)]);
    assert_eq!(store(&[&["export", "--to", text(&saved)], &from[..]].concat()).code, 0);
    assert_eq!(store(&["import", "--from", text(&saved), "--etcd-servers", &endpoint]).code, 0);
    let mut command = embedded();
    command.args(["--etcd-servers", &endpoint]);
    let served = Running::start(command);
    let after = shown(&served, &data);
    for object in &before {
        // The server writes these two at every start.
        let name = object["metadata"]["name"].as_str().unwrap();
        if !["extension-apiserver-authentication", "kubernetes"].contains(&name) {
            assert!(after.contains(object), "{object}");
        }
    }
    assert_eq!(after.len(), before.len());
    assert_eq!(served.stop().code, 0);
}

#[test]
fn what_this_program_does_not_serve_stays_in_etcd_as_it_was() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let foreign = [
        "/registry/ranges/a",
        "/registry/example.com/widgets/a/b",
        "/registry.portcullis",
        "/elsewhere",
        "/registry/",
    ];
    for key in foreign {
        etcd.put(key, b"k8s\0not ours");
    }
    let before: Vec<Value> = foreign.iter().map(|key| kept(&etcd, key)).collect();
    let from = crate::store::support::write_export(
        &scratch,
        "saved",
        [("core/configmaps", crate::store::support::config_map("a", 1))],
    );
    let endpoint = etcd.endpoint();
    let at = ["--etcd-servers", &*endpoint];
    for arguments in [&["import", "--from", text(&from)][..], &["rewrite", "--all"], &["check"]] {
        let done = store(&[arguments, &at].concat());
        assert_eq!(done.code, 0, "{done:#?}");
    }
    let to = scratch.path().join("to");
    let done = store(&[&["export", "--to", text(&to)], &at[..]].concat());
    assert!(done.code == 0 && done.stderr.contains("widgets.example.com 1"), "{done:#?}");
    assert_eq!(files(&to).len(), 1);
    let after: Vec<Value> = foreign.iter().map(|key| kept(&etcd, key)).collect();
    assert_eq!(before, after);
}
