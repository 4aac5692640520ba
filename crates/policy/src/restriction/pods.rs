//! Pods (NR-11 to NR-34): a node may create mirror pods of its own static pods, and update the status of, delete and
//! evict pods bound to it.

use super::body::GroupKind;
use super::pod_references::api_reference;
use super::semantic::Map;
use super::{AdmissionRequest, NodeRestriction, Operation, Rejection};
use crate::objects::decode::Text;
use crate::objects::meta::{MetadataOnly, OwnerReference};
use crate::objects::pod::{Pod, PodStatus};

const POD: GroupKind = GroupKind("", "Pod");
const EVICTION: GroupKind = GroupKind("policy", "Eviction");

impl NodeRestriction<'_> {
    /// NR-11, NR-12, NR-27, NR-32.
    pub(super) fn admit_pod(&self, me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        match (request.subresource, request.operation) {
            ("", Operation::Create) => self.create_pod(me, request),
            ("", Operation::Delete) => self.require_own_pod(me, request, request.name),
            ("status", Operation::Update) => update_status(me, request),
            ("eviction", Operation::Create) => self.evict(me, request),
            ("", _) => Err(request.forbidden("a node may not change a pod, only its status")),
            ("status", _) => Err(request.forbidden("a node may only update the status of a pod")),
            ("eviction", _) => Err(request.forbidden("a node may only create evictions")),
            (subresource, _) => Err(request.forbidden(format_args!(
                "of a pod's subresources a node may write status and eviction, not {subresource:?}"
            ))),
        }
    }

    /// NR-14 to NR-23, in this order (NC-1).
    fn create_pod(&self, me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        let pod: Pod<'_> = request.body(POD)?;
        request.require(pod.is_mirror(), "a node may create only mirror pods")?;
        request.require(pod.spec.node_name == me, format_args!("spec.nodeName must be {me:?}"))?;
        let owner = require_owner(me, request, &pod)?;
        let uid = self.lookup.node(me).ok_or_else(|| Rejection::not_found("node", me))?;
        request.require(uid == *owner.uid, "the uid of the owner reference is not that of the Node")?;
        match api_reference(&pod) {
            Some(reference) => {
                Err(request.forbidden(format_args!("a mirror pod may not refer to objects: {reference}")))
            }
            None => Ok(()),
        }
    }

    /// NR-33, NR-34.
    fn evict(&self, me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
        let eviction: MetadataOnly<'_> = request.body(EVICTION)?;
        let name = if request.name.is_empty() { &*eviction.metadata.name } else { request.name };
        request
            .require(!name.is_empty(), "neither the path nor metadata.name of the eviction names a pod")?;
        self.require_own_pod(me, request, name)
    }

    /// Requires that the pod is known and bound to the node, mirror pod or not (NR-13, NR-34).
    fn require_own_pod(&self, me: &str, request: &AdmissionRequest<'_>, name: &str) -> Result<(), Rejection> {
        let pod =
            self.lookup.pod(request.namespace, name).ok_or_else(|| Rejection::not_found("pod", name))?;
        request.require_bound(&pod.node_name, me)
    }
}

/// The one owner of a mirror pod is the node itself (NR-17 to NR-20, NC-22). References are counted, not compared (NR-24).
fn require_owner<'p, 'a>(
    me: &str,
    request: &AdmissionRequest<'_>,
    pod: &'p Pod<'a>,
) -> Result<&'p OwnerReference<'a>, Rejection> {
    let owner = match &*pod.metadata.owner_references {
        [owner] => owner,
        [] => return Err(request.forbidden("a mirror pod must have its Node as owner; it has no owner")),
        _ => return Err(request.forbidden("a mirror pod must have its Node as only owner; it has several")),
    };
    if owner.api_version != "v1" || owner.kind != "Node" || owner.name != me {
        return Err(request.forbidden(format_args!("the owner of a mirror pod must be v1 Node {me:?}")));
    }
    request
        .require(owner.controller == Some(true), "the owner reference of a mirror pod must set controller")?;
    request.require(
        owner.block_owner_deletion != Some(true),
        "the owner reference of a mirror pod must not set blockOwnerDeletion",
    )?;
    Ok(owner)
}

/// NR-27 to NR-31.
fn update_status(me: &str, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    let pod: StatusView<'_> = request.body(POD)?;
    let stored: StatusView<'_> = request.stored(POD)?;
    request.require_bound(&stored.spec.node_name, me)?;
    request.require(pod.metadata.labels == stored.metadata.labels, "a node may not change a pod's labels")?;
    request.require(
        pod.status.resource_claim_statuses == stored.status.resource_claim_statuses,
        "a node may not change status.resourceClaimStatuses",
    )?;
    request.require(
        pod.status.extended_resource_claim_status == stored.status.extended_resource_claim_status,
        "a node may not change status.extendedResourceClaimStatus",
    )
}

/// The fields of a pod that a status update checks.
#[derive(Default, serde::Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct StatusView<'a> {
    #[serde(deserialize_with = "crate::objects::decode::or_default")]
    metadata: Labels<'a>,
    #[serde(deserialize_with = "crate::objects::decode::or_default")]
    spec: Binding<'a>,
    #[serde(deserialize_with = "crate::objects::decode::or_default")]
    status: PodStatus<'a>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Labels<'a> {
    labels: Map<'a, Text<'a>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Binding<'a> {
    node_name: Text<'a>,
}
