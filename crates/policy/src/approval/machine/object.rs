//! Machine objects of both API families, in one common type (NB-120, NB-123, NB-124).
//!
//! Only fields that a rule needs are read; all others are ignored.

use std::fmt;

use portcullis_apimachinery::json;
use portcullis_apimachinery::time::Instant;
use serde::Deserialize;

use crate::objects::decode::{List, Present, or_default};
use crate::objects::rbac::owned_map;
use crate::objects::strict;

/// The maximum length of a provider ID in bytes (NB-123). Longer ones are ignored.
const MAX_PROVIDER_ID: usize = 512;

/// The API of a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineKind {
    /// `machine.openshift.io/v1beta1`.
    OpenShiftV1Beta1,
    /// `cluster.x-k8s.io/v1beta1`.
    ClusterV1Beta1,
    /// `cluster.x-k8s.io/v1beta2`.
    ClusterV1Beta2,
}

impl MachineKind {
    /// All known APIs.
    pub const ALL: [Self; 3] = [Self::OpenShiftV1Beta1, Self::ClusterV1Beta1, Self::ClusterV1Beta2];

    /// Returns the API of an `apiVersion`; `None` if it is not a known API of Machines.
    pub fn of(api_version: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.api_version() == api_version)
    }

    /// The API group.
    pub fn group(self) -> &'static str {
        self.group_version().0
    }

    /// The version in its group.
    pub fn version(self) -> &'static str {
        self.group_version().1
    }

    fn group_version(self) -> (&'static str, &'static str) {
        self.api_version().split_once('/').unwrap_or_default()
    }

    /// Group and version.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::OpenShiftV1Beta1 => "machine.openshift.io/v1beta1",
            Self::ClusterV1Beta1 => "cluster.x-k8s.io/v1beta1",
            Self::ClusterV1Beta2 => "cluster.x-k8s.io/v1beta2",
        }
    }
}

/// A Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The API of the object.
    pub kind: MachineKind,
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The unique id.
    pub uid: String,
    /// The labels.
    pub labels: Vec<(String, String)>,
    /// The creation time; without it the Machine never matches (NB-126).
    pub created: Option<Instant>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// The name of its cluster; empty if the API has only one.
    pub cluster_name: String,
    /// The provider ID; `None` if empty or longer than 512 bytes.
    pub provider_id: Option<String>,
    /// The name of its Node.
    pub node_ref: Option<String>,
    /// The addresses, in order.
    pub addresses: Vec<Address>,
    /// The phase, as written.
    pub phase: String,
    /// Whether its bootstrap data is ready.
    pub is_bootstrapped: bool,
    /// Whether its infrastructure is ready.
    pub has_infrastructure: bool,
    /// Whether its node is ready.
    pub is_ready: bool,
}

/// An address of a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The kind of the address.
    pub kind: AddressKind,
    /// The address, as written.
    pub value: String,
}

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// An internal DNS name.
    InternalDns,
    /// An external DNS name.
    ExternalDns,
    /// A host name.
    Hostname,
    /// An internal IP address.
    InternalIp,
    /// An external IP address.
    ExternalIp,
    /// A kind that no rule uses.
    Other,
}

/// The address kinds that contain IP addresses.
pub(super) const IP: &[AddressKind] = &[AddressKind::InternalIp, AddressKind::ExternalIp];

/// A pool of machines without Machine objects of their own (NB-127).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachinePool {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The name of its cluster.
    pub cluster_name: String,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// The names of its members' Nodes.
    pub node_refs: Vec<String>,
    /// The provider IDs of its members.
    pub provider_ids: Vec<String>,
}

/// An object that represents machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// A Machine.
    Machine(Box<Machine>),
    /// A pool of machines.
    Pool(MachinePool),
}

/// An error in an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ObjectError(pub(super) String);

impl Machine {
    /// Reads a Machine of this API.
    ///
    /// # Errors
    /// The text is not a JSON object, or a relevant field has a value of another type.
    pub fn from_json(kind: MachineKind, text: &str) -> Result<Self, ObjectError> {
        Ok(decode::<View<Spec, Status>>(text)?.into_machine(kind))
    }

    /// The values of the addresses of these kinds.
    pub(super) fn values<'a>(&'a self, kinds: &'static [AddressKind]) -> impl Iterator<Item = &'a str> {
        self.addresses.iter().filter(|address| kinds.contains(&address.kind)).map(|address| &*address.value)
    }

    /// Returns whether the Machine failed permanently (NB-92).
    pub fn has_failed(&self) -> bool {
        self.phase == "Failed"
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.api_version(), self.namespace, self.name)
    }
}

impl MachinePool {
    /// Reads a MachinePool of `cluster.x-k8s.io`.
    ///
    /// # Errors
    /// The text is not a JSON object, or a relevant field has a value of another type.
    pub fn from_json(text: &str) -> Result<Self, ObjectError> {
        let view: View<Spec, Status> = decode(text)?;
        let node = |reference: NodeRef| (!reference.name.is_empty()).then_some(reference.name);
        Ok(Self {
            name: view.metadata.name,
            namespace: view.metadata.namespace,
            cluster_name: view.spec.cluster_name,
            is_deleting: view.metadata.deletion_timestamp.is_some(),
            node_refs: view.status.node_refs.0.into_iter().filter_map(node).collect(),
            provider_ids: view.spec.provider_id_list.0,
        })
    }
}

/// Reads an object by its `apiVersion` and `kind`; `None` if it does not represent machines.
///
/// # Errors
/// The text is not a JSON object, or a relevant field has a value of another type.
pub fn read(text: &str) -> Result<Option<Member>, ObjectError> {
    let meta = json::type_meta(text).map_err(|error| ObjectError(error.to_string()))?;
    let Some(kind) = meta.api_version.as_deref().and_then(MachineKind::of) else { return Ok(None) };
    Ok(match meta.kind.as_deref() {
        Some("Machine") => Some(Member::Machine(Box::new(Machine::from_json(kind, text)?))),
        Some("MachinePool") if kind != MachineKind::OpenShiftV1Beta1 => {
            Some(Member::Pool(MachinePool::from_json(text)?))
        }
        _ => None,
    })
}

/// Decodes an object of the cluster.
pub(super) fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ObjectError> {
    json::check(text).map_err(|error| ObjectError(error.to_string()))?;
    strict::from_str(text).map_err(|error| ObjectError(error.to_string()))
}

/// The metadata that the approver reads.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OwnedMeta {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) namespace: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) uid: String,
    #[serde(deserialize_with = "owned_map")]
    pub(super) labels: Vec<(String, String)>,
    #[serde(deserialize_with = "or_default")]
    creation_timestamp: String,
    pub(super) deletion_timestamp: Option<Present>,
}

impl OwnedMeta {
    /// The creation time; `None` if it is missing, invalid, or Go's zero time.
    pub(super) fn created(&self) -> Option<Instant> {
        Instant::parse(&self.creation_timestamp).ok().filter(|time| *time != Instant::ZERO)
    }
}

/// An object of the cluster, with the fields of its spec and its status that are read.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>, T: Default + Deserialize<'de>"))]
pub(super) struct View<S, T> {
    #[serde(deserialize_with = "or_default")]
    pub(super) metadata: OwnedMeta,
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: S,
    #[serde(deserialize_with = "or_default")]
    pub(super) status: T,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    cluster_name: String,
    #[serde(rename = "providerID", deserialize_with = "or_default")]
    provider_id: String,
    #[serde(rename = "providerIDList")]
    provider_id_list: List<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    node_ref: Option<NodeRef>,
    node_refs: List<NodeRef>,
    addresses: List<AddressView>,
    #[serde(deserialize_with = "or_default")]
    phase: String,
    conditions: List<ConditionView>,
    #[serde(deserialize_with = "or_default")]
    bootstrap_ready: bool,
    #[serde(deserialize_with = "or_default")]
    infrastructure_ready: bool,
    #[serde(deserialize_with = "or_default")]
    initialization: Initialization,
    /// New-style conditions in objects of v1beta1.
    #[serde(deserialize_with = "or_default")]
    v1beta2: Conditions,
    #[serde(deserialize_with = "or_default")]
    deprecated: Deprecated,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeRef {
    #[serde(deserialize_with = "or_default")]
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AddressView {
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(super) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) address: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConditionView {
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
    #[serde(deserialize_with = "or_default")]
    status: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Initialization {
    #[serde(deserialize_with = "or_default")]
    bootstrap_data_secret_created: bool,
    #[serde(deserialize_with = "or_default")]
    infrastructure_provisioned: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Conditions {
    conditions: List<ConditionView>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Deprecated {
    /// Old-style conditions in objects of v1beta2.
    #[serde(deserialize_with = "or_default")]
    v1beta1: Conditions,
}

impl View<Spec, Status> {
    fn into_machine(self, kind: MachineKind) -> Machine {
        let Self { metadata, spec, status } = self;
        let is_cluster_api = kind != MachineKind::OpenShiftV1Beta1;
        let provider_id = Some(spec.provider_id).filter(|id| !id.is_empty() && id.len() <= MAX_PROVIDER_ID);
        let own = match kind {
            MachineKind::OpenShiftV1Beta1 => (true, matches!(&*status.phase, "Provisioned" | "Running")),
            MachineKind::ClusterV1Beta1 => (status.bootstrap_ready, status.infrastructure_ready),
            MachineKind::ClusterV1Beta2 => {
                let Initialization { bootstrap_data_secret_created, infrastructure_provisioned } =
                    status.initialization;
                (bootstrap_data_secret_created, infrastructure_provisioned)
            }
        };
        let condition = |old, new| status.condition(kind, old, new).filter(|_| is_cluster_api);
        let is_bootstrapped = condition("BootstrapReady", "BootstrapConfigReady").unwrap_or(own.0);
        let has_infrastructure = condition("InfrastructureReady", "InfrastructureReady").unwrap_or(own.1);
        let is_true = |old, new| condition(old, new) == Some(true);
        let works = match kind {
            MachineKind::OpenShiftV1Beta1 => status.phase == "Running",
            _ => provider_id.is_some() && (is_true("NodeHealthy", "NodeReady") || is_true("Ready", "Ready")),
        };
        // In v1beta2 a reference without a name means no reference; elsewhere it is a reference to a node that cannot
        // exist.
        let node_ref = status.node_ref.map(|reference| reference.name);
        let node_ref = node_ref.filter(|name| kind != MachineKind::ClusterV1Beta2 || !name.is_empty());
        Machine {
            kind,
            created: metadata.created(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            labels: metadata.labels,
            cluster_name: if is_cluster_api { spec.cluster_name } else { String::new() },
            provider_id,
            is_ready: works && node_ref.is_some(),
            node_ref,
            addresses: status.addresses.0.into_iter().map(AddressView::into_address).collect(),
            phase: status.phase,
            is_bootstrapped,
            has_infrastructure,
        }
    }
}

impl Status {
    /// Returns whether a condition is true, by its old-style and new-style names; `None` if it is in neither. The
    /// native style of the API takes precedence (NB-124).
    fn condition(&self, kind: MachineKind, old: &str, new: &str) -> Option<bool> {
        let find = |conditions: &List<ConditionView>, name: &str| {
            conditions
                .iter()
                .find(|condition| condition.kind == name)
                .map(|condition| condition.status == "True")
        };
        match kind {
            MachineKind::ClusterV1Beta2 => {
                find(&self.conditions, new).or_else(|| find(&self.deprecated.v1beta1.conditions, old))
            }
            _ => find(&self.conditions, old).or_else(|| find(&self.v1beta2.conditions, new)),
        }
    }
}

impl AddressView {
    fn into_address(self) -> Address {
        let kind = match &*self.kind {
            "InternalDNS" => AddressKind::InternalDns,
            "ExternalDNS" => AddressKind::ExternalDns,
            "Hostname" => AddressKind::Hostname,
            "InternalIP" => AddressKind::InternalIp,
            "ExternalIP" => AddressKind::ExternalIp,
            _ => AddressKind::Other,
        };
        Address { kind, value: self.address }
    }
}
