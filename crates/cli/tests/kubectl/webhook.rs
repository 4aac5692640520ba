//! The commands of `docs/webhook.md`, typed one after the other.

use std::net::TcpListener;
use std::os::unix::fs::symlink;

use portcullis_testkit::recorded::repository;

use crate::kubectl::support::{Typed, types};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_webhook_goes_from_rehearsing_to_enforcing_and_back_as_the_page_says() {
    let scratch = portcullis_testkit::scratch::Scratch::new();
    let folder = scratch.path();
    symlink(repository().join("examples"), folder.join("examples")).unwrap();
    std::fs::copy(
        repository().join("examples/webhook/authorization.yaml"),
        folder.join("authorization.yaml"),
    )
    .unwrap();
    let _processes = ["serve", "webhook"].map(|name| Typed(folder.join(format!("{name}.pid"))));
    // The ports of the page may be taken: others stand for them. What was copied to the API server takes a second to be in force.
    let first = format!(
        r#"swap() {{ words=("${{@//127.0.0.1:9443/127.0.0.1:{webhook}}}"); words=("${{words[@]//127.0.0.1:6443/127.0.0.1:{serve}}}"); }}
           portcullis() {{
             swap "$@"
             case "$1 ${{2:-}}" in
               "serve "*) echo $BASHPID > serve.pid; exec portcullis "${{words[@]}}" --secure-port {serve} ;;
               "webhook --"*) echo $BASHPID > webhook.pid; exec portcullis "${{words[@]/#9443/{webhook}}}" ;;
               *) command portcullis "${{words[@]}}" ;;
             esac
           }}
           curl() {{ swap "$@"; command curl "${{words[@]}}"; }}
           kubectl() {{ swap "$@"; command kubectl "${{words[@]}}"; }}"#,
        serve = free_port(),
        webhook = free_port(),
    );
    let programs = ["portcullis", "kubectl", "openssl", "curl", "mkdir", "cp"];
    let kubeconfig = folder.join("portcullis-data/admin.kubeconfig");
    types("docs/webhook.md", &programs, (folder, &kubeconfig), &first, 20);
}
