//! The commands of the pages in `docs/start`, typed one after the other. The `readme` tests type those of `files.md`, which need no server.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;

use portcullis_testkit::pages;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};

use crate::kubectl::support::{Served, Typed, types};

/// The folder in which they are typed: it has the examples of the repository.
fn folder() -> Scratch {
    let scratch = Scratch::new();
    symlink(repository().join("examples"), scratch.path().join("examples")).unwrap();
    scratch
}

fn type_beside(served: &Served, page: &str, at_least: usize) {
    let folder = folder();
    let kubeconfig = served.data().join("admin.kubeconfig");
    types(page, &["kubectl", "portcullis"], (folder.path(), &kubeconfig), "", at_least);
}

#[test]
fn the_start_for_operators_shows_what_happens() {
    type_beside(&Served::example(), "docs/start/kube-apiserver.md", 7);
}

#[test]
fn the_start_for_builders_of_control_planes_shows_what_happens() {
    type_beside(&Served::start(&[]), "docs/start/control-plane.md", 12);
}

#[test]
fn the_start_for_bare_metal_shows_what_happens() {
    let folder = folder();
    let _served = Typed(folder.path().join("serve.pid"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // The port of the page may be taken: another stands for it.
    let first = format!(
        r#"portcullis() {{
             case "$1" in
               serve) echo $BASHPID > serve.pid; exec portcullis "$@" --secure-port {port} ;;
               *) command portcullis "$@" ;;
             esac
           }}"#
    );
    let kubeconfig = folder.path().join("portcullis-data/admin.kubeconfig");
    let programs = ["cp", "portcullis", "kubectl", "openssl"];
    types("docs/start/bare-metal.md", &programs, (folder.path(), &kubeconfig), &first, 9);
}

/// A crate beside the clone, made and run as the page says.
#[test]
fn the_start_for_rust_developers_shows_what_happens() {
    let page = repository().join("docs/start/rust.md");
    let text = fs::read_to_string(&page).unwrap();
    let block = |language: &str| {
        let (_, rest) = text.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    let folder = Scratch::new();
    symlink(repository(), folder.path().join("portcullis")).unwrap();
    let mine = folder.path().join("mine");
    let cargo = |words: &[&str]| {
        // The compiler is that of the clone.
        let mut cargo = tool::command("cargo");
        cargo.args(words).current_dir(repository()).env("CARGO_NET_OFFLINE", "true");
        // Another cargo may hold the lock of the usual directory for minutes.
        cargo.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("start"));
        Finished::of(&mut cargo).ok()
    };
    assert!(text.contains("`cargo new mine`"));
    cargo(&["new", "--quiet", "--vcs", "none", mine.to_str().unwrap()]);
    let manifest = fs::read_to_string(mine.join("Cargo.toml")).unwrap();
    assert_eq!(manifest.matches("[dependencies]\n").count(), 1, "{manifest}");
    fs::write(mine.join("Cargo.toml"), manifest.replace("[dependencies]\n", &block("toml"))).unwrap();
    fs::write(mine.join("src/main.rs"), block("rust")).unwrap();
    // The versions that are on this machine.
    fs::copy(repository().join("Cargo.lock"), mine.join("Cargo.lock")).unwrap();
    let shown = pages::examples(&page, "cargo");
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].command, "cargo run --quiet");
    let printed = cargo(&["run", "--quiet", "--manifest-path", mine.join("Cargo.toml").to_str().unwrap()]);
    let printed: Vec<String> = printed.lines().map(str::to_owned).collect();
    assert!(pages::fits(&shown[0].expected, &printed), "{}", printed.join("\n"));
}
