//! `portcullis collect`, archives as state, and clusters as state: what is asked, what is kept, and that answers are the same.

use std::fs;
use std::path::Path;

use portcullis_testkit::program;
use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use serde_json::{Value, json};

use crate::audit::fake_cluster::{FakeCluster, list, objects, refusal, target, text};
use crate::audit::salt::{MARKER, assert_clean, salted};

#[track_caller]
pub(crate) fn collect(kubeconfig: &Path, output: &Path, flags: &[&str]) -> Finished {
    let fixed = ["collect", "--kubeconfig", text(kubeconfig), "-o", text(output)];
    program!().run(fixed.iter().chain(flags))
}

/// The nodes of an answer of `reach`.
#[track_caller]
pub(crate) fn nodes(source: &[&str]) -> Value {
    let fixed = ["reach", "-o", "json", "--now", "2026-01-01", "--allow-incomplete"];
    let run = program!().run(fixed.iter().chain(source));
    assert_eq!(run.code, 0, "{source:?}: {}", run.stderr);
    serde_json::from_str::<Value>(&run.stdout).unwrap()["nodes"].clone()
}

/// All files of a directory, decompressed: their names and their texts.
pub(crate) fn texts(folder: &Path) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let is_compressed = name.ends_with(".gz");
            (
                name,
                if is_compressed {
                    recorded::decompressed(&path)
                } else {
                    fs::read_to_string(&path).unwrap()
                },
            )
        })
        .collect();
    files.sort();
    files
}

pub(crate) fn manifest(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("manifest.json")).unwrap()).unwrap()
}

/// The entry of a resource in a manifest.
pub(crate) fn entry<'m>(manifest: &'m Value, resource: &str) -> &'m Value {
    let entries = manifest["resources"].as_array().unwrap();
    entries.iter().find(|entry| entry["resource"] == resource).unwrap()
}

/// The objects in the file of a resource.
pub(crate) fn kept(folder: &Path, file: &str) -> Vec<Value> {
    let text = recorded::decompressed(&folder.join(file));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Of a Secret and a ConfigMap what a list of metadata has.
fn without_values(mut object: Value) -> Value {
    if matches!(object["kind"].as_str(), Some("Secret" | "ConfigMap")) {
        for field in ["data", "stringData", "type", "binaryData"] {
            object.as_object_mut().unwrap().remove(field);
        }
    }
    object
}

/// The recorded states are those of the closure and of direct reach, with every kind of reference.
#[test]
fn reach_over_an_archive_and_over_a_cluster_is_reach_over_files_au_20() {
    let names = recorded::names();
    let states: Vec<&String> =
        names.iter().filter(|name| name.starts_with("audit/closure/") && name.contains("/state/")).collect();
    assert!(states.len() >= 16, "{states:?}");
    for name in states {
        let scratch = Scratch::new();
        let items: Vec<Value> = objects(&recorded::text(name)).into_iter().map(without_values).collect();
        let cluster = FakeCluster::start(&items, |_, _, _| None);
        let kubeconfig = cluster.kubeconfig();
        let (folder, tar) = (scratch.path().join("folder"), scratch.path().join("cluster.tar.gz"));
        for output in [&folder, &tar] {
            let run = collect(&kubeconfig, output, &["--secret-metadata"]);
            assert_eq!(run.code, 0, "{name}: {run:#?}");
        }
        // A state without the version of the server is one that may be old.
        let version = fs::read_to_string(folder.join("version.json")).unwrap();
        let files = scratch.write(
            "files/state.json",
            json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string(),
        );
        scratch.write("files/version.json", version);
        let expected = nodes(&["--state", text(files.parent().unwrap())]);
        assert!(expected.as_array().is_some_and(|nodes| !nodes.is_empty()), "{name}");
        for source in [
            &["--state", text(&folder)][..],
            &["--state", text(&tar)],
            &["--kubeconfig", text(&kubeconfig), "--secret-metadata"],
        ] {
            assert_eq!(nodes(source), expected, "{name}: {source:?}");
        }
    }
}

#[test]
fn a_cluster_is_asked_for_the_inputs_of_the_audit_and_for_nothing_else_au_10_au_17_au_18() {
    let scratch = Scratch::new();
    let cluster = FakeCluster::start(&[], |_, _, _| None);
    let run = collect(&cluster.kubeconfig(), &scratch.path().join("without"), &[]);
    assert_eq!((run.code, &*run.stderr), (0, ""), "{run:#?}");
    let all = cluster.asked();
    assert!(all.len() > 25, "{}", all.len());
    for asked in &all {
        assert!(asked.line.starts_with("GET ") && !asked.line.contains("secrets"), "{}", asked.line);
        let (path, query) = target(asked);
        let is_list =
            path != "/version" && path != "/api/v1/namespaces/kube-system/configmaps/kubelet-config";
        assert_eq!(query, if is_list { "limit=500" } else { "" }, "{path}");
        assert!(!path.ends_with("/configmaps"), "{path}");
        let agent = asked.head.iter().find(|line| line.starts_with("user-agent: ")).unwrap();
        assert!(agent.starts_with("user-agent: portcullis/") && agent.ends_with(" (audit)"), "{agent}");
    }
    let run = collect(&cluster.kubeconfig(), &scratch.path().join("with"), &["--secret-metadata"]);
    assert_eq!(run.code, 0, "{run:#?}");
    assert!(run.stderr.contains("Whoever gets this credential can read every secret"), "{}", run.stderr);
    let of_values: Vec<_> = cluster.asked().into_iter().skip(all.len()).collect();
    for plural in ["secrets", "configmaps"] {
        let asked = of_values.iter().find(|asked| target(asked).0 == format!("/api/v1/{plural}")).unwrap();
        // Nothing but metadata is accepted.
        let accept = asked.head.iter().find(|line| line.starts_with("accept: ")).unwrap();
        assert_eq!(accept, "accept: application/json;as=partialobjectmetadatalist;g=meta.k8s.io;v=v1");
    }
}

#[test]
fn pages_are_put_together_sorted_and_an_expired_list_starts_anew_au_17_au_20() {
    let pod = |name: &str| json!({"metadata": {"namespace": "b", "name": name}, "spec": {"nodeName": "n"}});
    let other = json!({"metadata": {"namespace": "a", "name": "z"}, "spec": {"nodeName": "n"}});
    let pages = move |path: &str, query: &str, count: usize| {
        (path == "/api/v1/pods").then(|| match (query, count) {
            ("limit=500", 0) => list(&[pod("old")], "gone"),
            ("limit=500&continue=gone", _) => refusal(410),
            ("limit=500", 2) => refusal(503),
            ("limit=500", _) => list(&[pod("d"), pod("c")], "more"),
            _ => list(&[other.clone(), pod("a")], ""),
        })
    };
    let scratch = Scratch::new();
    let cluster = FakeCluster::start(&[], pages);
    let folder = scratch.path().join("archive");
    assert_eq!(collect(&cluster.kubeconfig(), &folder, &[]).code, 0);
    let keys: Vec<String> = kept(&folder, "pods.core.jsonl.gz")
        .iter()
        .map(|pod| format!("{}/{}", pod["metadata"]["namespace"], pod["metadata"]["name"]).replace('"', ""))
        .collect();
    assert_eq!(keys, ["a/z", "b/a", "b/c", "b/d"]);
    let manifest = manifest(&folder);
    let expected = json!({
        "group": "", "resource": "pods", "asked": true, "outcome": "listed", "count": 4, "resourceVersion": "7",
    });
    assert_eq!(entry(&manifest, "pods"), &expected);
}

#[test]
fn what_is_refused_is_told_by_the_archive_and_by_every_command_over_it_au_21_au_22_au_23() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    let scratch = Scratch::new();
    let cluster = FakeCluster::start(&[node], |path, _, _| match path.rsplit('/').next().unwrap() {
        "rolebindings" => Some(refusal(403)),
        "volumeattachments" => Some(refusal(404)),
        "mutatingwebhookconfigurations" => Some(refusal(401)),
        "resourceslices" => Some(refusal(404)),
        "roles" => {
            Some(list(&[json!({"metadata": {"namespace": "a", "name": "broken"}, "rules": MARKER})], ""))
        }
        _ => None,
    });
    let kubeconfig = cluster.kubeconfig();
    let (folder, tar) = (scratch.path().join("archive"), scratch.path().join("archive.tgz"));
    for output in [&folder, &tar] {
        let run = collect(&kubeconfig, output, &[]);
        assert_eq!(run.code, 1, "{run:#?}");
        assert!(run.stderr.contains("warning: rolebindings: no: ask 192.0.2.7 (403)"), "{}", run.stderr);
        assert!(run.stderr.contains("warning: roles: Role a/broken: "), "{}", run.stderr);
    }
    let run = collect(&kubeconfig, &scratch.path().join("allowed"), &["--allow-incomplete"]);
    assert_eq!(run.code, 0, "{run:#?}");
    let manifest = manifest(&folder);
    for (resource, asked, outcome, code) in [
        ("rolebindings", true, "refused", json!(403)),
        ("mutatingwebhookconfigurations", true, "refused", json!(401)),
        ("volumeattachments", true, "failed", json!(404)),
        ("resourceslices", true, "absent", Value::Null),
        ("secrets", false, "not-asked", Value::Null),
        ("nodes", true, "listed", Value::Null),
    ] {
        let entry = entry(&manifest, resource);
        assert_eq!(
            (&entry["asked"], &entry["outcome"], &entry["code"]),
            (&json!(asked), &json!(outcome), &code),
            "{entry}"
        );
    }
    assert_eq!(entry(&manifest, "roles")["undecodable"], 1);
    for (name, text) in texts(&folder) {
        assert!(!text.contains("192.0.2.7") && !text.contains(MARKER), "{name}: {text}");
    }
    let sources = [["--state", text(&folder)], ["--state", text(&tar)], ["--kubeconfig", text(&kubeconfig)]];
    for source in sources {
        let run = program!().run(["reach", "-o", "json"].iter().chain(&source));
        assert_eq!(run.code, 1, "{source:?}: {run:#?}");
        let answer: Value = serde_json::from_str(&run.stdout).unwrap();
        let incomplete: Vec<(&str, &str)> = answer["incomplete"]
            .as_array()
            .unwrap()
            .iter()
            .map(|missing| (missing["input"].as_str().unwrap(), missing["why"].as_str().unwrap()))
            .collect();
        let expected = [
            ("kube-apiserver-flags", "not-given"),
            ("rolebindings", "refused"),
            ("secrets", "not-given"),
            ("volumeattachments", "failed"),
        ];
        // Pods, roles and the rest were listed, and there are none.
        assert_eq!(incomplete, expected, "{source:?}");
        assert_eq!(program!().run(["reach", "--allow-incomplete"].iter().chain(&source)).code, 0);
    }
    let who_can = ["who-can", "get", "secrets/db", "-n", "a", "-o", "json"];
    let run = program!().run(who_can.iter().chain(&["--state", text(&folder)]));
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(run.code, 1, "{answer:#}");
    let inputs: Vec<&str> =
        answer["incomplete"].as_array().unwrap().iter().map(|one| one["input"].as_str().unwrap()).collect();
    assert_eq!(inputs, ["rolebindings", "roles", "volumeattachments"], "{answer:#}");
}

#[test]
fn a_damaged_archive_is_refused_au_22() {
    let scratch = Scratch::new();
    let items: Vec<Value> = (0..300)
        .map(|number| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{number}")}}))
        .collect();
    let cluster = FakeCluster::start(&items, |_, _, _| None);
    let (folder, tar) = (scratch.path().join("archive"), scratch.path().join("archive.tar.gz"));
    for output in [&folder, &tar] {
        assert_eq!(collect(&cluster.kubeconfig(), output, &[]).code, 0);
    }
    let refused =
        |state: &Path, parts: &[&str]| program!().run(["reach", "--state", text(state)]).refused(parts);
    // Truncated anywhere.
    let whole = fs::read(&tar).unwrap();
    for length in [0, 10, whole.len() / 3, whole.len() / 2, whole.len() - 20, whole.len() - 1] {
        let cut = scratch.write("cut.tar.gz", &whole[..length]);
        refused(&cut, &["cut.tar.gz"]);
    }
    // A byte that changed.
    for at in [100, whole.len() / 2, whole.len() - 100, whole.len() - 6] {
        let mut changed = whole.clone();
        changed[at] ^= 0x40;
        refused(&scratch.write("changed.tar.gz", changed), &["changed.tar.gz"]);
    }
    // A file that is gone, or has other objects.
    fs::remove_file(folder.join("roles.rbac.authorization.k8s.io.jsonl.gz")).unwrap();
    refused(&folder, &["roles.rbac.authorization.k8s.io.jsonl.gz", "is missing"]);
    fs::copy(folder.join("pods.core.jsonl.gz"), folder.join("roles.rbac.authorization.k8s.io.jsonl.gz"))
        .unwrap();
    fs::copy(folder.join("pods.core.jsonl.gz"), folder.join("nodes.core.jsonl.gz")).unwrap();
    refused(&folder, &["nodes.core.jsonl.gz", "0 objects, and 300 by its manifest"]);
    // Another version.
    let manifest = fs::read_to_string(folder.join("manifest.json")).unwrap();
    fs::write(folder.join("manifest.json"), manifest.replace("portcullis.dev/v1", "portcullis.dev/v9"))
        .unwrap();
    refused(&folder, &["manifest.json", "portcullis.dev/v9"]);
    refused(&scratch.write("plain.tar.gz", "hello"), &["plain.tar.gz"]);
    refused(&scratch.write("plain.json.gz", "{}"), &["plain.json.gz", "gzip"]);
}

#[test]
fn archives_are_those_of_tar_in_both_directions() {
    let scratch = Scratch::new();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    let cluster = FakeCluster::start(&[node], |_, _, _| None);
    let (folder, tar) = (scratch.path().join("archive"), scratch.path().join("archive.tar.gz"));
    for output in [&folder, &tar] {
        assert_eq!(collect(&cluster.kubeconfig(), output, &[]).code, 0);
    }
    let unpacked = scratch.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    tool::run("tar", ["-xzf", text(&tar), "-C", text(&unpacked)]);
    // Equal but for the time.
    let of = |folder: &Path| {
        let mut texts = texts(folder);
        texts.retain(|(name, _)| name != "manifest.json");
        let mut manifest = manifest(folder);
        manifest["time"] = Value::Null;
        (texts, manifest)
    };
    assert_eq!(of(&unpacked), of(&folder));
    let expected = nodes(&["--state", text(&folder)]);
    for (format, name) in [("gnu", "gnu.tar.gz"), ("ustar", "ustar.tgz"), ("posix", "pax.tar.gz")] {
        let packed = scratch.path().join(name);
        // With a folder in front, a name that is too long for one field, and a file that is no state.
        let long = format!("{}/{}", "d".repeat(90), "f".repeat(90));
        scratch.write(&format!("archive/{long}.yaml"), "apiVersion: v1\nkind: Node\nmetadata: {name: far}\n");
        scratch.write("archive/README.txt", "no state");
        let format = format!("--format={format}");
        tool::run("tar", ["-czf", text(&packed), &format, "-C", text(scratch.path()), "archive"]);
        let answer = nodes(&["--state", text(&packed)]);
        let names: Vec<&str> =
            answer.as_array().unwrap().iter().map(|node| node["node"].as_str().unwrap()).collect();
        assert_eq!(names, ["far", "n1"]);
        assert_eq!(answer[1], expected[0]);
    }
    // Links are not followed.
    std::os::unix::fs::symlink("/etc/passwd", folder.join("link.json")).unwrap();
    let packed = scratch.path().join("link.tar.gz");
    tool::run("tar", ["-czf", text(&packed), "-C", text(&folder), "."]);
    program!().run(["reach", "--state", text(&packed)]).refused(&[
        "link.tar.gz",
        "link.json",
        "a link or a device",
    ]);
}

#[test]
fn nothing_is_overwritten_and_flags_that_contradict_are_refused() {
    let scratch = Scratch::new();
    let cluster = FakeCluster::start(&[], |_, _, _| None);
    let file = scratch.write("taken.tar.gz", "mine");
    let folder = scratch.write("taken/file", "mine");
    for path in [&file, &folder, &folder.parent().unwrap().to_owned()] {
        collect(&cluster.kubeconfig(), path, &[]).refused(&["--output", "there is something already"]);
    }
    assert_eq!((fs::read(&file).unwrap(), fs::read(&folder).unwrap()), (b"mine".to_vec(), b"mine".to_vec()));
    assert_eq!(cluster.asked().len(), 0);
    let state =
        scratch.write("state.json", r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}"#);
    for (flag, value) in [("--kubeconfig", "x"), ("--context", "x")] {
        program!().run(["reach", "--state", text(&state), flag, value]).refused(&[flag, "--state"]);
    }
    program!().run(["reach", "--state", text(&state), "--secret-metadata"]).refused(&["--secret-metadata"]);
    let away = collect(Path::new("/nonexistent"), &scratch.path().join("a"), &[]);
    away.refused(&["/nonexistent"]);
    // Nobody listens there.
    let nobody = cluster.kubeconfig_of("https://127.0.0.1:1");
    let run = collect(&nobody, &scratch.path().join("a"), &[]);
    assert_eq!((run.code, &*run.stdout), (3, ""), "{run:#?}");
    assert!(!scratch.path().join("a").exists());
}

#[test]
fn a_damaged_configuration_of_kubelets_is_missing_and_not_quoted_au_21() {
    let scratch = Scratch::new();
    let damaged = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": MARKER,
        "metadata": {"namespace": "kube-system", "name": "kubelet-config"}});
    let cluster = FakeCluster::start(&salted(), move |path, _, _| {
        let is_config = path == "/api/v1/namespaces/kube-system/configmaps/kubelet-config";
        is_config.then(|| crate::audit::fake_cluster::body(damaged.clone()))
    });
    let folder = scratch.path().join("archive");
    let run = collect(&cluster.kubeconfig(), &folder, &[]);
    assert_eq!(run.code, 1, "{run:#?}");
    assert!(run.stderr.contains("warning: kubelet-configuration: "), "{}", run.stderr);
    assert!(!run.stderr.contains(MARKER), "{}", run.stderr);
    let manifest = manifest(&folder);
    let named =
        manifest["objects"].as_array().unwrap().iter().find(|named| named["resource"] == "configmaps");
    assert_eq!(named.unwrap()["outcome"], "failed", "{manifest:#}");
}

#[test]
fn no_value_and_no_address_is_in_an_archive_even_if_the_server_gives_more_than_is_asked_au_20_au_165() {
    let scratch = Scratch::new();
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "kube-system", "name": "kubelet-config"},
    "data": {"other": MARKER, "kubelet": format!(
        "kind: KubeletConfiguration\nclusterDNS: [192.0.2.10]\nreadOnlyPort: 10255\nstaticPodURLHeader: {{a: [{MARKER}]}}\n"
    )}});
    let cluster = FakeCluster::start(&salted(), move |path, _, _| {
        let is_config = path == "/api/v1/namespaces/kube-system/configmaps/kubelet-config";
        is_config.then(|| crate::audit::fake_cluster::body(config.clone()))
    });
    let folder = scratch.path().join("archive");
    let run = collect(&cluster.kubeconfig(), &folder, &["--secret-metadata"]);
    assert_eq!(run.code, 0, "{run:#?}");
    let files = texts(&folder);
    assert_clean(&files);
    assert_clean(&[("stdout".to_owned(), run.stdout), ("stderr".to_owned(), run.stderr)]);
    // What the audit needs is there.
    let pod = &kept(&folder, "pods.core.jsonl.gz")[0];
    assert_eq!(pod["spec"]["containers"][0]["env"][1]["valueFrom"]["secretKeyRef"]["name"], "db");
    assert_eq!(pod["spec"]["containers"][0]["env"][0], json!({"name": "PASSWORD"}));
    assert_eq!(pod["spec"]["volumes"][1]["csi"]["nodePublishSecretRef"]["name"], "csi");
    let secret = &kept(&folder, "secrets.core.jsonl.gz")[0];
    assert_eq!(
        (&secret["metadata"]["name"], &secret["kind"], secret.get("data")),
        (&json!("db"), &json!("Secret"), None)
    );
    let maps = kept(&folder, "configmaps.core.jsonl.gz");
    assert_eq!(maps[0]["metadata"]["name"], "kubelet-config");
    let kubelet: Value = serde_json::from_str(maps[0]["data"]["kubelet"].as_str().unwrap()).unwrap();
    assert_eq!(kubelet, json!({"kind": "KubeletConfiguration", "readOnlyPort": 10255}));
    assert_eq!((maps.len(), maps[1].get("data")), (2, None));
    let node = &kept(&folder, "nodes.core.jsonl.gz")[0];
    assert_eq!(node["status"]["addresses"][0]["address"], "198.51.100.1");
    let csr = &kept(&folder, "certificatesigningrequests.certificates.k8s.io.jsonl.gz")[0];
    assert_eq!(
        csr["status"],
        json!({"issued": true, "conditions": [{"type": "Approved", "status": "True"}]})
    );
}
