//! Everything was stopped, and the control plane starts first: nothing that the webhook needs to start waits for it (BC-12).

use std::fs;
use std::path::Path;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::ports::ReservedPort;
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::wait::until;
use serde_json::{Value, json};

use crate::webhook::following::{PODS, pod, ready_for_pods};
use crate::webhook::support::{Webhook, command};

const NAMESPACE: &str = "/api/v1/namespaces/portcullis-system";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const USERS: &str = "\
scheduler-token,system:kube-scheduler,1
manager-token,system:kube-controller-manager,2
n1-token,system:node:n1,3,system:nodes
jane-token,jane,4
bob-token,bob,5
";
/// What only the webhook allows.
const POLICY: &str = r#"{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy",
    "spec": {"user": "jane", "namespace": "*", "apiGroup": "", "resource": "secrets", "readonly": true}}"#;

/// The documents of the manifest of the deployment.
fn manifest() -> Vec<Value> {
    let text = fs::read_to_string(repository().join("deploy/webhook/deployment.yaml")).unwrap();
    text.split("---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

/// The pod of the deployment, which no node has yet.
fn pod_of_webhook() -> Value {
    let deployment = manifest().into_iter().find(|object| object["kind"] == "Deployment").unwrap();
    let spec = deployment["spec"]["template"]["spec"].clone();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "webhook-1"}, "spec": spec})
}

/// Writes what `portcullis webhook configure` prints for a webhook on this port, and returns the folder.
fn configured(scratch: &Scratch, port: u16) -> std::path::PathBuf {
    let webhook = scratch.path().join("webhook");
    // Makes the certificates.
    drop(command(&webhook, &[]));
    let folder = scratch.path().join("config");
    let mut configure =
        program!().command(["webhook", "configure", "--server", &format!("127.0.0.1:{port}")]);
    let flags = [
        ("--certificate-authority", webhook.join("ca.pem")),
        ("--client-certificate", webhook.join("apiserver.pem")),
        ("--client-key", webhook.join("apiserver-key.pem")),
        ("--host-folder", folder.clone()),
        ("--output-dir", folder.clone()),
    ];
    for (flag, path) in flags {
        configure.arg(flag).arg(path);
    }
    Finished::of(&mut configure).ok();
    fs::copy(webhook.join("ca.pem"), folder.join("ca.crt")).unwrap();
    folder
}

/// The objects of the cluster, as they were before everything was stopped.
fn fill(data: &Path, rights: &str) {
    let served = program!().serve(data);
    let mut admin = Client::new(served.address(), &Identity::admin(data));
    ready_for_pods(&mut admin);
    for object in
        manifest().into_iter().chain(rights.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()))
    {
        let path = match object["kind"].as_str().unwrap() {
            "Namespace" => "/api/v1/namespaces".to_owned(),
            "PriorityClass" => "/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(),
            "ServiceAccount" => format!("{NAMESPACE}/serviceaccounts"),
            "ClusterRole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
            "ClusterRoleBinding" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(),
            _ => continue,
        };
        admin.must(201, "POST", &path, Some(&object));
    }
    admin.must(201, "POST", "/api/v1/nodes", Some(&json!({"metadata": {"name": "n1"}})));
    for name in ["portcullis-webhook-tls", "portcullis-webhook-metrics"] {
        admin.must(201, "POST", &format!("{NAMESPACE}/secrets"), Some(&json!({"metadata": {"name": name}})));
    }
    let callers = json!({"metadata": {"name": "portcullis-webhook-callers"}});
    admin.must(201, "POST", &format!("{NAMESPACE}/configmaps"), Some(&callers));
    admin.must(201, "POST", &format!("{NAMESPACE}/pods"), Some(&pod_of_webhook()));
    // A pod of somebody else, which was there before.
    for name in ["app", "other"] {
        let secret = json!({"metadata": {"name": name}});
        admin.must(201, "POST", "/api/v1/namespaces/default/secrets", Some(&secret));
    }
    admin.must(201, "POST", PODS, Some(&pod("app", "n1", "app")));
    let lease =
        json!({"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 40}});
    admin.must(201, "POST", LEASES, Some(&lease));
    assert_eq!(served.stop().code, 0);
}

#[test]
fn a_control_plane_that_starts_first_starts_the_webhook_bc_12() {
    let scratch = Scratch::new();
    let port = ReservedPort::new();
    let config = configured(&scratch, port.number());
    let data = scratch.path().join("data");
    fill(&data, &fs::read_to_string(config.join("rbac.yaml")).unwrap());

    // The control plane, while no webhook runs.
    let mut serve = program!().serve_command(&data);
    serve.arg("--authorization-config").arg(config.join("authorization.yaml"));
    serve.arg("--token-auth-file").arg(scratch.write("tokens.csv", USERS));
    let served = Running::start(serve);
    let client = |user: &str| {
        let identity = Identity::with_token(&data.join("ca.crt"), &format!("{user}-token"));
        Client::new(served.address(), &identity)
    };
    let code = |user: &str, path: &str| client(user).ask("GET", path, None).unwrap().code;

    // The controllers, and the scheduler, which binds the pod of the webhook.
    let mut manager = client("manager");
    for path in ["/api/v1/nodes", "/api/v1/pods", "/apis/apps/v1/deployments", NAMESPACE] {
        manager.must(200, "GET", path, None);
    }
    let mut scheduler = client("scheduler");
    let waiting = scheduler.must(200, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3D", None);
    assert_eq!(waiting["items"][0]["metadata"]["name"], "webhook-1", "{waiting}");
    scheduler.must(200, "GET", "/api/v1/nodes/n1", None);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "webhook-1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    });
    scheduler.must(201, "POST", &format!("{NAMESPACE}/pods/webhook-1/binding"), Some(&binding));
    // What they may not do is refused as before, not answered with the failure of a webhook.
    assert_eq!(code("scheduler", "/api/v1/secrets"), 403);

    // The kubelet renews its lease, reads its pods, and gets what the pod of the webhook needs.
    let mut kubelet = client("n1");
    let mut lease = kubelet.must(200, "GET", &format!("{LEASES}/n1"), None);
    lease["spec"]["renewTime"] = json!("2030-01-01T00:00:00.000000Z");
    kubelet.must(200, "PUT", &format!("{LEASES}/n1"), Some(&lease));
    kubelet.must(200, "GET", "/api/v1/nodes/n1", None);
    kubelet.must(200, "GET", "/api/v1/services", None);
    let own = kubelet.must(200, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", None);
    let own: Vec<&Value> =
        own["items"].as_array().unwrap().iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(own, ["app", "webhook-1"]);
    for path in [
        "secrets/portcullis-webhook-tls",
        "secrets/portcullis-webhook-metrics",
        "configmaps/portcullis-webhook-callers",
        "configmaps/kube-root-ca.crt",
        "pods/webhook-1",
    ] {
        kubelet.must(200, "GET", &format!("{NAMESPACE}/{path}"), None);
    }
    let uid =
        kubelet.must(200, "GET", &format!("{NAMESPACE}/pods/webhook-1"), None)["metadata"]["uid"].clone();
    let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": "webhook-1", "uid": uid});
    let token = json!({"spec": {"expirationSeconds": 3600, "boundObjectRef": bound}});
    let path = format!("{NAMESPACE}/serviceaccounts/portcullis-webhook/token");
    let token = kubelet.must(201, "POST", &path, Some(&token));
    let token = token["status"]["token"].as_str().unwrap();
    let running = json!({"status": {"phase": "Running"}});
    kubelet.must(200, "PATCH", &format!("{NAMESPACE}/pods/webhook-1/status"), Some(&running));
    // What Kubernetes' own modes allow needs no webhook.
    assert_eq!(code("n1", "/api/v1/namespaces/default/secrets/app"), 200);

    // The rest is asked, and nothing of it allowed: a kubelet tries again.
    let asked = [
        ("n1", "/api/v1/namespaces/default/secrets/other"),
        ("jane", "/api/v1/secrets"),
        ("bob", "/api/v1/secrets"),
    ];
    for (user, path) in asked {
        assert_eq!(code(user, path), 500, "{user} {path}");
    }

    // The webhook starts with the token that the kubelet has got.
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": served.url(), "certificate-authority": data.join("ca.crt")}}],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    let kubeconfig = scratch.write("webhook.kubeconfig", kubeconfig.to_string());
    let policy = scratch.write("policy.jsonl", POLICY.replace('\n', " "));
    let authority = scratch.path().join("webhook/ca.pem");
    let flags = [
        "--secure-port",
        &port.number().to_string(),
        "--client-ca-file",
        authority.to_str().unwrap(),
        "--allowed-names",
        "apiserver",
        "--authorization-mode",
        "Node,RBAC,ABAC",
        "--authorization-policy-file",
        policy.to_str().unwrap(),
    ];
    let _webhook = Webhook::following(&scratch, &kubeconfig, &flags);
    for ((user, path), expected) in asked.into_iter().zip([403, 200, 403]) {
        until("the webhook is asked", || code(user, path) == expected);
    }
}
