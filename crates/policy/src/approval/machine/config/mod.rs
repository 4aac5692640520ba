//! The approver's configuration: one YAML document (NB-140).
//!
//! Unknown fields are refused. Durations have the format of Kubernetes, such as `2h` or `1m30s`.

mod document;

use std::fmt;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use super::names::Cidr;
use super::object::{Machine, MachineKind};
use crate::objects::rbac::LabelSelector;

/// Parses a YAML document; the caller provides the YAML parser.
pub type ReadYaml = fn(&str) -> Result<Value, String>;

const SECOND: i128 = 1_000_000_000;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;

/// The configuration of the approver. The default is for a cluster with Machines of `machine.openshift.io`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Whether approval of client certificates is disabled (NB-81).
    pub client_approval_disabled: bool,
    /// The users who may request the first client certificate of a node (NB-85).
    pub bootstrap_users: Vec<ServiceAccount>,
    /// The ConfigMap key with the CA of bootstrap certificates; without a namespace, both known ones are tried (NB-14).
    pub bootstrap_ca: ConfigMapKey,
    /// The ConfigMap key with the CA of serving certificates (NB-58).
    pub kubelet_ca: ConfigMapKey,
    /// The APIs that contain Machines (NB-120).
    pub machine_apis: Vec<MachineApi>,
    /// The namespace of Machines; `None` for all (NB-121).
    pub machine_namespace: Option<String>,
    /// The cluster whose Machines of `cluster.x-k8s.io` are used (NB-122).
    pub cluster_name: Option<String>,
    /// The maximum time from a Machine's creation to a request (NB-93), in nanoseconds.
    pub machine_window: i128,
    /// The maximum time by which a request may precede a Machine's creation (NB-97), in nanoseconds.
    pub machine_clock_skew: i128,
    /// Overrides of the window for some Machines; the first that selects a Machine is used (NB-97).
    pub window_overrides: Vec<WindowOverride>,
    /// How the limit of pending requests is applied (NB-72, NB-73).
    pub pending_limit: PendingLimit,
    /// Which requests are denied (NB-60).
    pub deny_mode: DenyMode,
    /// The maximum number of requests that are evaluated concurrently (NB-56).
    pub max_concurrent: usize,
    /// Whether a renewed serving certificate needs a live Machine (NB-113).
    pub renewal_requires_machine: bool,
    /// The address ranges in which kubelets may be dialled although no Machine has their address (NB-111).
    pub node_cidrs: Vec<Cidr>,
    /// Additional names of some Machines (NB-144).
    pub extra_names: Vec<ExtraNames>,
}

/// A service account that may bootstrap nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ServiceAccount {
    /// The user name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

/// A value in a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapKey {
    /// The namespace; `None` if several are tried.
    pub namespace: Option<String>,
    /// The ConfigMap's name.
    pub name: String,
    /// The key in the ConfigMap.
    pub key: String,
}

/// An API that contains Machines: a group, or one version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineApi {
    /// The group.
    pub group: String,
    /// The version; `None` for the server's preferred one.
    pub version: Option<String>,
}

/// An override of the window for some Machines.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowOverride {
    /// The selector of Machines.
    pub selector: LabelSelector,
    /// The maximum time from a Machine's creation to a request, in nanoseconds.
    pub window: i128,
}

/// Additional names of some Machines (NB-144).
#[derive(Clone, Debug, PartialEq)]
pub struct ExtraNames {
    /// The selector of Machines.
    pub selector: LabelSelector,
    /// DNS names.
    pub dns: Vec<String>,
    /// IP addresses.
    pub ip: Vec<IpAddr>,
}

/// How the limit of pending requests is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PendingLimit {
    /// Distinct names without a Machine or Node count, and only their requests are held (NB-73).
    #[default]
    Identity,
    /// All requests count. Beyond the limit no request is approved (NB-72).
    Global,
}

/// Which requests are denied instead of held (NB-60).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DenyMode {
    /// None: another approver may approve them.
    #[default]
    Never,
    /// Those that a newer pending request supersedes (NB-75).
    Superseded,
    /// Those that no legitimate kubelet sends.
    Strict,
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not YAML, an unknown key, or a value of another type.
    #[error("{0}")]
    Document(String),
    /// A value that is invalid or out of range.
    #[error("{key}: {detail}")]
    Value {
        /// The key.
        key: &'static str,
        /// The fault, and the allowed values.
        detail: String,
    },
}

impl Default for Config {
    fn default() -> Self {
        let key = |namespace: Option<&str>, name: &str| ConfigMapKey {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            key: "ca-bundle.crt".to_owned(),
        };
        Self {
            client_approval_disabled: false,
            bootstrap_users: vec![ServiceAccount {
                namespace: "openshift-machine-config-operator".to_owned(),
                name: "node-bootstrapper".to_owned(),
            }],
            bootstrap_ca: key(None, "kubelet-bootstrap-kubeconfig"),
            kubelet_ca: key(Some("openshift-config-managed"), "csr-controller-ca"),
            machine_apis: vec![MachineApi {
                group: MachineKind::OpenShiftV1Beta1.group().to_owned(),
                version: None,
            }],
            machine_namespace: None,
            cluster_name: None,
            machine_window: 2 * HOUR,
            machine_clock_skew: 10 * SECOND,
            window_overrides: Vec::new(),
            pending_limit: PendingLimit::Identity,
            deny_mode: DenyMode::Never,
            max_concurrent: 10,
            renewal_requires_machine: false,
            node_cidrs: Vec::new(),
            extra_names: Vec::new(),
        }
    }
}

impl Config {
    /// How long after its creation requests for a Machine are accepted, in nanoseconds.
    pub fn window_of(&self, machine: &Machine) -> i128 {
        let selects = |o: &&WindowOverride| o.selector.matches(&machine.labels).unwrap_or(false);
        self.window_overrides.iter().find(selects).map_or(self.machine_window, |o| o.window)
    }
}
