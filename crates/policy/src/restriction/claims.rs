//! PersistentVolumeClaims (NR-49 to NR-53): a node may only report the progress of a resize in the status.

use portcullis_apimachinery::quantity::Quantity;
use serde::Deserialize;

use super::body::GroupKind;
use super::rejection::Rejection;
use super::request::{AdmissionRequest, Operation};
use super::semantic::{Instant, Map};
use crate::features::{Feature, FeatureGates};
use crate::objects::decode::{List, Text, or_default};
use crate::objects::meta::OwnerReference;

const CLAIM: GroupKind = GroupKind("", "PersistentVolumeClaim");

/// NR-49, NR-50, NR-52.
pub(super) fn admit(gates: FeatureGates, request: &AdmissionRequest<'_>) -> Result<(), Rejection> {
    if request.subresource != "status" || request.operation != Operation::Update {
        return Err(request.forbidden("a node may only update the status of claims"));
    }
    let mut claim: Claim<'_> = request.body(CLAIM)?;
    let mut stored: Claim<'_> = request.stored(CLAIM)?;
    for claim in [&mut claim, &mut stored] {
        claim.fill_in_defaults();
        if gates.is_on(Feature::RecoverVolumeExpansionFailure) {
            claim.status.allocated_resources = Map::default();
            claim.status.allocated_resource_statuses = Map::default();
        }
    }
    request.require(
        claim == stored,
        "of a claim a node may change only status.capacity, status.conditions, status.allocatedResources and \
             status.allocatedResourceStatuses",
    )
}

/// The fields of a claim that a node must not change (NR-50). The fields that it may always change are left out:
/// `metadata.resourceVersion`, `metadata.managedFields`, `status.capacity` and `status.conditions`. `==` is semantic
/// (NR-51).
#[derive(Default, Deserialize, PartialEq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Claim<'a> {
    #[serde(deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(deserialize_with = "or_default")]
    status: Status<'a>,
}

impl Claim<'_> {
    /// Applies the defaults of decoding, on both sides, before they are compared.
    fn fill_in_defaults(&mut self) {
        if self.status.phase.is_empty() {
            self.status.phase = "Pending".into();
        }
        self.spec.volume_mode.get_or_insert_with(|| "Filesystem".into());
    }
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Metadata<'a> {
    name: Text<'a>,
    generate_name: Text<'a>,
    namespace: Text<'a>,
    self_link: Text<'a>,
    uid: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    generation: i64,
    creation_timestamp: Instant,
    deletion_timestamp: Option<Instant>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Map<'a, Text<'a>>,
    annotations: Map<'a, Text<'a>>,
    owner_references: List<OwnerReference<'a>>,
    finalizers: List<Text<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Spec<'a> {
    access_modes: List<Text<'a>>,
    selector: Option<LabelSelector<'a>>,
    #[serde(deserialize_with = "or_default")]
    resources: Resources<'a>,
    volume_name: Text<'a>,
    storage_class_name: Option<Text<'a>>,
    volume_mode: Option<Text<'a>>,
    data_source: Option<TypedReference<'a>>,
    data_source_ref: Option<TypedReference<'a>>,
    volume_attributes_class_name: Option<Text<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct LabelSelector<'a> {
    match_labels: Map<'a, Text<'a>>,
    match_expressions: List<MatchExpression<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct MatchExpression<'a> {
    key: Text<'a>,
    operator: Text<'a>,
    values: List<Text<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Resources<'a> {
    limits: Map<'a, Quantity>,
    requests: Map<'a, Quantity>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct TypedReference<'a> {
    api_group: Option<Text<'a>>,
    kind: Text<'a>,
    name: Text<'a>,
    /// Only `dataSourceRef` has one.
    namespace: Option<Text<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Status<'a> {
    phase: Text<'a>,
    access_modes: List<Text<'a>>,
    allocated_resources: Map<'a, Quantity>,
    allocated_resource_statuses: Map<'a, Text<'a>>,
    current_volume_attributes_class_name: Option<Text<'a>>,
    modify_volume_status: Option<ModifyVolumeStatus<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ModifyVolumeStatus<'a> {
    target_volume_attributes_class_name: Text<'a>,
    status: Text<'a>,
}
