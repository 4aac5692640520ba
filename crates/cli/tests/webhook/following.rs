//! A webhook that follows a cluster: here `portcullis serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tcp_proxy::TcpProxy;
use portcullis_testkit::tool::Finished;
use portcullis_testkit::wait::until;
use serde_json::{Value, json};

use crate::webhook::support::{Webhook, ask};

pub(crate) struct Cluster {
    pub(crate) served: Running,
    pub(crate) data: PathBuf,
}

impl Cluster {
    pub(crate) fn start(scratch: &Scratch) -> Self {
        let data = scratch.path().join("data");
        let served = program!().serve(&data);
        Self { served, data }
    }

    pub(crate) fn admin(&self) -> Client {
        Client::new(self.served.address(), &Identity::admin(&self.data))
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.data.join("admin.kubeconfig")
    }

    /// A kubeconfig that leads to the server by way of another address.
    pub(crate) fn kubeconfig_by(&self, scratch: &Scratch, address: SocketAddr) -> PathBuf {
        let text = std::fs::read_to_string(self.kubeconfig()).unwrap();
        let (own, other) = (self.served.address().to_string(), address.to_string());
        assert!(text.contains(&own), "{text}");
        scratch.write("proxied.kubeconfig", text.replace(&own, &other))
    }
}

pub(crate) fn asks_for_secret(node: &str, name: &str) -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": format!("system:node:{node}"), "groups": ["system:nodes", "system:authenticated"],
            "resourceAttributes": {
                "verb": "get", "version": "v1", "resource": "secrets", "namespace": "default", "name": name,
            },
        },
    })
}

pub(crate) fn pod(name: &str, node: &str, secret: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": node, "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": secret}}],
        },
    })
}

pub(crate) fn is_allowed(answer: &Value) -> bool {
    answer["status"]["allowed"] == json!(true)
}

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) fn ready_for_pods(admin: &mut Client) {
    until("the account default is there", || {
        admin.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default", None).unwrap().code == 200
    });
}

#[test]
fn changes_of_the_cluster_take_effect_bc_20() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let mut admin = cluster.admin();
    ready_for_pods(&mut admin);
    let webhook = Webhook::following(&scratch, &cluster.kubeconfig(), &[]);
    let mut client = webhook.client();
    assert!(!is_allowed(&ask(&mut client, "/authorize", &asks_for_secret("n1", "s"))));
    admin.must(201, "POST", PODS, Some(&pod("p", "n1", "s")));
    until("the pod has arrived", || is_allowed(&ask(&mut client, "/authorize", &asks_for_secret("n1", "s"))));
    assert!(!is_allowed(&ask(&mut client, "/authorize", &asks_for_secret("n2", "s"))));
    admin.must(200, "DELETE", &format!("{PODS}/p?gracePeriodSeconds=0"), None);
    until("the pod is gone", || !is_allowed(&ask(&mut client, "/authorize", &asks_for_secret("n1", "s"))));

    // Roles and bindings.
    let asks = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "jane", "resourceAttributes": {"verb": "list", "version": "v1", "resource": "nodes"}},
    });
    assert!(!is_allowed(&ask(&mut client, "/authorize", &asks)));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "jane"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    admin.must(201, "POST", bindings, Some(&binding));
    until("the binding has arrived", || is_allowed(&ask(&mut client, "/authorize", &asks)));
    admin.must(200, "DELETE", &format!("{bindings}/jane"), None);
    until("the binding is gone", || !is_allowed(&ask(&mut client, "/authorize", &asks)));
    assert_eq!(webhook.running.stop().code, 0);
}

/// Creates pods on many connections, and asks for the secret of each as soon as it is there. Returns how many were refused.
fn create_and_ask(cluster: &Cluster, webhook: &Webhook, proxy: &TcpProxy, prefix: &str) -> usize {
    const THREADS: usize = 4;
    const PODS_OF_THREAD: usize = 50;
    let refused = AtomicUsize::new(0);
    let left = AtomicUsize::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (refused, left) = (&refused, &left);
            scope.spawn(move || {
                let (mut admin, mut client) = (cluster.admin(), webhook.client());
                for number in 0..PODS_OF_THREAD {
                    let name = format!("{prefix}-{thread}-{number}");
                    admin.must(201, "POST", PODS, Some(&pod(&name, "n1", &name)));
                    let answer = ask(&mut client, "/authorize", &asks_for_secret("n1", &name));
                    refused.fetch_add(usize::from(!is_allowed(&answer)), Ordering::Relaxed);
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
        // The watches are late by up to 300 ms, now more and now less.
        let mut milliseconds = (0..=300).step_by(50).cycle();
        while left.load(Ordering::Relaxed) > 0 {
            proxy.delay(Duration::from_millis(milliseconds.next().unwrap()));
            thread::sleep(Duration::from_millis(40));
        }
        proxy.delay(Duration::ZERO);
    });
    refused.into_inner()
}

#[test]
fn a_node_waits_for_a_pod_that_has_not_arrived_bc_23() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    ready_for_pods(&mut cluster.admin());
    let proxy = TcpProxy::start(cluster.served.address());
    let kubeconfig = cluster.kubeconfig_by(&scratch, proxy.address());
    // Longer than by default, so that a slow machine is no fault.
    let waiting = Webhook::following(&scratch, &kubeconfig, &["--wait-for-graph", "20s"]);
    assert_eq!(create_and_ask(&cluster, &waiting, &proxy, "waiting"), 0);
    let changed = waiting.metric("portcullis_webhook_waits_total{outcome=\"changed\"}");
    assert!(!changed.is_empty() && !changed.ends_with(" 0"), "{changed}");
    // This shows that the test can fail.
    let hasty = Webhook::following(&scratch, &kubeconfig, &["--wait-for-graph", "0"]);
    assert!(create_and_ask(&cluster, &hasty, &proxy, "hasty") > 20);
}

#[test]
fn what_was_not_heard_of_is_not_decided_bc_22() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let mut admin = cluster.admin();
    ready_for_pods(&mut admin);
    admin.must(201, "POST", PODS, Some(&pod("p", "n1", "s")));
    let proxy = TcpProxy::start(cluster.served.address());
    let kubeconfig = cluster.kubeconfig_by(&scratch, proxy.address());
    let webhook = Webhook::following(&scratch, &kubeconfig, &["--max-staleness", "3s"]);
    let mut client = webhook.client();
    assert!(is_allowed(&ask(&mut client, "/authorize", &asks_for_secret("n1", "s"))));
    proxy.cut();
    until("the webhook does not know the pods any more", || {
        let answer = client.ask("GET", "/readyz", None).unwrap();
        answer.code == 503 && answer.text().contains("nothing was heard of Pod for")
    });
    let answer = ask(&mut client, "/authorize", &asks_for_secret("n1", "s"));
    assert!(!is_allowed(&answer), "{answer}");
    assert!(answer["status"]["evaluationError"].as_str().unwrap().contains("Pod"), "{answer}");
    // A write of a node is refused, and may be tried again.
    let write = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": "DELETE", "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "default", "name": "p",
            "userInfo": {"username": "system:node:n1", "groups": ["system:nodes"]},
        },
    });
    let answer = ask(&mut client, "/admit", &write);
    assert_eq!(answer["response"]["allowed"], false, "{answer}");
    assert_eq!(answer["response"]["status"]["code"], 503, "{answer}");
    let mut other = write;
    other["request"]["userInfo"] = json!({"username": "jane"});
    assert_eq!(ask(&mut client, "/admit", &other)["response"]["allowed"], true);
    proxy.heal();
    until("the webhook knows the cluster again", || {
        is_allowed(&ask(&mut client, "/authorize", &asks_for_secret("n1", "s")))
    });
    webhook.until_ready();
}

#[test]
fn a_watch_goes_on_after_every_break_bc_21() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let mut admin = cluster.admin();
    ready_for_pods(&mut admin);
    let proxy = TcpProxy::start(cluster.served.address());
    let kubeconfig = cluster.kubeconfig_by(&scratch, proxy.address());
    let webhook = Webhook::following(&scratch, &kubeconfig, &["--wait-for-graph", "0"]);
    let mut client = webhook.client();
    for number in 0..4 {
        let (old, new) = (format!("old{number}"), format!("new{number}"));
        admin.must(201, "POST", PODS, Some(&pod(&old, "n1", &old)));
        until("the pod has arrived", || {
            is_allowed(&ask(&mut client, "/authorize", &asks_for_secret("n1", &old)))
        });
        // What happens while the connection is cut is not missed.
        proxy.cut();
        proxy.reset();
        admin.must(201, "POST", PODS, Some(&pod(&new, "n1", &new)));
        admin.must(200, "DELETE", &format!("{PODS}/{old}?gracePeriodSeconds=0"), None);
        proxy.heal();
        until("the changes have arrived", || {
            is_allowed(&ask(&mut client, "/authorize", &asks_for_secret("n1", &new)))
                && !is_allowed(&ask(&mut client, "/authorize", &asks_for_secret("n1", &old)))
        });
    }
    let failures = webhook.metric("portcullis_webhook_watch_failures_total{resource=\"pods\"}");
    assert!(!failures.is_empty() && !failures.ends_with(" 0"), "the connection did break: {failures}");
}

#[test]
fn a_server_that_comes_back_with_an_older_store_is_listed_anew_bc_21() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let mut admin = cluster.admin();
    ready_for_pods(&mut admin);
    admin.must(201, "POST", PODS, Some(&pod("first", "n1", "first")));
    let port = cluster.served.address().port();
    let Cluster { served, data } = cluster;
    assert_eq!(served.stop().code, 0);
    let copy = scratch.path().join("copy");
    let copied = Finished::of(portcullis_testkit::tool::command("cp").arg("-a").arg(&data).arg(&copy));
    assert_eq!(copied.code, 0, "{copied:#?}");
    let served = Running::start(program!().serve_command_at(&data, port));
    let mut admin = Client::new(served.address(), &Identity::admin(&data));
    let webhook = Webhook::following(&scratch, &data.join("admin.kubeconfig"), &["--wait-for-graph", "0"]);
    let mut client = webhook.client();
    for number in 0..50 {
        let name = format!("lost{number}");
        admin.must(201, "POST", PODS, Some(&pod(&name, "n1", &name)));
    }
    let lost = asks_for_secret("n1", "lost49");
    until("the last pod has arrived", || is_allowed(&ask(&mut client, "/authorize", &lost)));
    served.kill();
    let served = Running::start(program!().serve_command_at(&copy, port));
    until("what is lost is gone", || !is_allowed(&ask(&mut client, "/authorize", &lost)));
    assert!(is_allowed(&ask(&mut client, "/authorize", &asks_for_secret("n1", "first"))));
    let mut admin = Client::new(served.address(), &Identity::admin(&copy));
    admin.must(201, "POST", PODS, Some(&pod("later", "n1", "later")));
    let later = asks_for_secret("n1", "later");
    until("the watch is a new one", || is_allowed(&ask(&mut client, "/authorize", &later)));
}

#[test]
fn the_printed_rights_are_enough_bc_20() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let rights = Finished::of(&mut program!().command(["webhook", "rbac"]));
    assert_eq!(rights.code, 0, "{rights:#?}");
    for never in ["secrets", "configmaps", "*", "get"] {
        assert!(!rights.stdout.contains(never), "{never}: {}", rights.stdout);
    }
    let mut admin = cluster.admin();
    admin.must(201, "POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": "portcullis-system"}})));
    apply(&mut admin, &rights.stdout);
    let account = "/api/v1/namespaces/portcullis-system/serviceaccounts/portcullis-webhook/token";
    let token = admin.must(201, "POST", account, Some(&json!({"spec": {"expirationSeconds": 3600}})));
    let token = token["status"]["token"].as_str().unwrap();
    let kubeconfig = kubeconfig(&scratch, &cluster.served.url(), &cluster.data.join("ca.crt"), token);
    let webhook = Webhook::following(&scratch, &kubeconfig, &[]);
    let log = webhook.running.stop().stderr;
    assert!(!log.contains("the watch failed"), "{log}");
}

#[test]
fn a_server_may_ask_a_webhook_that_follows_it() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let mut admin = cluster.admin();
    ready_for_pods(&mut admin);
    let webhook = Webhook::following(&scratch, &cluster.kubeconfig(), &[]);
    // A second server of another cluster asks it: what it may do follows from the objects of the first.
    let asking = webhook.kubeconfig(&scratch);
    let data = scratch.path().join("asking");
    let tokens = scratch.write("tokens.csv", "node-token,system:node:n1,1,system:nodes\n");
    let mut command = program!().serve_command(&data);
    command.args(["--authorization-mode", "Webhook", "--authorization-webhook-version", "v1"]);
    command.args(["--authorization-webhook-cache-unauthorized-ttl", "0s"]);
    command.arg("--authorization-webhook-config-file").arg(asking);
    command.arg("--token-auth-file").arg(tokens);
    let served = Running::start(command);
    let node = Identity::with_token(&data.join("ca.crt"), "node-token");
    let mut node = Client::new(served.address(), &node);
    let secret = "/api/v1/namespaces/default/secrets/s";
    assert_eq!(node.ask("GET", secret, None).unwrap().code, 403);
    admin.must(201, "POST", PODS, Some(&pod("p", "n1", "s")));
    // It does not exist on the second server.
    until("the node may read the secret", || node.ask("GET", secret, None).unwrap().code == 404);
    let line = webhook.metric("portcullis_webhook_decisions_total{mode=\"Node\",decision=\"allow\"");
    assert!(!line.is_empty(), "the webhook decided");
}

/// Creates the objects of a text with several documents.
fn apply(admin: &mut Client, text: &str) {
    for document in text.split("---\n") {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        let path = match object["kind"].as_str().unwrap() {
            "ServiceAccount" => "/api/v1/namespaces/portcullis-system/serviceaccounts",
            "ClusterRole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "ClusterRoleBinding" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            other => panic!("{other}"),
        };
        admin.must(201, "POST", path, Some(&object));
    }
}

fn kubeconfig(scratch: &Scratch, server: &str, authority: &Path, token: &str) -> PathBuf {
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    scratch.write("token.kubeconfig", document.to_string())
}
