//! The configuration document (NB-140).

use portcullis_policy::approval::machine::{Config, ConfigError, DenyMode, PendingLimit};

use super::support::*;

const SECOND: i128 = 1_000_000_000;

fn refused(document: &str) -> String {
    Config::parse(document, yaml).expect_err(document).to_string()
}

#[test]
fn the_defaults_are_those_of_the_rules_nb_140() {
    let config = Config::parse("{}", yaml).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.machine_window, 7200 * SECOND);
    assert_eq!(config.machine_clock_skew, 10 * SECOND);
    assert_eq!(config.max_concurrent, 10);
    assert_eq!((config.pending_limit, config.deny_mode), (PendingLimit::Identity, DenyMode::Never));
    assert_eq!(config.bootstrap_users[0].to_string(), BOOTSTRAPPER);
    assert_eq!(config.machine_apis.len(), 1);
    assert_eq!(config.machine_apis[0].group, "machine.openshift.io");
    assert_eq!(config.kubelet_ca.namespace.as_deref(), Some("openshift-config-managed"));
    assert_eq!(
        (config.kubelet_ca.name.as_str(), config.kubelet_ca.key.as_str()),
        ("csr-controller-ca", "ca-bundle.crt")
    );
    assert_eq!(
        (config.bootstrap_ca.namespace, config.bootstrap_ca.name.as_str()),
        (None, "kubelet-bootstrap-kubeconfig")
    );
    assert!(!config.client_approval_disabled && !config.renewal_requires_machine);
}

#[test]
fn every_key_is_read_nb_140() {
    let config = Config::parse(
        "nodeClientCert: {disabled: true}
bootstrapUsers: ['system:serviceaccount:a:b', 'system:serviceaccount:c:d']
bootstrapCA: {namespace: infra, name: m, key: k}
kubeletCA: {name: other}
machineAPIs: [cluster.x-k8s.io/v1beta2, machine.openshift.io]
machineNamespace: machines
clusterName: mine
machineWindow: 1h30m
machineClockSkew: 0s
windowOverrides:
- selector: {matchExpressions: [{key: role, operator: In, values: [metal]}]}
  window: 24h
pendingLimit: global
denyMode: superseded
maxConcurrent: 3
renewalRequiresMachine: true
nodeCIDRs: [10.0.0.0/8, 'fd00::/8']
extraSANs:
- selector: {matchLabels: {role: control-plane}}
  dnsNames: [vip.example.com]
  ipAddresses: [10.0.0.100, 'fd00::1']
",
        yaml,
    )
    .unwrap();
    assert!(config.client_approval_disabled && config.renewal_requires_machine);
    assert_eq!(config.bootstrap_users.len(), 2);
    assert_eq!(config.bootstrap_ca.namespace.as_deref(), Some("infra"));
    assert_eq!((config.kubelet_ca.name.as_str(), config.kubelet_ca.key.as_str()), ("other", "ca-bundle.crt"));
    assert_eq!(config.machine_apis[0].version.as_deref(), Some("v1beta2"));
    assert_eq!(config.machine_window, 5400 * SECOND);
    assert_eq!(config.machine_clock_skew, 0);
    assert_eq!(config.window_overrides[0].window, 86_400 * SECOND);
    assert_eq!((config.pending_limit, config.deny_mode), (PendingLimit::Global, DenyMode::Superseded));
    assert_eq!((config.max_concurrent, config.node_cidrs.len()), (3, 2));
    assert_eq!((config.extra_names[0].dns.len(), config.extra_names[0].ip.len()), (1, 2));
    assert_eq!(Config::parse("denyMode: strict", yaml).unwrap().deny_mode, DenyMode::Strict);
}

#[test]
fn unknown_keys_are_refused_at_every_depth_nb_140() {
    for document in [
        "machinewindow: 2h",
        "nodeClientCert: {enabled: true}",
        "kubeletCA: {configMap: x}",
        "windowOverrides: [{selector: {matchlabels: {a: b}}, window: 2h}]",
        "windowOverrides: [{selector: {}, window: 2h, more: 1}]",
        "extraSANs: [{selector: {}, dns: [a]}]",
        "extraSANs: [{selector: {matchExpressions: [{key: a, op: In}]}}]",
    ] {
        let error = refused(document);
        assert!(error.contains("unknown field"), "{document}: {error}");
        assert!(!error.contains("line 1 column"), "the position is not the user's: {error}");
    }
}

#[test]
fn values_outside_their_limits_are_refused_with_what_to_write_nb_97() {
    for (document, said) in [
        ("machineWindow: 4m59s", "between 5m and 24h"),
        ("machineWindow: 24h1ns", "between 5m and 24h"),
        ("machineWindow: 2", "invalid type"),
        ("machineWindow: '2'", "such as 2h"),
        ("machineWindow: 2d", "such as 2h"),
        ("machineClockSkew: 61s", "between 0s and 60s"),
        ("machineClockSkew: -1s", "between 0s and 60s"),
        ("windowOverrides: [{selector: {}, window: 1s}]", "between 5m and 24h"),
        ("windowOverrides: [{window: 2h}]", "missing field"),
        (
            "windowOverrides: [{selector: {matchExpressions: [{key: a, operator: Is}]}, window: 2h}]",
            "selector",
        ),
        ("maxConcurrent: 0", "between 1 and 100"),
        ("maxConcurrent: 101", "between 1 and 100"),
        ("maxConcurrent: -1", "invalid value"),
        ("bootstrapUsers: [node-bootstrapper]", "system:serviceaccount:NAMESPACE:NAME"),
        ("bootstrapUsers: ['system:serviceaccount:a:']", "system:serviceaccount:NAMESPACE:NAME"),
        ("bootstrapUsers: ['system:serviceaccount:a:b:c']", "system:serviceaccount:NAMESPACE:NAME"),
        ("machineAPIs: [machines.example.com]", "known are"),
        ("machineAPIs: [cluster.x-k8s.io/v1alpha4]", "known are"),
        ("machineAPIs: [cluster.x-k8s.io, cluster.x-k8s.io/v1beta1]", "named twice"),
        ("machineNamespace: ''", "leave it out"),
        ("clusterName: ''", "leave it out"),
        ("nodeCIDRs: [10.0.0.0]", "10.0.0.0/16"),
        ("extraSANs: [{selector: {}, dnsNames: ['*.example.com']}]", "not a lower-case DNS name"),
        ("extraSANs: [{selector: {}, ipAddresses: [vip]}]", "not an IP address"),
        ("pendingLimit: none", "unknown variant"),
        ("denyMode: always", "unknown variant"),
        ("attestation: {}", "not supported"),
        ("", "empty"),
        ("# nothing", "empty"),
        ("- a", "invalid type"),
        ("maxConcurrent: 1\nmaxConcurrent: 2", "duplicate"),
    ] {
        let error = refused(document);
        assert!(error.contains(said), "{document}: {error}");
    }
    assert!(matches!(
        Config::parse("maxConcurrent: 0", yaml),
        Err(ConfigError::Value { key: "maxConcurrent", .. })
    ));
}
