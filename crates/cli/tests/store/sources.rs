//! etcd as a source of `can-i`, `review` and `audit`: the answers of files, and not one write (ET-61).

use std::path::Path;

use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::{pages, program, recorded};
use serde_json::{Value, json};

use crate::store::support::{fill, recording, revision, served, store, text, write_export};

/// The recorded objects as files, as kube-apiserver showed them.
fn state(scratch: &Scratch, objects: impl IntoIterator<Item = Value>) -> std::path::PathBuf {
    let items: Vec<Value> = objects.into_iter().collect();
    scratch.write("state.json", json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
}

#[test]
fn commands_answer_over_etcd_as_over_the_files_of_the_same_cluster_and_write_nothing() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let recording = recording("etcd-registry/registry-protobuf.jsonl");
    fill(&etcd, &recording);
    let before = revision(&etcd);
    let files = state(&scratch, served(&recording).into_values());
    let endpoint = etcd.endpoint();
    let sources = [["--state", text(&files)], ["--etcd-servers", &endpoint]];
    let both = |arguments: &str| {
        let [files, etcd] = sources.map(|source| program!().run(arguments.split_whitespace().chain(source)));
        assert_eq!((files.code, &files.stdout), (etcd.code, &etcd.stdout), "{arguments}: {etcd:#?}");
        let note = format!("objects at revision {before} of etcd at {endpoint} below /registry");
        assert!(etcd.stderr.contains(&note), "{etcd:#?}");
        files
    };
    let mut answers = std::collections::BTreeSet::new();
    for user in [
        "jane",
        "system:kube-scheduler",
        "system:serviceaccount:kube-system:node-controller",
        "system:node:node-a",
    ] {
        for question in [
            "list pods -A",
            "get secrets/basic -n team-a",
            "update nodes/node-a --subresource status",
            "get /metrics",
        ] {
            let groups = if user.starts_with("system:node:") { "--as-group system:nodes" } else { "" };
            answers.insert(both(&format!("can-i {question} --as {user} {groups} --explain")).code);
        }
    }
    assert_eq!(answers, [0, 1].into(), "some are allowed and some are not");
    // Without the line that names the revision.
    let names = both("audit kubelet-access -o name");
    assert_eq!(names.code, 1, "system:masters at least: {names:#?}");
    let audit = program!().run(["audit", "kubelet-access", "-o", "json", "--etcd-servers", &endpoint]);
    let audit: Value = serde_json::from_str(&audit.stdout).unwrap();
    assert_eq!(audit["etcdRevision"], json!(before));
    assert_eq!(revision(&etcd), before, "nothing was written");
    assert_eq!(etcd.keys("/registry.").len(), 0, "no tick");
    assert!(etcd.etcdctl(["lease", "list"]).ok().contains("found 0 leases"));
}

/// The plural names of the kinds of the recorded states.
/// Over the etcd of the recorded cluster. They name the usual address, on which a test cannot rely.
#[test]
fn the_examples_of_the_page_about_etcd_print_what_it_says() {
    const USUAL: &str = "http://127.0.0.1:2379";
    let etcd = Etcd::start();
    fill(&etcd, &recording("etcd-registry/registry-protobuf.jsonl"));
    let examples = pages::examples(&repository().join("docs/etcd.md"), "portcullis");
    assert_eq!(examples.len(), 2, "check and can-i");
    for pages::Example { file, line, command, expected } in examples {
        let command = command.replace(USUAL, &etcd.endpoint());
        let done = program!().run(command.split_whitespace().skip(1));
        let printed = [done.stderr, done.stdout].concat().replace(&etcd.endpoint(), USUAL);
        let printed: Vec<String> = printed.lines().map(str::to_owned).collect();
        assert!(
            pages::fits(&expected, &printed),
            "{file}:{line}: {command}\nprints:\n{}",
            printed.join("\n")
        );
    }
}

fn resource(object: &Value) -> &'static str {
    match object["kind"].as_str().unwrap() {
        "Pod" => "core/pods",
        "PersistentVolumeClaim" => "core/persistentvolumeclaims",
        "PersistentVolume" => "core/persistentvolumes",
        "ServiceAccount" => "core/serviceaccounts",
        "Node" => "core/nodes",
        "VolumeAttachment" => "storage.k8s.io/volumeattachments",
        "CSIDriver" => "storage.k8s.io/csidrivers",
        "ResourceSlice" => "resource.k8s.io/resourceslices",
        "PodCertificateRequest" => "certificates.k8s.io/podcertificaterequests",
        kind => panic!("{kind}"),
    }
}

fn reviewed(etcd: &Etcd, reviews: &Path) -> portcullis_testkit::tool::Finished {
    program!().run([
        "review",
        "--etcd-servers",
        &etcd.endpoint(),
        "--authorization-mode",
        "Node",
        "--reviews",
        text(reviews),
        "--check",
    ])
}

#[test]
fn recorded_decisions_of_the_node_authorizer_are_made_over_etcd() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let state: Value = serde_json::from_str(&recorded::text("node-authorizer/case2/state.json")).unwrap();
    let items = state["items"].as_array().unwrap();
    let objects = items.iter().map(|object| {
        let mut object = object.clone();
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        (resource(&object), object)
    });
    let from = write_export(&scratch, "saved", objects);
    let done = store(&["import", "--from", text(&from), "--etcd-servers", &etcd.endpoint()]);
    assert_eq!(done.code, 0, "{done:#?}");
    let reviews = recorded::unpacked(&scratch, "node-authorizer/case2/reviews.jsonl");
    let done = reviewed(&etcd, &reviews);
    assert!(done.code == 0 && done.last_line().ends_with(" 0 differ"), "{}", done.last_line());
    assert!(!done.last_line().starts_with("0 checked"));
    // Without the pods many answers are different: the objects of etcd did decide.
    etcd.etcdctl(["del", "--prefix", "/registry/pods/"]).ok();
    assert_eq!(reviewed(&etcd, &reviews).code, 1);
}

#[test]
fn an_object_of_etcd_that_cannot_be_used_is_named_and_grants_nothing() {
    let (etcd, scratch) = (Etcd::start(), Scratch::new());
    let role = |verb: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]})
    };
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]});
    etcd.put("/registry/clusterroles/r", role("list").to_string().as_bytes());
    etcd.put("/registry/clusterrolebindings/b", binding.to_string().as_bytes());
    // What no decision depends on is not even read.
    etcd.put("/registry/configmaps/default/broken", b"garbage");
    let ask = |more: &[&str]| {
        let endpoint = etcd.endpoint();
        let question = ["can-i", "list", "pods", "--as", "jane", "--etcd-servers", &*endpoint];
        program!().run(question.iter().chain(more))
    };
    let done = ask(&[]);
    assert!(done.code == 0 && !done.stderr.contains("warning"), "{done:#?}");
    etcd.put("/registry/clusterroles/r", b"garbage");
    let done = ask(&["--quiet"]);
    assert_eq!(done.code, 1);
    assert!(
        done.stderr.contains("warning: it grants nothing: the value of /registry/clusterroles/r is not"),
        "{done:#?}"
    );
    let files = state(&scratch, [binding]);
    ask(&["--state", text(&files)]).refused(&["--state and --etcd-servers"]);
    let keys = crate::store::support::encryption(&scratch, "keys.json", &json!([{"identity": {}}]));
    program!()
        .run(["can-i", "list", "pods", "--as", "jane", "--encryption-provider-config", text(&keys)])
        .refused(&["needs --etcd-servers"]);
    program!()
        .run(["can-i", "list", "pods", "--as", "jane", "--etcd-servers", "http://127.0.0.1:1"])
        .must(3, &["etcd cannot be reached"]);
}
