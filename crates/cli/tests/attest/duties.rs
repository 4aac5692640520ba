//! What the controller does for a cluster besides answering requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::software_tpm::Manufacturer;
use portcullis_testkit::wait;
use portcullis_testkit::webhook::{Asked, Reply, WebhookService};
use serde_json::{Value, json};

use crate::attest::support::{Cluster, Machine, TPM, entry};

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

/// Whether the binding of kubeadm is there.
fn is_bound(cluster: &Cluster, name: &str) -> bool {
    let bindings = cluster.admin().must(200, "GET", BINDINGS, None);
    bindings["items"].as_array().unwrap().iter().any(|binding| binding["metadata"]["name"] == name)
}

#[test]
fn automatic_approval_is_removed_once_attestation_works_and_restored_at_131_at_132() {
    let manufacturer = Manufacturer::new();
    let tpm = manufacturer.make("node-a");
    let cluster = Cluster::alone(&format!("{TPM}removeAutoApproval: true\n"), &entry("node-a", ""));
    Cluster::trust(cluster.scratch.path(), &manufacturer);
    let names = ["kubeadm:node-autoapprove-bootstrap", "kubeadm:node-autoapprove-certificate-rotation"];
    let groups = ["system:bootstrappers:kubeadm:default-node-token", "system:nodes"];
    let roles = ["nodeclient", "selfnodeclient"];
    for ((name, group), role) in names.into_iter().zip(groups).zip(roles) {
        let role = format!("system:certificates.k8s.io:certificatesigningrequests:{role}");
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]});
        cluster.admin().must(201, "POST", BINDINGS, Some(&binding));
    }
    // An authority that the server does not trust: nodes could not use what it signs.
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=other \
        -keyout other.key -out other.crt";
    crate::attest::support::openssl(cluster.scratch.path(), words);
    let machine = Machine::with_tpm("node-a", &tpm);
    let untrusted = cluster.controller_of(&cluster.path("other.crt"), &cluster.path("other.key"), &[]);
    let elsewhere = Machine { cache: "elsewhere", ..machine };
    assert_eq!(cluster.run(&elsewhere, &["--once"]).code, 0, "{}", untrusted.log());
    wait::until("the authority is tried", || untrusted.log().contains("does not accept certificates"));
    assert!(names.iter().all(|name| is_bound(&cluster, name)), "{}", untrusted.log());
    untrusted.kill();
    // One that it trusts, with the rights of the manifests.
    let kubeconfig = cluster.deploy(&["rbac.yaml", "duties.yaml"]);
    let flags = ["--leader-elect-resource-namespace=portcullis", "--namespace=portcullis"];
    let controller = cluster.controller_as(&kubeconfig, &flags);
    let joins = Machine { cache: "joins", ..machine };
    assert_eq!(cluster.run(&joins, &["--once"]).code, 0, "{}", controller.log());
    wait::until("both are gone", || names.iter().all(|name| !is_bound(&cluster, name)));
    assert_eq!(cluster.run(&machine, &["--once"]).code, 0, "{}", controller.log());
    // Switched off: they are as they were.
    cluster.configure(TPM, &entry("node-a", ""));
    wait::until("both are back", || names.iter().all(|name| is_bound(&cluster, name)));
    let binding = cluster.admin().must(200, "GET", &format!("{BINDINGS}/{}", names[0]), None);
    assert_eq!(binding["subjects"][0]["name"], groups[0]);
    assert!(!controller.log().contains("forbidden"), "{}", controller.log());
    assert_eq!(
        binding["roleRef"]["name"],
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
    );
}

#[test]
fn automatic_approval_stays_until_a_machine_is_attested_at_132() {
    let cluster = Cluster::alone(&format!("{LISTED}removeAutoApproval: true\n"), &entry("node-a", ""));
    let binding = json!({"metadata": {"name": "kubeadm:node-autoapprove-bootstrap"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": []});
    cluster.admin().must(201, "POST", BINDINGS, Some(&binding));
    let controller = cluster.controller(&[]);
    wait::until("it was looked at", || controller.log().contains("automatic approval stays until"));
    assert!(is_bound(&cluster, "kubeadm:node-autoapprove-bootstrap"));
}

/// A management cluster with objects of the Cluster API: reads them by path, and keeps what is applied and created.
struct Management {
    service: WebhookService,
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl Management {
    fn start(scratch: &Scratch) -> Self {
        let objects: Arc<Mutex<BTreeMap<String, Value>>> = Arc::default();
        let kept = Arc::clone(&objects);
        let service = WebhookService::start(scratch.path(), move |asked, _| answer(asked, &kept));
        Self { service, objects }
    }

    fn put(&self, path: &str, object: Value) {
        self.objects.lock().unwrap().insert(path.to_owned(), object);
    }

    fn get(&self, path: &str) -> Value {
        self.objects.lock().unwrap().get(path).cloned().unwrap_or_default()
    }

    fn has_event(&self, reason: &str) -> bool {
        let objects = self.objects.lock().unwrap();
        objects.iter().any(|(path, object)| path.contains("/events/") && object["reason"] == reason)
    }

    fn kubeconfig(&self) -> String {
        let server = format!("https://{}", self.service.address());
        self.service.kubeconfig_with(&server, "certificate-authority: ca.pem").display().to_string()
    }
}

fn answer(asked: &Asked, objects: &Mutex<BTreeMap<String, Value>>) -> Reply {
    let mut words = asked.line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let mut objects = objects.lock().unwrap();
    let found = match method {
        "GET" => objects.get(path).cloned(),
        "POST" => {
            let name = asked.review["metadata"]["name"].as_str().unwrap_or_default();
            objects.insert(format!("{path}/{name}"), asked.review.clone());
            Some(asked.review.clone())
        }
        "PATCH" => path.strip_suffix("/status").and_then(|path| {
            let object = objects.get_mut(path)?;
            object["status"] = asked.review["status"].clone();
            object["metadata"]["managedFields"] = json!([{"manager": "portcullis-attest"}]);
            Some(object.clone())
        }),
        _ => None,
    };
    match found {
        Some(object) => Reply::Body(200, "application/json", object.to_string()),
        None => {
            let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404,
                "reason": "NotFound", "message": "not found"});
            Reply::Body(404, "application/json", status.to_string())
        }
    }
}

/// A Cluster `prod` in the namespace `clusters`.
fn with_cluster(management: &Management) {
    let version =
        |version: &str| json!({"preferredVersion": {"version": version}, "versions": [{"version": version}]});
    management.put("/apis/cluster.x-k8s.io", version("v1beta2"));
    management.put("/apis/bootstrap.cluster.x-k8s.io", version("v1beta2"));
    management.put("/apis/infrastructure.cluster.x-k8s.io", version("v1beta1"));
    management.put(
        "/apis/infrastructure.cluster.x-k8s.io/v1beta1",
        json!({"resources": [{"name": "metalclusters", "kind": "MetalCluster"}]}),
    );
    management.put(
        "/apis/cluster.x-k8s.io/v1beta2/namespaces/clusters/clusters/prod",
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "prod", "namespace": "clusters", "uid": "c1"},
            "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "MetalCluster",
                "name": "prod-metal"}}}),
    );
    for plural in ["machines", "machinepools"] {
        let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/clusters/{plural}");
        management.put(&path, json!({"items": []}));
    }
}

/// As [`TPM`], without authorities of manufacturers.
const LISTED: &str = "authorizedAttestors: [tpm]\ntpm: {trust: hash}\n";
const OF_PROD: &str = "machines: {apis: [cluster.x-k8s.io], namespace: clusters, clusterName: prod}\n";

#[test]
fn the_names_of_the_signers_are_published_and_taken_back_at_90_at_92() {
    let cluster = Cluster::alone(LISTED, "");
    let management = Management::start(&cluster.scratch);
    with_cluster(&management);
    let path = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/clusters/metalclusters/prod-metal";
    management.put(
        path,
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "MetalCluster",
            "metadata": {"name": "prod-metal", "namespace": "clusters"}}),
    );
    let configure = |rules: &str| cluster.scratch.write("attest.yaml", format!("{rules}{OF_PROD}"));
    configure(&format!("{LISTED}serving: sign\npublishSigners: true\n"));
    let ca =
        [cluster.path("data/ca.crt"), cluster.path("data/ca.key")].map(|path| path.display().to_string());
    let _controller = cluster.controller(&[
        "--management-kubeconfig",
        &management.kubeconfig(),
        "--cluster-signing-kubelet-serving-cert-file",
        &ca[0],
        "--cluster-signing-kubelet-serving-key-file",
        &ca[1],
    ]);
    let signers = |client: &str, serving: Option<&str>| {
        let mut status = json!({"kubeletClientCertificateSigner": client});
        if let Some(serving) = serving {
            status["kubeletServingCertificateSigner"] = json!(serving);
        }
        status
    };
    let tpm = "cluster.x-k8s.io/kube-apiserver-client-kubelet-tpm";
    let expected = signers(tpm, Some("cluster.x-k8s.io/kubelet-serving-tpm"));
    wait::until("both are published", || management.get(path)["status"] == expected);
    configure("authorizedAttestors: [insecure]\npublishSigners: true\n");
    let insecure = signers("cluster.x-k8s.io/kube-apiserver-client-kubelet-insecure", None);
    wait::until("the insecure signer is published", || management.get(path)["status"] == insecure);
    wait::until("an event says so", || management.has_event("InsecureAttestor"));
    configure(LISTED);
    wait::until("nothing is published", || management.get(path)["status"] == json!({}));
}

#[test]
fn bootstrap_tokens_live_as_long_as_their_machine_needs_them_at_140_to_at_144_at_209() {
    let cluster = Cluster::alone(LISTED, "");
    let management = Management::start(&cluster.scratch);
    with_cluster(&management);
    cluster.scratch.write("attest.yaml", format!("{LISTED}tokens: {{seconds: 900}}\n{OF_PROD}"));
    let now = now();
    // A Machine that waits, one that joined, one whose token is gone, one that is too old, and a paused one.
    let machine = |name: &str, spec: Value, status: Value, more: Value| {
        let mut object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": "clusters", "uid": format!("uid-{name}"),
                "creationTimestamp": now},
            "spec": {"clusterName": "prod", "bootstrap": {"configRef": {"kind": "KubeadmConfig", "name": name}}},
            "status": status});
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        for (field, value) in more.as_object().unwrap() {
            object["metadata"][field] = value.clone();
        }
        object
    };
    let has_infrastructure = json!({"conditions": [{"type": "InfrastructureReady", "status": "True"}],
        "initialization": {"infrastructureProvisioned": true}});
    let mut joined = has_infrastructure.clone();
    joined["nodeRef"] = json!({"name": "node-j"});
    let machines = [
        machine("waits1", json!({}), json!({}), json!({})),
        machine("joined", json!({"providerID": "metal://j"}), joined, json!({})),
        machine("lost01", json!({}), has_infrastructure, json!({})),
        machine("fresh1", json!({}), json!({}), json!({})),
        machine("late01", json!({}), json!({}), json!({"creationTimestamp": "2020-01-01T00:00:00Z"})),
        machine(
            "paused",
            json!({"providerID": "metal://p"}),
            json!({}),
            json!({"annotations": {"cluster.x-k8s.io/paused": ""}}),
        ),
    ];
    let base = "/apis/cluster.x-k8s.io/v1beta2/namespaces/clusters";
    management.put(&format!("{base}/machines"), json!({"items": machines}));
    let configs = ["waits1", "joined", "lost01", "fresh1", "late01", "paused", "pool01"].map(|name| {
        let token = format!("{name}.0123456789abcdef");
        json!({"metadata": {"name": name, "namespace": "clusters"},
            "spec": {"joinConfiguration": {"discovery": {"bootstrapToken": {"token": token}}}}})
    });
    let configs = json!({"items": configs});
    management.put("/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/clusters/kubeadmconfigs", configs);
    let pool = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool",
        "metadata": {"name": "pool", "namespace": "clusters", "uid": "p"},
        "spec": {"clusterName": "prod", "template": {"spec": {"bootstrap": {"configRef":
            {"kind": "KubeadmConfig", "name": "pool01"}}}}}});
    management.put(&format!("{base}/machinepools"), json!({"items": [pool]}));
    let mut admin = cluster.admin();
    let soon = later(60);
    for id in ["waits1", "joined", "late01", "paused", "pool01"] {
        let encoded = |text: &str| STANDARD.encode(text);
        let secret = json!({"metadata": {"name": format!("bootstrap-token-{id}")},
            "type": "bootstrap.kubernetes.io/token", "data": {"token-id": encoded(id),
                "token-secret": encoded("0123456789abcdef"), "expiration": encoded(&soon)}});
        admin.must(201, "POST", SECRETS, Some(&secret));
    }
    let controller = cluster.controller(&["--management-kubeconfig", &management.kubeconfig()]);
    let mut expiry = |id: &str| -> Option<String> {
        let secrets = admin.must(200, "GET", SECRETS, None);
        let name = format!("bootstrap-token-{id}");
        let found =
            secrets["items"].as_array().unwrap().iter().find(|s| s["metadata"]["name"] == *name)?.clone();
        let text = STANDARD.decode(found["data"]["expiration"].as_str().unwrap()).unwrap();
        Some(String::from_utf8(text).unwrap())
    };
    let after = later(800);
    wait::until("the token of a waiting Machine is extended", || expiry("waits1") > Some(after.clone()));
    wait::until("that of a joined Machine is deleted", || expiry("joined").is_none());
    wait::until("a missing one is created", || expiry("fresh1") > Some(after.clone()));
    wait::until("that of a pool is extended", || expiry("pool01") > Some(after.clone()));
    wait::until("a lost one is told", || management.has_event("BootstrapTokenLost"));
    wait::until("one that is late is told", || management.has_event("BootstrapTimedOut"));
    assert_eq!(expiry("paused"), Some(soon.clone()), "{}", controller.log());
    assert_eq!(expiry("late01"), Some(soon), "{}", controller.log());
    assert_eq!(expiry("lost01"), None);
    // What was created is the token of the KubeadmConfig, so it fits the bootstrap data that was rendered.
    let secret = cluster.admin().must(200, "GET", &format!("{SECRETS}/bootstrap-token-fresh1"), None);
    assert_eq!(secret["data"]["token-secret"], STANDARD.encode("0123456789abcdef"));
    assert_eq!(secret["type"], "bootstrap.kubernetes.io/token");
}

fn now() -> String {
    later(0)
}

/// The time in so many seconds, as GNU date writes it.
fn later(seconds: u64) -> String {
    let date = std::process::Command::new("date")
        .args(["-u", "-d", &format!("+{seconds} seconds"), "+%Y-%m-%dT%H:%M:%SZ"])
        .output()
        .unwrap();
    String::from_utf8(date.stdout).unwrap().trim().to_owned()
}
