//! A cluster in which one machine, `worker-0`, was just created, and the requests that its kubelet makes.

use portcullis_apimachinery::time::Instant;
use portcullis_policy::approval::machine::{
    Cluster, Condition, Config, Current, Evaluation, Extension, Grants, HostSubnet, Key, Known, Leaf, Limits,
    Machine, MachineKind, MachinePool, Network, Node, Outcome, Pkcs10, Reason, Request, SignerPath,
    Unreadable, Verdict, evaluate,
};
use serde_json::{Value, json};

pub(crate) const BOOTSTRAPPER: &str =
    "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
pub(crate) const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
pub(crate) const SERVING: &str = "kubernetes.io/kubelet-serving";
/// When the machine was created.
pub(crate) const CREATED: &str = "2026-01-02T03:00:00Z";

/// That many seconds after the machine was created.
pub(crate) fn at(seconds: i64) -> Instant {
    let created = Instant::parse(CREATED).unwrap();
    Instant::of_seconds(created.seconds + seconds)
}

/// Everything that a decision goes by.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) config: Config,
    pub(crate) machines: Result<Vec<Machine>, String>,
    pub(crate) unreadable: Vec<Unreadable>,
    pub(crate) pools: Vec<MachinePool>,
    pub(crate) node: Result<Option<Node>, String>,
    pub(crate) has_bootstrap_ca: bool,
    pub(crate) current: Result<Leaf, String>,
    pub(crate) network: Result<Option<HostSubnet>, String>,
    pub(crate) is_openshift_sdn: bool,
    /// Requests beside the one that is decided.
    pub(crate) others: Vec<Request>,
    pub(crate) grants: Option<Grants>,
    pub(crate) api_server_names: Vec<String>,
}

impl World {
    pub(crate) fn with(machines: impl IntoIterator<Item = Machine>) -> Self {
        let machines: Vec<_> = machines.into_iter().collect();
        let config =
            Config::parse("machineAPIs: [machine.openshift.io, cluster.x-k8s.io]\nclusterName: mine", yaml);
        Self {
            now: at(130),
            config: config.unwrap(),
            machines: Ok(machines),
            unreadable: Vec::new(),
            pools: Vec::new(),
            node: Ok(None),
            has_bootstrap_ca: false,
            current: Err("nobody dialled".to_owned()),
            network: Ok(None),
            is_openshift_sdn: false,
            others: Vec::new(),
            grants: None,
            api_server_names: Vec::new(),
        }
    }

    /// The world of `worker-0`, whose Machine is of this API.
    pub(crate) fn of(kind: MachineKind) -> Self {
        Self::with([machine(kind, &worker())])
    }

    /// The worlds of all APIs (NB-159).
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        MachineKind::ALL.into_iter().map(Self::of)
    }

    pub(crate) fn evaluate(&self, request: &Request) -> Evaluation {
        let all = || self.others.iter().chain([request]);
        let machines = self.machines.as_deref().unwrap_or_default();
        let nodes = self.node.iter().flatten().map(|node| node.name.as_str());
        let known = Known {
            machines,
            pools: &self.pools,
            unreadable: &self.unreadable,
            is_blind: self.machines.is_err(),
        };
        let limits = Limits::of(all(), known, nodes, &self.api_server_names, &self.config, self.now);
        self.evaluate_within(request, &limits)
    }

    pub(crate) fn evaluate_within(&self, request: &Request, limits: &Limits) -> Evaluation {
        let grants = self.grants.clone().unwrap_or_else(|| Grants::of(&self.others));
        let cluster = Cluster {
            now: self.now,
            machines: self.machines.as_deref().map_err(String::as_str),
            unreadable: &self.unreadable,
            pools: &self.pools,
            node: self.node.as_ref().map(Option::as_ref).map_err(String::as_str),
            has_bootstrap_ca: self.has_bootstrap_ca,
            current: match &self.current {
                Ok(leaf) => Current::Verified(leaf),
                Err(why) => Current::Unavailable(why),
            },
            network: match &self.network {
                Err(why) => Network::Unknown(why),
                Ok(subnet) if self.is_openshift_sdn => Network::OpenShiftSdn(subnet.as_ref()),
                Ok(_) => Network::Other,
            },
            limits,
            grants: &grants,
            api_server_names: &self.api_server_names,
        };
        let path = SignerPath::of(&request.signer_name).unwrap();
        evaluate(request, path, &cluster, &self.config)
    }

    pub(crate) fn decide(&self, request: &Request) -> Verdict {
        self.evaluate(request).verdict
    }

    /// Outcome, reason and rule.
    pub(crate) fn answer(&self, request: &Request) -> (Outcome, Reason, &'static str) {
        let verdict = self.decide(request);
        (verdict.outcome, verdict.reason, verdict.rule)
    }

    pub(crate) fn set_config(&mut self, document: &str) {
        let all = "machineAPIs: [machine.openshift.io, cluster.x-k8s.io]\nclusterName: mine\n";
        self.config = Config::parse(&format!("{all}{document}"), yaml).unwrap();
    }

    /// Changes the JSON of the first Machine, and reads it again.
    pub(crate) fn machine(&mut self) -> &mut Machine {
        self.machines.as_mut().unwrap().first_mut().unwrap()
    }
}

pub(crate) fn yaml(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

/// What a Machine says about `worker-0`.
pub(crate) fn worker() -> Value {
    json!([
        {"type": "InternalDNS", "address": "worker-0"},
        {"type": "InternalDNS", "address": "worker-0.mine.internal"},
        {"type": "ExternalDNS", "address": "worker-0.example.com"},
        {"type": "Hostname", "address": "worker-0"},
        {"type": "InternalIP", "address": "10.0.0.10"},
        {"type": "ExternalIP", "address": "192.0.2.10"},
    ])
}

/// A Machine with these addresses, created at [`CREATED`].
pub(crate) fn machine(kind: MachineKind, addresses: &Value) -> Machine {
    Machine::from_json(kind, &machine_json(kind, addresses).to_string()).unwrap()
}

pub(crate) fn machine_json(kind: MachineKind, addresses: &Value) -> Value {
    let mut object = json!({
        "apiVersion": kind.api_version(),
        "kind": "Machine",
        "metadata": {
            "name": "mine-worker-0", "namespace": "machines", "creationTimestamp": CREATED,
            "uid": format!("uid-{}", kind.api_version()), "labels": {"role": "worker"},
        },
        "spec": {"providerID": "cloud:///zone/worker-0"},
        "status": {"phase": "Provisioned", "addresses": addresses},
    });
    if kind != MachineKind::OpenShiftV1Beta1 {
        object["spec"]["clusterName"] = "mine".into();
    }
    object
}

/// The same Machine of `worker-0`, with its node.
pub(crate) fn linked(kind: MachineKind) -> World {
    let mut world = World::of(kind);
    world.machine().node_ref = Some("worker-0".to_owned());
    world.node = Ok(Some(Node {
        name: "worker-0".to_owned(),
        internal_ips: vec!["10.0.0.10".to_owned()],
        kubelet_port: 10250,
    }));
    world
}

/// The request for the first client certificate of `worker-0`, two minutes after its machine was created.
pub(crate) fn client_request() -> Request {
    Request {
        name: "csr-abcde".to_owned(),
        uid: "csr-uid".to_owned(),
        created: Some(at(120)),
        signer_name: CLIENT.to_owned(),
        username: BOOTSTRAPPER.to_owned(),
        groups: token_groups(),
        usages: strings(&["digital signature", "client auth"]),
        conditions: Vec::new(),
        has_certificate: false,
        content: Ok(Pkcs10 {
            common_name: "system:node:worker-0".to_owned(),
            other_attributes: 0,
            organizations: strings(&["system:nodes"]),
            dns: Vec::new(),
            email: Vec::new(),
            ip: Vec::new(),
            uri: Vec::new(),
            other_names: 0,
            extensions: Vec::new(),
            key: Key::P256,
            key_hash: [1; 32],
            is_sha1: false,
            has_trailing_data: false,
        }),
    }
}

/// The request for a serving certificate of `worker-0`.
pub(crate) fn serving_request() -> Request {
    let mut request = client_request();
    request.signer_name = SERVING.to_owned();
    request.username = "system:node:worker-0".to_owned();
    request.groups = strings(&["system:nodes", "system:authenticated"]);
    request.usages = strings(&["digital signature", "server auth"]);
    let content = content(&mut request);
    content.dns = strings(&["worker-0"]);
    content.ip = vec!["10.0.0.10".parse().unwrap()];
    content.extensions = vec![extension("2.5.29.17")];
    request
}

/// The certificate with which the kubelet of `worker-0` answers.
pub(crate) fn leaf() -> Leaf {
    Leaf {
        common_name: "system:node:worker-0".to_owned(),
        not_before: at(-1000),
        not_after: at(100_000),
        dns: strings(&["worker-0"]),
        email: Vec::new(),
        ip: vec!["10.0.0.10".parse().unwrap()],
        uri: Vec::new(),
    }
}

pub(crate) fn content(request: &mut Request) -> &mut Pkcs10 {
    request.content.as_mut().unwrap()
}

pub(crate) fn extension(oid: &str) -> Extension {
    Extension { oid: oid.to_owned(), is_ca: false }
}

pub(crate) fn token_groups() -> Vec<String> {
    strings(&[
        "system:serviceaccounts",
        "system:serviceaccounts:openshift-machine-config-operator",
        "system:authenticated",
    ])
}

pub(crate) fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// The same request, approved by the approver at that time.
pub(crate) fn approved(mut request: Request, when: Instant) -> Request {
    request.conditions = vec![Condition {
        kind: "Approved".to_owned(),
        reason: "NodeCSRApprove".to_owned(),
        since: Some(when),
    }];
    request
}
