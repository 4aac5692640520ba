//! The commands of the pages in `docs/start` that need a server, typed one after the other.

use std::net::TcpListener;
use std::os::unix::fs::symlink;

use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;

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
