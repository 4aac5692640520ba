//! The approver's configuration: one YAML document (NB-140).
//!
//! What is not known is refused. Durations are written as Kubernetes writes them, such as `2h` or `1m30s`.

mod document;

use std::fmt;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use super::names::Cidr;
use super::object::{Machine, MachineKind};
use crate::objects::rbac::LabelSelector;
use crate::objects::strict;
use document::Document;

/// Reads a YAML document; the caller brings the YAML reader.
pub type ReadYaml = fn(&str) -> Result<Value, String>;

const SECOND: i128 = 1_000_000_000;
const MINUTE: i128 = 60 * SECOND;
const HOUR: i128 = 60 * MINUTE;

/// How the approver decides. The default is that of a cluster whose Machines are `machine.openshift.io`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Whether no client certificate is approved (NB-81).
    pub client_approval_disabled: bool,
    /// Who may ask for the first client certificate of a node (NB-85).
    pub bootstrap_users: Vec<ServiceAccount>,
    /// Where the authority of bootstrap certificates is published; without a namespace both known ones are looked at
    /// (NB-14).
    pub bootstrap_ca: ConfigMapKey,
    /// Where the authority of serving certificates is published (NB-58).
    pub kubelet_ca: ConfigMapKey,
    /// Which APIs hold Machines (NB-120).
    pub machine_apis: Vec<MachineApi>,
    /// The only namespace in which Machines count; nothing for all (NB-121).
    pub machine_namespace: Option<String>,
    /// The only cluster whose Machines of `cluster.x-k8s.io` count (NB-122).
    pub cluster_name: Option<String>,
    /// How long after a Machine's creation a request must be made, at most (NB-93). Nanoseconds.
    pub machine_window: i128,
    /// How long before a Machine's creation a request may be made, at most (NB-97). Nanoseconds.
    pub machine_clock_skew: i128,
    /// Other windows for some Machines; the first that selects a Machine counts (NB-97).
    pub window_overrides: Vec<WindowOverride>,
    /// What counts against the limit of pending requests (NB-72, NB-73).
    pub pending_limit: PendingLimit,
    /// Which requests are denied (NB-60).
    pub deny_mode: DenyMode,
    /// How many requests are evaluated at once (NB-56).
    pub max_concurrent: usize,
    /// Whether a renewed serving certificate needs a live Machine (NB-113).
    pub renewal_requires_machine: bool,
    /// Where kubelets may be dialled although no Machine has their address (NB-111).
    pub node_cidrs: Vec<Cidr>,
    /// Names that some Machines have beside their own (NB-144).
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
    /// The namespace; nothing where several are looked at.
    pub namespace: Option<String>,
    /// The ConfigMap's name.
    pub name: String,
    /// The key within.
    pub key: String,
}

/// An API that holds Machines: a group, or one version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineApi {
    /// The group.
    pub group: String,
    /// The version; nothing for the one that the server prefers.
    pub version: Option<String>,
}

/// Another window for some Machines.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowOverride {
    /// Which Machines.
    pub selector: LabelSelector,
    /// How long after a Machine's creation a request must be made, at most. Nanoseconds.
    pub window: i128,
}

/// Names that some Machines have beside their own (NB-144).
#[derive(Clone, Debug, PartialEq)]
pub struct ExtraNames {
    /// Which Machines.
    pub selector: LabelSelector,
    /// DNS names.
    pub dns: Vec<String>,
    /// IP addresses.
    pub ip: Vec<IpAddr>,
}

/// What counts against the limit of pending requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PendingLimit {
    /// Different names without Machine or Node; only those are held (NB-73).
    #[default]
    Identity,
    /// All requests; beyond the limit nothing is approved (NB-72).
    Global,
}

/// Which requests are denied instead of held (NB-60).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DenyMode {
    /// None: another approver may want them.
    #[default]
    Never,
    /// Those for which a newer one waits (NB-75).
    Superseded,
    /// Those that no honest kubelet makes.
    Strict,
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not YAML, an unknown key, or a value of another type.
    #[error("{0}")]
    Document(String),
    /// A value that means nothing, or lies outside its limits.
    #[error("{key}: {detail}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong and what to write.
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
    /// Reads a configuration. The empty document is refused: it is more often a lost file than a wish.
    ///
    /// # Errors
    /// An unknown key, a value of another type, or one outside its limits.
    pub fn parse(text: &str, yaml: ReadYaml) -> Result<Self, ConfigError> {
        let value = yaml(text).map_err(ConfigError::Document)?;
        if value.is_null() {
            return Err(ConfigError::Document("the document is empty; write {} for the defaults".to_owned()));
        }
        if value.get("attestation").is_some() {
            let detail = "attestation is not supported; remove the key".to_owned();
            return Err(ConfigError::Value { key: "attestation", detail });
        }
        let document: Document =
            strict::from_str(&value.to_string()).map_err(|error| ConfigError::Document(described(&error)))?;
        document.into_config()
    }

    /// How long after its creation requests for a Machine are taken. Nanoseconds.
    pub fn window_of(&self, machine: &Machine) -> i128 {
        let selects = |o: &&WindowOverride| o.selector.matches(&machine.labels).unwrap_or(false);
        self.window_overrides.iter().find(selects).map_or(self.machine_window, |o| o.window)
    }
}

/// The error without its position: the text that it counts in is not the user's.
fn described(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}
