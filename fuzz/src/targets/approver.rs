//! The inputs of the machine approver: its configuration, and Machines that others write.

use portcullis_apimachinery::time::Instant;
use portcullis_policy::approval::machine::{
    Cluster, Config, Current, Grants, Key, Known, Limits, Member, Network, Node, Outcome, Pkcs10, Request,
    SignerPath, evaluate, read,
};

pub(super) const CONFIG: &[&str] = &[
    "nodeClientCert: {disabled: true}\n",
    "bootstrapUsers: ['system:serviceaccount:a:b']\n",
    "bootstrapCA: {namespace: a, name: b, key: c}\n",
    "kubeletCA: {}\n",
    "machineAPIs: [machine.openshift.io, cluster.x-k8s.io/v1beta2]\n",
    "machineNamespace: a\n",
    "clusterName: a\n",
    "machineWindow: 2h\n",
    "machineClockSkew: 10s\n",
    "windowOverrides:\n",
    "- selector: {matchLabels: {a: b}}\n  window: 24h\n",
    "matchExpressions: [{key: a, operator: In, values: [b]}]",
    "pendingLimit: global\n",
    "denyMode: strict\n",
    "maxConcurrent: 3\n",
    "renewalRequiresMachine: true\n",
    "nodeCIDRs: [10.0.0.0/8, 'fd00::/8']\n",
    "extraSANs:\n",
    "  dnsNames: [a.b]\n",
    "  ipAddresses: [10.0.0.1]\n",
    "attestation: {}\n",
    "null",
    "{}",
    "&a ",
    "*a",
];

pub(super) const MACHINE: &[&str] = &[
    "\"machine.openshift.io/v1beta1\"",
    "\"cluster.x-k8s.io/v1beta1\"",
    "\"cluster.x-k8s.io/v1beta2\"",
    "\"MachinePool\"",
    "\"worker-0\"",
    "\"WORKER-0.\"",
    "\"InternalDNS\"",
    "\"nodeRef\":{\"name\":\"worker-0\"}",
    "\"deletionTimestamp\":\"2026-01-02T03:00:00Z\"",
    "\"phase\":\"Failed\"",
    "\"clusterName\":\"mine\"",
    "\"providerID\":",
    "null",
    "[]",
    "{}",
    ",",
];

const HOUR: i128 = 3_600_000_000_000;

fn yaml(text: &str) -> Result<serde_json::Value, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

/// An accepted configuration is within its limits, and a refused one has a reason.
pub(super) fn config(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let config = match Config::parse(text, yaml) {
        Ok(config) => config,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "an error says what is wrong");
            return false;
        }
    };
    let windows = config.window_overrides.iter().map(|o| o.window).chain([config.machine_window]);
    assert!(windows.into_iter().all(|window| (HOUR / 12..=24 * HOUR).contains(&window)));
    assert!((0..=HOUR / 60).contains(&config.machine_clock_skew));
    assert!((1..=100).contains(&config.max_concurrent));
    let selectors = config.window_overrides.iter().map(|o| &o.selector);
    let selectors = selectors.chain(config.extra_names.iter().map(|e| &e.selector));
    assert!(
        selectors.into_iter().all(|selector| selector.matches(&[]).is_ok()),
        "a selector means something"
    );
    assert!(!text.contains("attestation:") || text.contains('#') || text.contains(['"', '\'']));
    true
}

/// No mutated Machine leads to the approval of a node that it does not name, or that it does not wait for.
pub(super) fn machine(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    // Parsing an object as another kind does not panic.
    let _ = (Node::from_json(text), Request::from_json(text, |_| Err("not looked at".to_owned())));
    let Ok(Some(member)) = read(text) else { return false };
    let (machines, pools) = match member {
        Member::Machine(machine) => (vec![*machine], vec![]),
        Member::Pool(pool) => (vec![], vec![pool]),
    };
    let config =
        Config::parse("machineAPIs: [machine.openshift.io, cluster.x-k8s.io]\nclusterName: mine", yaml);
    let config = config.expect("a good configuration");
    let now = Instant::of_seconds(1_767_322_920);
    let request = first_request(now);
    let known = Known { machines: &machines, pools: &pools, unreadable: &[], is_blind: false };
    let limits = Limits::of([&request], known, [], &[], &config, now);
    let cluster = Cluster {
        now,
        machines: Ok(&machines),
        unreadable: &[],
        pools: &pools,
        node: Ok(None),
        has_bootstrap_ca: false,
        current: Current::Unavailable("nobody dialled"),
        network: Network::Other,
        limits: &limits,
        grants: &Grants::default(),
        api_server_names: &[],
    };
    let verdict = evaluate(&request, SignerPath::Client, &cluster, &config).verdict;
    if verdict.outcome == Outcome::Approve {
        let machine = machines.first().expect("a Machine that speaks for the node");
        assert!(machine.node_ref.is_none() && !machine.is_deleting && machine.phase != "Failed");
        assert!(machine.created.is_some());
        // The word may also be written with escapes.
        assert!(text.to_ascii_lowercase().contains("worker-0") || text.contains('\\'));
    }
    true
}

/// Returns the first client certificate request of `worker-0`.
fn first_request(created: Instant) -> Request {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let namespace = "openshift-machine-config-operator";
    Request {
        name: "csr".to_owned(),
        uid: "uid".to_owned(),
        created: Some(created),
        signer_name: "kubernetes.io/kube-apiserver-client-kubelet".to_owned(),
        username: format!("system:serviceaccount:{namespace}:node-bootstrapper"),
        groups: texts(&[
            "system:serviceaccounts",
            &format!("system:serviceaccounts:{namespace}"),
            "system:authenticated",
        ]),
        usages: texts(&["digital signature", "client auth"]),
        conditions: vec![],
        has_certificate: false,
        content: Ok(Pkcs10 {
            common_name: "system:node:worker-0".to_owned(),
            other_attributes: 0,
            organizations: texts(&["system:nodes"]),
            dns: vec![],
            email: vec![],
            ip: vec![],
            uri: vec![],
            other_names: 0,
            extensions: vec![],
            key: Key::P256,
            key_hash: [0; 32],
            is_sha1: false,
            has_trailing_data: false,
        }),
    }
}
