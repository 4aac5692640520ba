//! `portcullis collect` and `reach` over a real `portcullis serve`: the same answers by every way, and no secret on any.

use std::fs;
use std::path::{Path, PathBuf};

use portcullis_testkit::program::Running;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::{pages, program};
use serde_json::{Value, json};

use crate::audit::archives::{collect, entry, kept, manifest, nodes, texts};
use crate::audit::fake_cluster::text;
use crate::audit::salt::{MARKER, assert_clean, salted};

/// A server with the cluster of the examples, and salted objects beside it. Nothing changes by itself.
pub(crate) struct World {
    pub(crate) scratch: Scratch,
    _served: Running,
}

impl World {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let mut command = program!().serve_command(&scratch.path().join("data"));
        command.args(["--controllers=", "--state"]).arg(repository().join("examples/cluster"));
        Self { _served: Running::start(command), scratch }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.scratch.path().join("data/admin.kubeconfig")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    #[track_caller]
    pub(crate) fn kubectl(&self, words: &[&str]) -> String {
        let mut kubectl = tool::command("kubectl");
        Finished::of(kubectl.arg("--kubeconfig").arg(self.kubeconfig()).args(words)).ok()
    }
}

/// A request for a client certificate with the marker in its extensions.
fn request(scratch: &Scratch) -> String {
    let subject = "/O=system:nodes/CN=system:node:n7";
    let words = format!(
        "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out csr.pem -subj {subject} \
         -addext subjectAltName=DNS:{MARKER}.example.com"
    );
    tool::openssl(scratch.path(), &words);
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(fs::read(scratch.path().join("csr.pem")).unwrap())
}

#[test]
fn an_archive_of_a_server_has_no_secret_changes_with_the_cluster_alone_and_answers_as_the_cluster_au_20_au_165()
 {
    let world = World::new();
    world.kubectl(&["create", "namespace", "salt"]);
    world.kubectl(&["create", "serviceaccount", "web", "-n", "salt"]);
    let kinds = ["Secret", "ConfigMap", "Deployment", "Pod"];
    let mut objects: Vec<Value> =
        salted().into_iter().filter(|object| kinds.contains(&object["kind"].as_str().unwrap())).collect();
    for object in &mut objects {
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        object["metadata"]["namespace"] = json!("salt");
        if object["kind"] == "Deployment" {
            object["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
            object["spec"]["template"]["spec"].as_object_mut().unwrap().remove("nodeName");
        }
        if object["kind"] == "Pod" {
            object["spec"]["nodeName"] = json!("node-1");
        }
    }
    objects.push(json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "csr"},
        "spec": {"request": request(&world.scratch), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["client auth"]},
    }));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let list = world.scratch.write("salted.json", list);
    // Client-side: it leaves the annotation with everything in it. kubectl itself would refuse the short status of the pod.
    world.kubectl(&["apply", "--validate=false", "-f", text(&list)]);
    assert!(world.kubectl(&["get", "secret", "db", "-n", "salt", "-o", "yaml"]).contains("last-applied"));

    let kubeconfig = world.kubeconfig();
    let folders = [world.path("one"), world.path("two")];
    let tar = world.path("three.tar.gz");
    for output in [&folders[0], &folders[1], &tar] {
        let run = collect(&kubeconfig, output, &["--secret-metadata"]);
        assert_eq!(run.code, 0, "{run:#?}");
        assert_clean(&[("stdout".to_owned(), run.stdout), ("stderr".to_owned(), run.stderr)]);
    }
    // Equal but for the time.
    let [one, two] = folders.each_ref().map(|folder| {
        let mut manifest = manifest(folder);
        manifest["time"] = Value::Null;
        let names: Vec<String> = texts(folder).into_iter().map(|(name, _)| name).collect();
        let bytes: Vec<Vec<u8>> = names
            .iter()
            .filter(|name| *name != "manifest.json")
            .map(|name| fs::read(folder.join(name)).unwrap())
            .collect();
        (names, bytes, manifest)
    });
    assert!(one == two, "{:#}\n{:#}", one.2, two.2);
    assert_clean(&texts(&folders[0]));
    assert_eq!(entry(&one.2, "secrets")["outcome"], "listed");
    assert!(entry(&one.2, "clusterroles")["count"].as_u64().unwrap() > 60, "{:#}", one.2);
    let requests = kept(&folders[0], "certificatesigningrequests.certificates.k8s.io.jsonl.gz");
    assert_eq!(
        requests[0]["spec"]["requested"],
        json!({"commonName": "system:node:n7", "organizations": ["system:nodes"]})
    );

    let files = dumped(&world, &one.2);
    let expected = nodes(&["--state", text(&files)]);
    assert!(expected.as_array().is_some_and(|nodes| nodes.len() >= 3), "{expected:#}");
    for source in [
        &["--state", text(&folders[0])][..],
        &["--state", text(&tar)],
        &["--kubeconfig", text(&kubeconfig), "--secret-metadata"],
    ] {
        assert_eq!(nodes(source), expected, "{source:?}");
    }
    decided_alike(&files, &tar);
}

/// What kubectl prints of the same resources, and the version of the server.
fn dumped(world: &World, manifest: &Value) -> PathBuf {
    let name = |entry: &Value| match entry["group"].as_str().unwrap() {
        "" => entry["resource"].as_str().unwrap().to_owned(),
        group => format!("{}.{group}", entry["resource"].as_str().unwrap()),
    };
    let resources: Vec<String> = manifest["resources"].as_array().unwrap().iter().map(name).collect();
    let printed = world.kubectl(&["get", &resources.join(","), "-A", "-o", "json"]);
    let file = world.scratch.write("dump/state.json", printed);
    world.scratch.write("dump/version.json", world.kubectl(&["get", "--raw", "/version"]));
    file.parent().unwrap().to_owned()
}

/// `can-i` and `who-can` decide over an archive as over files.
fn decided_alike(files: &Path, archive: &Path) {
    let over = |question: &str, state: &Path| {
        let run = program!().run(question.split_whitespace().chain(["--state", text(state)]));
        (run.code, run.stdout)
    };
    let mut codes = std::collections::BTreeSet::new();
    for question in [
        "can-i get secret/db -n salt --as system:node:node-1 --as-group system:nodes",
        "can-i get secret/db -n salt --as system:node:node-2 --as-group system:nodes",
        "can-i list nodes --as system:kube-scheduler",
        "who-can get secret/disk-encryption -n storage -o json",
        "who-can delete pods -A -o json",
    ] {
        let (one, other) = (over(question, files), over(question, archive));
        assert_eq!(one.0, other.0, "{question}");
        if question.starts_with("who-can") {
            let subjects = |text: &str| serde_json::from_str::<Value>(text).unwrap()["subjects"].clone();
            assert_eq!(subjects(&one.1), subjects(&other.1), "{question}");
        }
        codes.insert(one.0);
    }
    assert_eq!(codes, [0, 1].into());
}

/// Over the server of the examples. The page names a kubeconfig and paths of its own.
#[test]
fn the_examples_of_the_page_about_archives_print_what_it_says() {
    let world = World::new();
    let examples = pages::examples(&repository().join("docs/collect.md"), "portcullis");
    assert!(examples.len() >= 3, "{}", examples.len());
    for pages::Example { file, line, command, expected } in examples {
        let mut run = std::process::Command::new("bash");
        run.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(world.scratch.path());
        run.env("PATH", program!().search_path()).env("KUBECONFIG", world.kubeconfig());
        let printed: Vec<String> = Finished::of(&mut run).stdout.lines().map(str::to_owned).collect();
        assert!(
            pages::fits(&expected, &printed),
            "{file}:{line}: {command}\nprints:\n{}",
            printed.join("\n")
        );
    }
}
