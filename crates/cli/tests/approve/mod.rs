//! `portcullis approve` against a running `portcullis serve`, with Machines on another server.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop at once and say where"
)]

mod attacks;
mod files;
mod machines;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use machines::Machines;
use portcullis_pki::key::KeyPair;
use portcullis_pki::request::Request;
use portcullis_testkit::health::{free_port, probe};
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::metrics::assert_documented;
use portcullis_testkit::mutate::dice;
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::wait::until;
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const NAMESPACE: &str = "openshift-machine-config-operator";

/// A cluster whose server and Machines run, with a bootstrap user that may ask for certificates.
struct World {
    scratch: Scratch,
    served: Option<Running>,
    address: SocketAddr,
    machines: Machines,
}

impl World {
    fn new() -> Self {
        let scratch = Scratch::new();
        let served = program!().serve(&scratch.path().join("data"));
        let address = served.address();
        let world = Self { scratch, served: Some(served), address, machines: Machines::serve() };
        let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
            "verbs": ["create", "get", "list", "watch"]}]);
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let kind = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "bootstrap"}});
        let mut role = kind("ClusterRole");
        role["rules"] = rules;
        world.admin().must(201, "POST", &format!("{rbac}/clusterroles"), Some(&role));
        let mut binding = kind("ClusterRoleBinding");
        binding["roleRef"] =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bootstrap"});
        binding["subjects"] =
            json!([{"kind": "ServiceAccount", "name": "node-bootstrapper", "namespace": NAMESPACE}]);
        world.admin().must(201, "POST", &format!("{rbac}/clusterrolebindings"), Some(&binding));
        world
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn admin(&self) -> Client {
        Client::new(self.address, &Identity::admin(&self.data()))
    }

    /// Asks for the first client certificate of a node, with a new key.
    fn ask(&self, name: &str, node: &str, organizations: &[&str]) {
        self.asking(organizations)(name, node);
    }

    /// Asks for first client certificates, by name and node, over one connection and with one key.
    fn asking(&self, organizations: &[&str]) -> impl FnMut(&str, &str) + use<> {
        let user = format!("system:serviceaccount:{NAMESPACE}:node-bootstrapper");
        let mut client = self.admin().header(&format!("Impersonate-User: {user}"));
        for group in [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{NAMESPACE}"),
            "system:authenticated".to_owned(),
        ] {
            client = client.header(&format!("Impersonate-Group: {group}"));
        }
        let (mut client, key) = (client.in_protobuf(), KeyPair::generate().unwrap());
        let organizations: Vec<String> = organizations.iter().map(|text| (*text).to_owned()).collect();
        move |name, node| {
            let request = Request {
                common_name: format!("system:node:{node}"),
                organizations: organizations.clone(),
                ..Request::default()
            };
            let pem = request.to_pem(&key).unwrap();
            let (signer, usages) =
                ("kubernetes.io/kube-apiserver-client-kubelet", ["digital signature", "client auth"]);
            client.must(201, "POST", REQUESTS, Some(&object(name, &pem, signer, &usages)));
        }
    }

    /// Asks for a serving certificate, as the node.
    fn ask_serving(&self, name: &str, node: &str, addresses: &[&str]) {
        let mut client = self.admin().header(&format!("Impersonate-User: system:node:{node}"));
        for group in ["system:nodes", "system:authenticated"] {
            client = client.header(&format!("Impersonate-Group: {group}"));
        }
        let request = Request {
            common_name: format!("system:node:{node}"),
            organizations: vec!["system:nodes".to_owned()],
            dns_names: vec![node.to_owned()],
            ip_addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            ..Request::default()
        };
        let pem = request.to_pem(&KeyPair::generate().unwrap()).unwrap();
        let usages = ["digital signature", "server auth"];
        client.in_protobuf().must(
            201,
            "POST",
            REQUESTS,
            Some(&object(name, &pem, "kubernetes.io/kubelet-serving", &usages)),
        );
    }

    fn request(&self, name: &str) -> Value {
        self.admin().must(200, "GET", &format!("{REQUESTS}/{name}"), None)
    }

    /// The reasons of all Approved conditions of a request.
    fn approvals(&self, name: &str) -> Vec<String> {
        let object = self.request(name);
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let approved = conditions.iter().filter(|condition| condition["type"] == "Approved");
        approved.map(|condition| condition["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// Reason and rule in the annotation.
    fn decision(&self, name: &str) -> Option<(String, String)> {
        let object = self.request(name);
        let text = object["metadata"]["annotations"]["portcullis.dev/decision"].as_str()?;
        let decision: Value = serde_json::from_str(text).unwrap();
        Some((decision["reason"].as_str()?.to_owned(), decision["rule"].as_str()?.to_owned()))
    }

    /// The reasons of the events on a request.
    fn events(&self, name: &str) -> Vec<String> {
        let list = self.admin().must(200, "GET", "/api/v1/namespaces/default/events", None);
        let events = list["items"].as_array().unwrap();
        let own = events.iter().filter(|event| event["involvedObject"]["name"] == name);
        own.map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// A Machine that is created now.
    fn create_machine(&self, node: &str) {
        self.machines.add(json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"name": format!("machine-{node}"), "namespace": "machines", "uid": format!("uid-{node}"),
                "creationTimestamp": now()},
            "status": {"addresses": [{"type": "InternalDNS", "address": node}]},
        }));
    }

    fn command(&self) -> Command {
        let mut command = program!().command(["approve", "--kubeconfig"]);
        command.arg(self.data().join("admin.kubeconfig"));
        command.arg("--management-kubeconfig").arg(self.machines.kubeconfig(&self.scratch));
        command
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command();
        command.args(arguments);
        Running::spawn(command)
    }
}

fn object(name: &str, pem: &str, signer: &str, usages: &[&str]) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(pem),
            "signerName": signer,
            "usages": usages,
        },
    })
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[test]
fn a_node_gets_its_certificate_as_soon_as_its_machine_is_there_and_everybody_is_told_why_nb_61() {
    let world = World::new();
    world.ask("early", "worker-0", &["system:nodes"]);
    let port = free_port();
    let approver = world.start(&["--metrics-bind-address", &format!("127.0.0.1:{port}")]);
    // Filed while nobody looked: seen all the same (NB-54).
    until("it waits", || world.decision("early") == Some(("MachineNotFound".into(), "NB-89".into())));
    assert!(world.approvals("early").is_empty());
    until("an event tells it", || world.events("early") == ["MachineNotFound"]);

    world.create_machine("worker-0");
    until("it is approved", || !world.approvals("early").is_empty());
    assert_eq!(world.approvals("early"), ["NodeCSRApprove"]);
    until("it is told", || world.decision("early") == Some(("ClientApproved".into(), "NB-96".into())));
    until("an event tells it", || world.events("early").contains(&"ClientApproved".to_owned()));
    until("it is signed", || !world.request("early")["status"]["certificate"].is_null());

    world.ask("forged", "worker-0", &["system:nodes", "system:masters"]);
    until("it is held", || world.decision("forged") == Some(("NotKubeletClient".into(), "NB-83".into())));
    // Another key for the same name.
    world.ask("second", "worker-0", &["system:nodes"]);
    until("it is barred", || {
        world.decision("second") == Some(("IdentityAlreadyGranted".into(), "NB-94".into()))
    });
    assert!(world.approvals("forged").is_empty() && world.approvals("second").is_empty());

    // The counts follow what they count after a moment.
    let expected = [
        "node_csr_decisions_total{signer=\"kubernetes.io/kube-apiserver-client-kubelet\",outcome=\"approve\",reason=\"ClientApproved\"} 1",
        "mapi_max_pending_csr 101",
        "node_csr_decision_seconds_count 1",
    ];
    until("all is counted", || {
        let (code, metrics) = probe(port, "/metrics").unwrap();
        code == 200 && expected.iter().all(|line| metrics.contains(line))
    });
    assert_documented(&["approve"], &probe(port, "/metrics").unwrap().1);
    assert_eq!(probe(port, "/healthz").unwrap().0, 200);
    let log = approver.log();
    assert!(log.contains("reason=ClientApproved") && log.contains("NB-96"), "{log}");
    assert_eq!(approver.stop().code, 0);
}

#[test]
fn a_dry_run_says_what_would_be_done_and_writes_nothing_nb_142() {
    let world = World::new();
    world.create_machine("worker-0");
    world.ask("csr", "worker-0", &["system:nodes"]);
    let before = world.request("csr");
    let mut approver = world.start(&["--dry-run"]);
    let line = approver.line();
    assert!(line.starts_with("csr would approve: ClientApproved (NB-96) Machine "), "{line}");
    assert_eq!(approver.stop().code, 0);
    assert_eq!(world.request("csr"), before);
    assert!(world.events("csr").is_empty());
    let leases = world.admin().must(200, "GET", "/apis/coordination.k8s.io/v1/leases", None);
    let names: Vec<_> =
        leases["items"].as_array().unwrap().iter().map(|l| l["metadata"]["name"].clone()).collect();
    assert!(!names.contains(&json!("portcullis-approver")), "{names:?}");
}

#[test]
fn killed_at_any_moment_it_approves_one_key_once_and_no_other_nb_62() {
    let world = World::new();
    for round in 0..6 {
        let node = format!("worker-{round}");
        let names = [format!("a-{round}"), format!("b-{round}"), format!("c-{round}")];
        // One that may be approved, and two keys that may not: the second while the first is pending, and afterwards.
        world.ask(&names[0], &node, &["system:nodes"]);
        world.ask(&names[1], &node, &["system:nodes", "system:masters"]);
        world.create_machine(&node);
        for attempt in 0..4 {
            let approver = world.start(&["--leader-elect=false"]);
            thread::sleep(Duration::from_millis(dice(round * 10 + attempt) % 400));
            approver.kill();
        }
        let approver = world.start(&["--leader-elect=false"]);
        let approvals = || names.iter().map(|name| world.approvals(name).len()).collect::<Vec<_>>();
        until("one is approved", || world.approvals(&names[0]).len() == 1);
        world.ask(&names[2], &node, &["system:nodes"]);
        let is_decided = |name: &String| world.decision(name).is_some() || !world.approvals(name).is_empty();
        until("all are decided", || names.iter().all(is_decided));
        let log = approver.log();
        approver.kill();
        assert_eq!(approvals(), [1, 0, 0], "{log}");
    }
}

#[test]
fn of_two_one_works_and_the_other_takes_over_nb_57() {
    let world = World::new();
    let times = [
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=500ms",
        "--leader-elect-resource-namespace=kube-system",
    ];
    let ports = [free_port(), free_port()];
    let start = |port: u16| {
        let address = format!("--metrics-bind-address=127.0.0.1:{port}");
        let arguments: Vec<&str> = times.iter().copied().chain([address.as_str()]).collect();
        world.start(&arguments)
    };
    let mut running: Vec<Running> = ports.iter().map(|port| start(*port)).collect();
    let is_ready = |port: u16| probe(port, "/readyz").is_some_and(|(code, _)| code == 200);
    until("one leads", || ports.iter().any(|port| is_ready(*port)));
    let leader = usize::from(is_ready(ports[1]));
    assert!(!is_ready(ports[1 - leader]), "only one leads");

    world.create_machine("worker-0");
    world.ask("first", "worker-0", &["system:nodes"]);
    until("it is approved", || world.approvals("first") == ["NodeCSRApprove"]);
    until("it is told", || !world.events("first").is_empty());

    running.remove(leader).kill();
    until("the other leads", || is_ready(ports[1 - leader]));
    world.create_machine("worker-1");
    world.ask("next", "worker-1", &["system:nodes"]);
    until("it is approved", || world.approvals("next") == ["NodeCSRApprove"]);
    // Earlier decisions stay, and are not reported again.
    assert_eq!(world.approvals("first"), ["NodeCSRApprove"]);
    assert_eq!(world.events("first"), ["ClientApproved"]);
}

/// A kubeconfig of the service account of `deploy/approve`, with nothing but what the manifests grant.
fn as_deployed(world: &World) -> PathBuf {
    let admin = world.data().join("admin.kubeconfig");
    let deploy = portcullis_testkit::recorded::repository().join("deploy");
    for manifest in ["namespace.yaml", "approve/rbac.yaml"] {
        let mut kubectl = tool::command("kubectl");
        kubectl.arg("--kubeconfig").arg(&admin).args(["create", "-f"]);
        Finished::of(kubectl.arg(deploy.join(manifest))).ok();
    }
    let user = "    as: system:serviceaccount:portcullis:portcullis-approver\n    as-groups: \
        [system:serviceaccounts, 'system:serviceaccounts:portcullis', system:authenticated]\n";
    let text = std::fs::read_to_string(&admin).unwrap();
    let mut lines = String::new();
    for line in text.lines() {
        lines.push_str(line);
        lines.push('\n');
        if line.trim() == "user:" {
            lines.push_str(user);
        }
    }
    world.scratch.write("deployed.kubeconfig", lines)
}

#[test]
fn the_manifests_grant_what_it_needs_and_nothing_is_refused_nb_141() {
    let world = World::new();
    world.create_machine("worker-0");
    let kubeconfig = as_deployed(&world);
    let mut command = program!().command(["approve", "--kubeconfig"]);
    command.arg(&kubeconfig);
    command.arg("--management-kubeconfig").arg(world.machines.kubeconfig(&world.scratch));
    command.arg("--leader-elect-resource-namespace=portcullis");
    let approver = Running::spawn(command);
    world.ask("csr", "worker-0", &["system:nodes"]);
    until("it is approved", || world.approvals("csr") == ["NodeCSRApprove"]);
    until("an event tells it", || world.events("csr") == ["ClientApproved"]);
    until("it is annotated", || world.decision("csr").is_some());
    let Finished { code, stderr: log, .. } = approver.stop();
    assert_eq!(code, 0, "{log}");
    // Giving the lease away is a write as well.
    let lease = "/apis/coordination.k8s.io/v1/namespaces/portcullis/leases/portcullis-approver";
    let lease = world.admin().must(200, "GET", lease, None);
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "");
    let refused: Vec<&str> = log.lines().filter(|line| line.contains("forbidden")).collect();
    assert_eq!(refused, Vec::<&str>::new());
}

#[test]
fn a_serving_certificate_is_approved_when_the_machine_has_its_names_nb_115_nb_116() {
    let world = World::new();
    let approver = world.start(&["--leader-elect=false"]);
    let machine = |addresses: Value| {
        json!({
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "metadata": {"name": "machine-0", "namespace": "machines", "uid": "u", "creationTimestamp": now()},
            "status": {"nodeRef": {"kind": "Node", "name": "worker-0"}, "addresses": addresses},
        })
    };
    world.machines.add(machine(json!([])));
    world.ask_serving("mine", "worker-0", &["10.0.0.10"]);
    until("it waits", || world.decision("mine") == Some(("MachineAddressesPending".into(), "NB-117".into())));
    let addresses = json!([{"type": "InternalDNS", "address": "worker-0"}, {"type": "InternalIP", "address": "10.0.0.10"}]);
    world.machines.add(machine(addresses));
    until("it is approved", || world.approvals("mine") == ["NodeCSRApprove"]);
    world.ask_serving("stolen", "worker-0", &["10.0.0.10", "10.0.0.11"]);
    until("it is not", || world.decision("stolen") == Some(("SANNotOwned".into(), "NB-117".into())));
    assert!(world.approvals("stolen").is_empty());
    assert_eq!(approver.stop().code, 0);
}

#[test]
fn the_certificates_that_outlive_a_machine_are_listed_in_an_event_nb_133() {
    let world = World::new();
    let approver = world.start(&["--leader-elect=false"]);
    for node in ["worker-0", "worker-1"] {
        world.create_machine(node);
        world.ask(&format!("csr-{node}"), node, &["system:nodes"]);
        until("it is signed", || !world.request(&format!("csr-{node}"))["status"]["certificate"].is_null());
    }
    until("both are told", || {
        !world.events("csr-worker-1").is_empty() && !world.events("csr-worker-0").is_empty()
    });
    assert!(world.events("worker-0").is_empty());
    world.machines.remove("machine-worker-0");
    until("an event tells it", || world.events("worker-0") == ["CertificatesOutliveMachine"]);
    assert!(world.events("worker-1").is_empty(), "its Machine is there");
    let list = world.admin().must(200, "GET", "/api/v1/namespaces/default/events", None);
    let events = list["items"].as_array().unwrap();
    let event = events.iter().find(|event| event["reason"] == "CertificatesOutliveMachine").unwrap();
    assert_eq!((&event["type"], &event["involvedObject"]["kind"]), (&json!("Warning"), &json!("Node")));
    let pem = world.request("csr-worker-0")["status"]["certificate"].as_str().unwrap().to_owned();
    let pem = base64::engine::general_purpose::STANDARD.decode(pem).unwrap();
    world.scratch.write("issued.pem", pem);
    let words = "x509 -in issued.pem -noout -serial -enddate -dateopt iso_8601";
    let told = tool::openssl(world.scratch.path(), words);
    let field = |name: &str| told.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    let until = field("notAfter=").replace(' ', "T");
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("Machine machine.openshift.io/v1beta1 machines/machine-worker-0"), "{message}");
    assert!(message.ends_with(&format!("serial {} until {until}", field("serial="))), "{message} {told}");
    assert_eq!(approver.stop().code, 0);
}

#[test]
fn machines_of_both_api_families_count_where_the_nodes_are_nb_120() {
    let world = World::new();
    let config =
        world.scratch.write("approver.yaml", "machineAPIs: [machine.openshift.io, cluster.x-k8s.io]\n");
    let mut command = program!().command(["approve", "--kubeconfig"]);
    command.arg(world.data().join("admin.kubeconfig"));
    command.arg("--leader-elect=false").arg("--config").arg(config);
    let approver = Running::spawn(command);
    for (number, api) in ["machine.openshift.io/v1beta1", "cluster.x-k8s.io/v1beta2"].iter().enumerate() {
        let (node, csr) = (format!("worker-{number}"), format!("csr-{number}"));
        let path = format!("/apis/{api}/namespaces/default/machines");
        let mut machine =
            json!({"apiVersion": api, "kind": "Machine", "metadata": {"name": node}, "spec": {}});
        if *api != "machine.openshift.io/v1beta1" {
            machine["spec"] = json!({"clusterName": "mine", "bootstrap": {}, "infrastructureRef": {}});
        }
        let mut created = world.admin().must(201, "POST", &path, Some(&machine));
        world.ask(&csr, &node, &["system:nodes"]);
        until("it waits", || world.decision(&csr) == Some(("MachineNotFound".into(), "NB-89".into())));
        created["status"] = json!({"addresses": [{"type": "InternalDNS", "address": node}]});
        world.admin().must(200, "PUT", &format!("{path}/{node}/status"), Some(&created));
        until("it is approved", || world.approvals(&csr) == ["NodeCSRApprove"]);
    }
    assert_eq!(approver.stop().code, 0);
}

#[test]
fn a_changed_configuration_counts_for_what_is_held_and_a_broken_one_does_not_nb_140_nb_60() {
    let world = World::new();
    let config = world.scratch.write("approver.yaml", "{}");
    let approver = world.start(&["--leader-elect=false", "--config", config.to_str().unwrap()]);
    world.ask("forged", "worker-0", &["system:nodes", "system:masters"]);
    let denials = || {
        let object = world.request("forged");
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().map(|c| format!("{} {}", c["type"], c["reason"])).collect::<Vec<_>>()
    };
    until("it is held", || world.decision("forged").is_some());
    assert!(denials().is_empty());
    world.scratch.write("approver.yaml", "denyMode: always");
    until("it is told", || approver.log().contains("ConfigInvalid"));
    assert!(denials().is_empty());
    world.scratch.write("approver.yaml", "denyMode: strict");
    until("it is denied", || denials() == [r#""Denied" "NotKubeletClient""#]);
    assert_eq!(approver.stop().code, 0);
}

#[test]
fn it_survives_a_server_that_goes_and_comes_back() {
    let mut world = World::new();
    let approver = world.start(&["--leader-elect=false"]);
    world.create_machine("worker-0");
    world.ask("before", "worker-0", &["system:nodes"]);
    until("it is approved", || !world.approvals("before").is_empty());
    world.served.take().unwrap().kill();
    let served = Running::start(program!().serve_command_at(&world.data(), world.address.port()));
    world.address = served.address();
    world.served = Some(served);
    world.create_machine("worker-1");
    world.ask("after", "worker-1", &["system:nodes"]);
    until("it is approved", || !world.approvals("after").is_empty());
    assert_eq!(approver.stop().code, 0);
}

#[test]
fn flags_that_cannot_be_used_end_with_2() {
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| {
        let mut command = program!().command(["approve"]);
        command.args(arguments).env("HOME", scratch.path()).env_remove("KUBECONFIG");
        let finished = Finished::of(&mut command);
        (finished.code, finished.stderr)
    };
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let unknown = path(&scratch.write("unknown.yaml", "machineWindows: 2h"));
    let (code, error) = run(&["--config", &unknown]);
    assert!(code == 2 && error.contains("unknown field") && error.contains(&unknown), "{error}");
    let (code, error) = run(&["--config", "/nonexistent.yaml"]);
    assert!(code == 2 && error.contains("/nonexistent.yaml"), "{error}");
    let (code, error) = run(&["--kubeconfig", "/nonexistent"]);
    assert!(code == 2 && error.contains("/nonexistent"), "{error}");
    let (code, error) = run(&[]);
    assert!(code == 2 && error.contains("--kubeconfig"), "{error}");
    // Machines of many clusters need the name of ours (NB-122).
    let machines = Machines::serve().kubeconfig(&scratch);
    let shared = path(&scratch.write("shared.yaml", "machineAPIs: [cluster.x-k8s.io]"));
    let machines = path(&machines);
    let (code, error) =
        run(&["--kubeconfig", &machines, "--management-kubeconfig", &machines, "--config", &shared]);
    assert!(code == 2 && error.contains("clusterName"), "{error}");
    let (code, error) = run(&["--kubeconfig", &machines, "--leader-elect-renew-deadline", "200s"]);
    assert!(code == 2 && error.contains("lease duration"), "{error}");
}
