//! Nodes (NR-35 to NR-45): a node may write its own Node object, but must not change its protected labels and taints or
//! add owner references.

use serde::Deserialize;

use super::body::GroupKind;
use super::labels::may_change;
use super::rejection::Rejection;
use super::request::{AdmissionRequest, Operation};
use super::semantic::{Instant, Map};
use crate::objects::decode::{List, Text, or_default};
use crate::objects::meta::OwnerReference;

const NODE: GroupKind = GroupKind("", "Node");

/// The fields of a Node that are compared. Equality is semantic.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Node<'a> {
    #[serde(deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Metadata<'a> {
    labels: Map<'a, Text<'a>>,
    owner_references: List<OwnerReference<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Spec<'a> {
    config_source: Option<ConfigSource<'a>>,
    taints: List<Taint<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ConfigSource<'a> {
    config_map: Option<ConfigMapSource<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ConfigMapSource<'a> {
    namespace: Text<'a>,
    name: Text<'a>,
    uid: Text<'a>,
    resource_version: Text<'a>,
    kubelet_config_key: Text<'a>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Taint<'a> {
    key: Text<'a>,
    value: Text<'a>,
    effect: Text<'a>,
    time_added: Option<Instant>,
}

/// All subresources are treated alike. A node may delete itself (NR-35, NR-36). No node writes another (NC-9).
pub(super) fn admit(me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    request
        .require(request.name == me, format_args!("node {me:?} may write only the Node that is itself"))?;
    match request.operation {
        Operation::Create => create(request),
        Operation::Update => update(request),
        Operation::Delete | Operation::Connect => Ok(()),
    }
}

/// NR-37 to NR-39.
fn create(request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    let node: Node<'_> = request.body(NODE)?;
    request.require(node.spec.config_source.is_none(), "a node may not register with spec.configSource")?;
    refuse_labels(request, &Map::default(), &node.metadata.labels)
}

/// NR-40 to NR-44, in this order: against NC-2, NC-14, NC-19 and NC-20. Everything else is free (NR-45).
fn update(request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    let node: Node<'_> = request.body(NODE)?;
    let stored: Node<'_> = request.stored(NODE)?;
    if node.spec.config_source.is_some() && node.spec.config_source != stored.spec.config_source {
        return Err(request.forbidden("a node may not set or change its spec.configSource"));
    }
    request.require(node.spec.taints == stored.spec.taints, "a node may not change its spec.taints")?;
    request.require(
        node.metadata.owner_references == stored.metadata.owner_references,
        "a node may not change its metadata.ownerReferences",
    )?;
    refuse_labels(request, &stored.metadata.labels, &node.metadata.labels)
}

/// Refuses added, removed or changed labels that the node may not change (NR-38, NR-43).
fn refuse_labels(
    request: &AdmissionRequest<'_>,
    before: &Map<'_, Text<'_>>,
    after: &Map<'_, Text<'_>>,
) -> Result<(), Rejection> {
    let mut refused: Vec<&str> =
        before.keys().chain(after.keys()).filter(|key| before.get(key) != after.get(key)).collect();
    refused.retain(|key| !may_change(key));
    if refused.is_empty() {
        return Ok(());
    }
    refused.sort_unstable();
    refused.dedup();
    Err(request.forbidden(format_args!("a node may not change these labels: {}", refused.join(", "))))
}
