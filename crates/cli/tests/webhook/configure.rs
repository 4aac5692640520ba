//! A server accepts the output of `portcullis webhook configure`, and asks the webhook by it.

use std::fs;
use std::path::Path;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;
use serde_json::{Value, json};

use crate::webhook::support::Webhook;

fn configure(flags: &[&str]) -> Finished {
    Finished::of(program!().command(["webhook", "configure"]).args(flags))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_server_asks_the_webhook_by_the_printed_files_bc_11() {
    let scratch = Scratch::new();
    let webhook = Webhook::over(&scratch, "webhook-authorization/state.json", &[]);
    let folder = scratch.path().join("config");
    let finished = configure(&[
        "--certificate-authority",
        text(&webhook.file("ca.pem")),
        "--client-certificate",
        text(&webhook.file("apiserver.pem")),
        "--client-key",
        text(&webhook.file("apiserver-key.pem")),
        "--server",
        &webhook.running.address().to_string(),
        "--host-folder",
        text(&folder),
        "--output-dir",
        text(&folder),
    ]);
    assert_eq!(finished.code, 0, "{finished:#?}");
    assert_eq!(finished.stdout.lines().count(), 6, "{finished:#?}");
    fs::copy(webhook.file("ca.pem"), folder.join("ca.crt")).unwrap();

    let data = scratch.path().join("data");
    let tokens = scratch.write("tokens.csv", "jane-token,jane,1\nscheduler-token,system:kube-scheduler,2\n");
    let mut command = program!().serve_command(&data);
    command.arg("--authorization-config").arg(folder.join("authorization.yaml"));
    command.arg("--token-auth-file").arg(tokens);
    let served = Running::start(command);
    let mut admin = Client::new(served.address(), &Identity::admin(&data));
    let asked = || webhook.metric("portcullis_webhook_requests_total{endpoint=\"authorize\",code=\"200\"}");
    let ask = |user: &str, path: &str| {
        let identity = Identity::with_token(&data.join("ca.crt"), &format!("{user}-token"));
        Client::new(served.address(), &identity).ask("GET", path, None).unwrap().code
    };
    // What the own modes allow is not asked, nor what keeps the cluster alive (BC-12).
    assert_eq!(ask("jane", "/version"), 200);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1";
    for path in ["/api/v1/namespaces/portcullis-system/pods", leases, "/api/v1/namespaces/default/endpoints"]
    {
        assert_eq!(ask("jane", path), 403, "{path}");
    }
    assert_eq!(ask("scheduler", "/api/v1/secrets"), 403);
    assert_eq!(asked(), "");
    assert_eq!(ask("jane", "/api/v1/secrets"), 403);
    assert!(asked().ends_with(" 1"), "{}", asked());

    // What a kube-apiserver reads of its disk: a file for both plugins, with the user of the host that the webhooks name.
    let read = |name: &str| -> Value {
        serde_saphyr::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap()
    };
    let control = read("admission-control.yaml");
    assert_eq!(control["kind"], "AdmissionConfiguration");
    for (plugin, name) in [(0, "MutatingAdmissionWebhook"), (1, "ValidatingAdmissionWebhook")] {
        let plugin = &control["plugins"][plugin];
        assert_eq!(plugin["name"], name);
        assert_eq!(plugin["configuration"]["kind"], "WebhookAdmissionConfiguration");
        assert_eq!(plugin["configuration"]["kubeConfigFile"], text(&folder.join("admission.kubeconfig")));
    }
    let user = &read("admission.kubeconfig")["users"][0];
    assert_eq!(user["name"], webhook.running.address().to_string());
    assert_eq!(user["user"]["client-certificate"], text(&webhook.file("apiserver.pem")));

    // The objects are valid.
    admin.must(201, "POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": "portcullis-system"}})));
    for file in ["admission.yaml", "rbac.yaml"] {
        for document in fs::read_to_string(folder.join(file)).unwrap().split("---\n") {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            let path = match object["kind"].as_str().unwrap() {
                "ServiceAccount" => "/api/v1/namespaces/portcullis-system/serviceaccounts",
                "ClusterRole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                "ClusterRoleBinding" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                "MutatingWebhookConfiguration" => {
                    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
                }
                "ValidatingWebhookConfiguration" => {
                    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
                }
                other => panic!("{other}"),
            };
            let path = format!("{path}?fieldValidation=Strict");
            admin.must(201, "POST", &path, Some(&object));
        }
    }
}

#[test]
fn a_file_that_is_no_authority_is_refused() {
    let scratch = Scratch::new();
    let empty = scratch.write("empty", "");
    for (path, why) in [(text(&empty), "has no certificate"), ("/nowhere", "cannot read")] {
        let finished = configure(&["--certificate-authority", path]);
        assert_eq!((finished.code, &*finished.stdout), (2, ""), "{finished:#?}");
        assert!(finished.stderr.contains(why), "{finished:#?}");
    }
    let authority = scratch.write("ca.pem", "-----BEGIN CERTIFICATE-----\n");
    let finished = configure(&["--certificate-authority", text(&authority), "--service-account", "a/b/c"]);
    assert_eq!(finished.code, 2, "{finished:#?}");
}
