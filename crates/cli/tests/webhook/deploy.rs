//! The files of `deploy/webhook` fit the program, and its metrics their reference.

use std::fs;

use portcullis_testkit::program;
use portcullis_testkit::recorded::{self, repository};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;
use serde_json::{Value, json};

use crate::webhook::support::{Webhook, ask};

fn file(name: &str) -> String {
    fs::read_to_string(repository().join("deploy/webhook").join(name)).unwrap()
}

#[test]
fn the_deployment_has_flags_that_the_program_has() {
    let help = Finished::of(&mut program!().command(["webhook", "--help"])).stdout;
    let deployment = file("deployment.yaml").split("---\n").find_map(|document| {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        (object["kind"] == "Deployment").then_some(object)
    });
    let deployment = deployment.expect("a deployment");
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    assert_eq!(arguments[0], "webhook");
    assert!(arguments.len() > 4, "{arguments:?}");
    for argument in &arguments[1..] {
        let flag = argument.as_str().unwrap().split('=').next().unwrap();
        assert!(help.contains(&format!("{flag} ")), "{flag}: {help}");
    }
}

#[test]
fn a_webhook_exports_what_the_reference_lists_bc_25() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let _served = program!().serve(&data);
    let webhook = Webhook::following(&scratch, &data.join("admin.kubeconfig"), &["--wait-for-graph", "1ms"]);
    let mut client = webhook.client();
    // Each is shown when it was counted once.
    let line = |name: &str| recorded::lines(name)[0]["request"].clone();
    ask(&mut client, "/admit", &line("webhook-admission/reviews.jsonl"));
    let node = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": "system:node:n", "groups": ["system:nodes"],
            "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "a", "name": "b"},
        },
    });
    ask(&mut client, "/authorize", &node);
    assert_eq!(client.send("POST", "/authorize", b"{").unwrap().code, 400);
    let refused = webhook.metric("portcullis_webhook_unreadable_reviews_total{endpoint=\"authorize\"}");
    assert!(refused.ends_with(" 1"), "{refused}");
}
