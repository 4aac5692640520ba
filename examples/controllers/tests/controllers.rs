//! The controllers of this folder, run against `portcullis serve` with the rights of `rights.yaml`.
#![allow(clippy::panic, clippy::string_slice, clippy::unwrap_used, missing_docs, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_testkit::program::{Program, Running};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::wait;
use serde_json::{Value, json};

const CONTROLLER: &str = env!("CARGO_BIN_EXE_website-controller");
const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// A server, and the kubeconfig of the service account that controllers have.
struct Cluster {
    _server: Running,
    scratch: Scratch,
    kubeconfig: PathBuf,
}

impl Cluster {
    fn start() -> Self {
        let program = Path::new(CONTROLLER).with_file_name("portcullis");
        assert!(
            program.is_file(),
            "{} is missing: run `cargo build --workspace --bins` first",
            program.display()
        );
        let program = Program::at(program.to_str().unwrap().to_owned().leak());
        let scratch = Scratch::new();
        let server = program.serve(&scratch.path().join("data"));
        let kubeconfig = scratch.path().join("controller.kubeconfig");
        let cluster = Self { _server: server, scratch, kubeconfig };
        cluster.kubectl(&["apply", "-f", &format!("{FOLDER}/rights.yaml")]);
        let token = cluster.kubectl(&["create", "token", "website-controller"]);
        let of_admin = std::fs::read_to_string(cluster.admin()).unwrap();
        std::fs::write(&cluster.kubeconfig, of_admin).unwrap();
        cluster.configure(&["set-credentials", "controller", "--token", token.trim()]);
        cluster.configure(&["set-context", "--current", "--user", "controller"]);
        cluster
    }

    fn admin(&self) -> PathBuf {
        self.scratch.path().join("data/admin.kubeconfig")
    }

    fn try_kubectl(&self, words: &[&str], kubeconfig: &Path) -> Finished {
        let mut command = tool::command("kubectl");
        command.args(words).env("KUBECONFIG", kubeconfig).env("HOME", self.scratch.path());
        Finished::of(&mut command)
    }

    /// Runs kubectl as the administrator.
    fn kubectl(&self, words: &[&str]) -> String {
        let done = self.try_kubectl(words, &self.admin());
        assert_eq!(done.code, 0, "{words:?}: {done:?}");
        done.stdout
    }

    /// Changes the controllers' kubeconfig.
    fn configure(&self, words: &[&str]) {
        let done = self.try_kubectl(&[&["config"], words].concat(), &self.kubeconfig);
        assert_eq!(done.code, 0, "{words:?}: {done:?}");
    }

    /// An object, if it is there.
    fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let words = ["get", kind, name, "-o", "json", "--ignore-not-found", "--show-managed-fields"];
        let text = self.kubectl(&words);
        (!text.is_empty()).then(|| serde_json::from_str(&text).unwrap())
    }

    fn wait_for(&self, kind: &str, name: &str, path: &str, value: &str) -> Value {
        wait::until_some(&format!("{kind} {name}: {path} is {value}"), || {
            self.find(kind, name).filter(|object| object.pointer(path).is_some_and(|found| found == value))
        })
    }

    fn create(&self, manifest: &str) {
        let file = self.scratch.write("object.yaml", manifest);
        self.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    }

    /// Starts a controller, which prints these lines first.
    fn controller(&self, mut command: Command, identity: &str) -> Running {
        command.args([identity, "default"]).env("KUBECONFIG", &self.kubeconfig);
        let mut running = Running::spawn(command);
        assert_eq!(running.line(), format!("{identity}: installed\n"), "{}", running.log());
        running
    }

    /// Two controllers of a kind, of which the second takes over when the first is killed: objects are brought to their
    /// state, what belongs to them goes with them, and a finalizer holds one until it is archived.
    /// Returns the second, which still works.
    fn follow(&self, kind: &Kind) -> Running {
        let mut first = self.controller((kind.command)(), "first");
        assert_eq!(first.line(), "first: leader\n");
        let mut second = self.controller((kind.command)(), "second");

        let Kind { name, phase, by, child, .. } = *kind;
        self.create(&kind.manifest("dune"));
        let object = self.wait_for(name, "dune", "/status/phase", phase);
        assert_eq!(object.pointer(by).unwrap(), "first");
        let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array).unwrap();
        let of_status = managers.iter().find(|entry| entry["subresource"] == "status").unwrap();
        assert_eq!(of_status["operation"], "Apply");
        assert_eq!(of_status["manager"], kind.manager);
        let belongs = self.find("configmap", &child("dune")).unwrap();
        assert_eq!(belongs.pointer("/metadata/ownerReferences/0/uid"), object.pointer("/metadata/uid"));

        first.kill();
        assert_eq!(second.line(), "second: leader\n");
        self.create(&kind.manifest("emma"));
        let object = self.wait_for(name, "emma", "/status/phase", phase);
        assert_eq!(object.pointer(by).unwrap(), "second");

        self.kubectl(&["delete", name, "dune"]);
        let archive = self.find("configmap", "dune-archive").unwrap();
        assert_eq!(archive.pointer("/data/title").unwrap(), "Dune");
        wait::until("what belongs to a deleted object is deleted", || {
            self.find("configmap", &child("dune")).is_none()
        });
        assert!(self.find(name, "emma").is_some());
        assert!(!second.has_ended(), "{}", second.log());
        second
    }
}

/// A kind with a controller.
struct Kind {
    name: &'static str,
    kind: &'static str,
    manager: &'static str,
    command: fn() -> Command,
    /// What the controller says of an object that is done.
    phase: &'static str,
    /// Where the status names the process.
    by: &'static str,
    /// The name of the ConfigMap that belongs to an object.
    child: fn(&str) -> String,
}

impl Kind {
    fn manifest(&self, name: &str) -> String {
        let title = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        object(self.kind, name, &title)
    }
}

fn object(kind: &str, name: &str, title: &str) -> String {
    let (metadata, spec) = (json!({"name": name}), json!({"title": title}));
    json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": metadata, "spec": spec}).to_string()
}

#[test]
fn a_controller_in_rust_works() {
    let cluster = Cluster::start();
    let _second = cluster.follow(&Kind {
        name: "website",
        kind: "Website",
        manager: "website-controller",
        command: || Command::new(CONTROLLER),
        phase: "Published",
        by: "/status/publishedBy",
        child: str::to_owned,
    });
    // The definition says what a title is.
    let file = cluster.scratch.write("wrong.yaml", object("Website", "x", ""));
    let refused = cluster.try_kubectl(&["create", "-f", file.to_str().unwrap()], &cluster.admin());
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("spec.title: Invalid value"), "{refused:?}");
    // What belongs to an object is made again.
    cluster.kubectl(&["delete", "configmap", "emma"]);
    wait::until("the page is made again", || cluster.find("configmap", "emma").is_some());
}

#[test]
fn a_controller_in_python_works() {
    let cluster = Cluster::start();
    cluster.follow(&Kind {
        name: "book",
        kind: "Book",
        manager: "book-controller",
        command: || {
            let mut command = Command::new("/usr/bin/python3");
            command.arg(format!("{FOLDER}/books.py"));
            command
        },
        phase: "Shelved",
        by: "/status/shelvedBy",
        child: |name| format!("{name}-card"),
    });
}
