//! A server whose only authorizer is a webhook that follows it answers as Kubernetes: recorded exchanges, replayed.

use std::path::PathBuf;

use portcullis_testkit::exchanges::{Checker, Clock};
use portcullis_testkit::health::free_port;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::{program, recorded};

use crate::webhook::support::Webhook;

/// The recordings that are about rights. The others ask for the rights of an administrator, which no authorizer is asked for. Not
/// `review-self`: it lists the rules of users, and a webhook has no way to be asked for them (RB-42).
const ABOUT_RIGHTS: &[&str] = &[
    "http/impersonation.jsonl",
    "http/mirror-pods.jsonl",
    "http/node-authorizer.jsonl",
    "http/noderestriction-pods.jsonl",
    "http/rbac-aggregation.jsonl",
    "http/rbac-enforcement.jsonl",
    "http/rbac-escalation.jsonl",
    "http/review-sar.jsonl",
    "http/watch.jsonl",
];

/// Starts the server and the webhook. Each has the address of the other.
fn serve(scratch: &Scratch, clock: Clock) -> ((Running, Webhook), PathBuf) {
    let port = free_port();
    let asking = Webhook::asking(scratch, port);
    let data = scratch.path().join("data");
    let mut command = program!().serve_command(&data);
    command.arg("--controllers").arg(recorded::CONTROLLERS);
    command.args(["--authorization-mode", "Webhook", "--authorization-webhook-version", "v1"]);
    command.args(["--authorization-webhook-cache-authorized-ttl", "0s"]);
    command.args(["--authorization-webhook-cache-unauthorized-ttl", "0s"]);
    command.arg("--authorization-webhook-config-file").arg(asking);
    clock.set_for(&mut command);
    let served = Running::start(command);
    let flags = ["--secure-port", &port.to_string()];
    let webhook = Webhook::following(scratch, &data.join("admin.kubeconfig"), &flags);
    ((served, webhook), data)
}

#[test]
fn a_server_that_asks_a_webhook_that_follows_it_answers_as_recorded() {
    let scratch = Scratch::new();
    let checker = Checker::unpacked(&scratch);
    let known = recorded::exchanges();
    assert!(ABOUT_RIGHTS.iter().all(|name| known.iter().any(|known| known == name)), "{known:?}");
    let differences: String =
        ABOUT_RIGHTS.iter().filter_map(|recording| checker.differences(recording, serve)).collect();
    assert!(differences.is_empty(), "{differences}");
}
