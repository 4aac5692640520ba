//! A webhook that follows an etcd in the place of an API server (BC-1): here that of `portcullis serve`.

use std::path::Path;
use std::time::Duration;

use portcullis_testkit::etcd::{ClientTls, Etcd, Options};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tcp_proxy::TcpProxy;
use portcullis_testkit::tool;
use portcullis_testkit::wait::until;
use serde_json::{Value, json};

use crate::webhook::following::{PODS, asks_for_secret, is_allowed, pod, ready_for_pods};
use crate::webhook::support::{Webhook, ask};

fn serve(data: &Path, flags: &[&str]) -> Running {
    let mut command = program!().serve_command(data);
    command.args(flags);
    Running::start(command)
}

fn admin_of(served: &Running, data: &Path) -> Client {
    let mut admin = Client::new(served.address(), &Identity::admin(data));
    ready_for_pods(&mut admin);
    admin
}

fn may_read(client: &mut Client, secret: &str) -> bool {
    is_allowed(&ask(client, "/authorize", &asks_for_secret("n1", secret)))
}

fn jane_lists_nodes() -> Value {
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "jane", "resourceAttributes": {"verb": "list", "version": "v1", "resource": "nodes"}},
    })
}

/// etcd lets the webhook read these keys, and no others: not those of secrets and config maps.
const READ: [&str; 14] = [
    "clusterrolebindings",
    "clusterroles",
    "csidrivers",
    "minions",
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "podcertificaterequests",
    "pods",
    "resourceslices",
    "rolebindings",
    "roles",
    "serviceaccounts",
    "volumeattachments",
];

#[test]
fn etcd_is_followed_with_rights_to_read_the_kinds_that_decide_bc_1_bc_20() {
    let scratch = Scratch::new();
    let tls = ClientTls::make(scratch.path());
    tool::openssl(
        scratch.path(),
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 -CA ca.crt -CAkey ca.key -keyout webhook.key \
         -out webhook.crt -subj /CN=webhook -addext basicConstraints=critical,CA:FALSE -addext extendedKeyUsage=clientAuth",
    );
    let etcd = Etcd::with(&Options { client_tls: Some(tls.clone()), ..Options::default() });
    let etcdctl = |words: &str| etcd.etcdctl(words.split(' ')).ok();
    etcdctl("user add root --no-password");
    etcdctl("user grant-role root root");
    etcdctl("role add reader");
    READ.iter().for_each(|path| {
        etcdctl(&format!("role grant-permission reader --prefix=true read /registry/{path}/"));
    });
    etcdctl("user add webhook --no-password");
    etcdctl("user grant-role webhook reader");
    etcdctl("auth enable");

    let endpoint = etcd.endpoint();
    let file = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let (ca, certificate, key) = (file("ca.crt"), file("etcd.crt"), file("etcd.key"));
    let as_root = [
        "--etcd-servers",
        &endpoint,
        "--etcd-cafile",
        &ca,
        "--etcd-certfile",
        &certificate,
        "--etcd-keyfile",
        &key,
    ];
    let (data, certificate, key) = (scratch.path().join("data"), file("webhook.crt"), file("webhook.key"));
    let served = serve(&data, &as_root);
    let mut admin = admin_of(&served, &data);
    let as_reader = [
        "--etcd-servers",
        &endpoint,
        "--etcd-cafile",
        &ca,
        "--etcd-certfile",
        &certificate,
        "--etcd-keyfile",
        &key,
    ];
    let flags = [&as_reader[..], &["--max-staleness", "6s", "--wait-for-graph", "0"]].concat();
    let webhook = Webhook::start(&scratch, &flags);
    webhook.until_ready();
    let mut client = webhook.client();

    // Pods, and roles and bindings, as they change.
    assert!(!may_read(&mut client, "s"));
    admin.must(201, "POST", PODS, Some(&pod("p", "n1", "s")));
    until("the pod has arrived", || may_read(&mut client, "s"));
    admin.must(200, "DELETE", &format!("{PODS}/p?gracePeriodSeconds=0"), None);
    until("the pod is gone", || !may_read(&mut client, "s"));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "jane"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"},
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert!(!is_allowed(&ask(&mut client, "/authorize", &jane_lists_nodes())));
    admin.must(201, "POST", bindings, Some(&binding));
    until("the binding has arrived", || is_allowed(&ask(&mut client, "/authorize", &jane_lists_nodes())));
    admin.must(200, "DELETE", &format!("{bindings}/jane"), None);
    until("the binding is gone", || !is_allowed(&ask(&mut client, "/authorize", &jane_lists_nodes())));

    // A kind of which there is nothing is heard of again and again.
    let age = || -> f64 {
        let line = webhook.metric("portcullis_webhook_graph_age_seconds{resource=\"csidrivers\"}");
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    for _ in 0..2 {
        let mut last = age();
        until("it was heard of", || {
            let age = age();
            std::mem::replace(&mut last, age) > age
        });
    }
    webhook.until_ready();
    let failures = webhook.metric("portcullis_webhook_watch_failures_total{resource=\"pods\"}");
    assert!(failures.ends_with(" 0.0"), "{failures}");
}

#[test]
fn a_webhook_that_was_cut_off_from_etcd_reads_everything_again_bc_21_bc_22() {
    let scratch = Scratch::new();
    let etcd = Etcd::start();
    let data = scratch.path().join("data");
    let served = serve(&data, &["--etcd-servers", &etcd.endpoint()]);
    let mut admin = admin_of(&served, &data);
    for name in ["deleted", "kept"] {
        admin.must(201, "POST", PODS, Some(&pod(name, "n1", name)));
    }
    let proxy = TcpProxy::start(([127, 0, 0, 1], etcd.port()));
    let server = format!("http://{}", proxy.address());
    let flags = ["--etcd-servers", &server, "--max-staleness", "3s", "--wait-for-graph", "0"];
    let webhook = Webhook::start(&scratch, &flags);
    webhook.until_ready();
    let mut client = webhook.client();
    assert!(may_read(&mut client, "deleted") && may_read(&mut client, "kept"));

    proxy.cut();
    admin.must(200, "DELETE", &format!("{PODS}/deleted?gracePeriodSeconds=0"), None);
    admin.must(201, "POST", PODS, Some(&pod("new", "n1", "new")));
    // What the webhook has not seen is compacted.
    let newest: Value =
        serde_json::from_str(&etcd.etcdctl(["endpoint", "status", "--write-out", "json"]).ok()).unwrap();
    let newest = newest[0]["Status"]["header"]["revision"].as_u64().unwrap();
    etcd.etcdctl(["compact", &newest.to_string()]).ok();
    until("the pods are not known any more", || {
        let answer = client.ask("GET", "/readyz", None).unwrap();
        answer.code == 503 && answer.text().contains("nothing was heard of Pod for")
    });
    let answer = ask(&mut client, "/authorize", &asks_for_secret("n1", "kept"));
    assert!(answer["status"]["evaluationError"].as_str().unwrap().contains("Pod"), "{answer}");
    assert!(!is_allowed(&answer), "{answer}");

    proxy.reset();
    proxy.heal();
    until("the webhook knows the cluster again", || {
        assert!(!may_read(&mut client, "deleted"));
        may_read(&mut client, "kept")
    });
    assert!(may_read(&mut client, "new") && !may_read(&mut client, "deleted"));
    webhook.until_ready();
}

#[test]
fn a_node_waits_for_a_pod_that_etcd_has_bc_23() {
    let scratch = Scratch::new();
    let etcd = Etcd::start();
    let data = scratch.path().join("data");
    let served = serve(&data, &["--etcd-servers", &etcd.endpoint()]);
    let mut admin = admin_of(&served, &data);
    let proxy = TcpProxy::start(([127, 0, 0, 1], etcd.port()));
    let server = format!("http://{}", proxy.address());
    let webhook = Webhook::start(&scratch, &["--etcd-servers", &server, "--wait-for-graph", "20s"]);
    webhook.until_ready();
    let mut client = webhook.client();
    proxy.delay(Duration::from_millis(200));
    for number in 0..10 {
        let name = format!("p{number}");
        admin.must(201, "POST", PODS, Some(&pod(&name, "n1", &name)));
        assert!(may_read(&mut client, &name), "{name}");
    }
    let changed = webhook.metric("portcullis_webhook_waits_total{outcome=\"changed\"}");
    assert!(!changed.is_empty() && !changed.ends_with(" 0"), "{changed}");
}

#[test]
fn one_state_is_named() {
    let scratch = Scratch::new();
    for other in [["--state", "."], ["--kubeconfig", "k"]] {
        let flags = [&["--etcd-servers", "http://127.0.0.1:1"], &other[..]].concat();
        let command = &mut crate::webhook::support::command(&scratch.path().join("webhook"), &flags);
        tool::Finished::of(command).refused(&["--state, --kubeconfig and --etcd-servers"]);
    }
}
