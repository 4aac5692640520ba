//! `portcullis webhook` in the place of the plugin NodeRestriction: what `webhook configure` prints works as it is.

use std::fs;

use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::wait::until;
use portcullis_testkit::webhook::certificates;
use serde_json::{Value, json};

use crate::admission::support::{Server, path};

const TOKENS: &str = "n1,system:node:n1,1,\"system:nodes\"\nn2,system:node:n2,2,\"system:nodes\"\n";

#[test]
fn a_server_without_node_restriction_refuses_by_the_webhook_what_it_would_refuse_bc_13_bc_15() {
    let scratch = Scratch::new();
    let tokens = scratch.write("tokens.csv", TOKENS);
    let server = Server::start(
        &scratch,
        &["--disable-admission-plugins", "NodeRestriction", "--token-auth-file", tokens.to_str().unwrap()],
    );
    let mut admin = server.admin();
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    admin.must(201, "POST", "/api/v1/nodes", Some(&node("n1")));
    admin.must(201, "POST", "/api/v1/nodes", Some(&node("n2")));
    // Without the webhook a node may write another one.
    let label = |value: &str| json!({"metadata": {"labels": {"example.com/x": value}}});
    let mut n1 = server.user("n1");
    n1.must(200, "PATCH", "/api/v1/nodes/n2", Some(&label("before")));

    let folder = scratch.path().join("webhook");
    fs::create_dir(&folder).unwrap();
    certificates(&folder);
    let mut command = program!().command(["webhook", "--bind-address", "127.0.0.1", "--secure-port", "0"]);
    command.args(["--authorization-mode", "Node,RBAC", "--shutdown-delay-duration", "0s"]);
    command.arg("--kubeconfig").arg(server.data.join("admin.kubeconfig"));
    command.arg("--tls-cert-file").arg(folder.join("service.pem"));
    command.arg("--tls-private-key-file").arg(folder.join("service-key.pem"));
    let running = Running::start(command);
    let printed = scratch.path().join("printed");
    let mut configure = program!().command(["webhook", "configure", "--certificate-authority"]);
    configure.arg(folder.join("ca.pem")).arg("--output-dir").arg(&printed);
    let finished = Finished::of(configure.args(["--server", &running.address().to_string()]));
    assert_eq!(finished.code, 0, "{finished:#?}");
    for document in fs::read_to_string(printed.join("admission.yaml")).unwrap().split("---\n") {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        admin.must(201, "POST", &path(object["kind"].as_str().unwrap()), Some(&object));
    }
    until("the webhook knows the cluster", || {
        let answer = n1.ask("PATCH", "/api/v1/nodes/n1", Some(&label("own"))).unwrap();
        answer.code == 200
    });

    // Refused as by the plugin, in the name of the webhook.
    let refused = n1.ask("PATCH", "/api/v1/nodes/n2", Some(&label("after"))).unwrap();
    let message = refused.assert_status(403, "Forbidden")["message"].to_string();
    let denied = "admission webhook \\\"node-restriction.portcullis.dev\\\" denied the request: nodes \\\"n2\\\" is forbidden: ";
    assert!(message.contains(denied), "{message}");
    let protected = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}});
    n1.ask("PATCH", "/api/v1/nodes/n1", Some(&protected)).unwrap().assert_status(403, "Forbidden");
    // Only the mutating webhook sees taints that are sent to the status.
    let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    n1.ask("PATCH", "/api/v1/nodes/n1/status", Some(&tainted)).unwrap().assert_status(403, "Forbidden");
    let of = |node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("mirror-{node}"), "annotations": {"kubernetes.io/config.mirror": "x"}},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        })
    };
    let pods = "/api/v1/namespaces/default/pods";
    n1.ask("POST", pods, Some(&of("n2"))).unwrap().assert_status(403, "Forbidden");

    // Allowed.
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    n1.must(200, "PATCH", "/api/v1/nodes/n1/status", Some(&status));
    server.user("n2").must(200, "PATCH", "/api/v1/nodes/n2", Some(&label("own")));
    // Others are not asked about, also when the webhook is gone.
    drop(running);
    admin.must(200, "PATCH", "/api/v1/nodes/n2", Some(&label("repaired")));
    let lost = n1.ask("PATCH", "/api/v1/nodes/n1", Some(&label("lost"))).unwrap();
    lost.assert_status(500, "InternalError");
}
