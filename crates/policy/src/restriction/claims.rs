//! PersistentVolumeClaims (NR-49 to NR-53): a node reports in the status how a resize went, and nothing else.

use serde::Deserialize;

use super::body::GroupKind;
use super::semantic::{Instant, Map};
use super::{AdmissionRequest, Operation, Rejection};
use crate::features::{Feature, FeatureGates};
use crate::objects::decode::{List, Text, or_default};
use crate::objects::meta::OwnerReference;
use crate::quantity::Quantity;

const CLAIM: GroupKind = GroupKind::new("", "PersistentVolumeClaim");

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
    if claim != stored {
        return Err(request.forbidden(
            "of a claim a node may change only status.capacity, status.conditions, status.allocatedResources and \
             status.allocatedResourceStatuses",
        ));
    }
    Ok(())
}

/// Everything of a claim that a node must leave as it is (NR-50). What it may always change is not here:
/// `metadata.resourceVersion`, `metadata.managedFields`, `status.capacity` and `status.conditions`. `==` is
/// semantic (NR-51).
#[derive(Default, Deserialize, PartialEq)]
#[serde(default)]
struct Claim<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: Status<'a>,
}

impl Claim<'_> {
    /// What decoding fills in, on both sides, before they are compared.
    fn fill_in_defaults(&mut self) {
        if self.status.phase.is_empty() {
            self.status.phase = "Pending".into();
        }
        self.spec.volume_mode.get_or_insert_with(|| "Filesystem".into());
    }
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    generate_name: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    self_link: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    generation: i64,
    creation_timestamp: Instant,
    deletion_timestamp: Option<Instant>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    labels: Map<'a, Text<'a>>,
    #[serde(borrow)]
    annotations: Map<'a, Text<'a>>,
    #[serde(borrow)]
    owner_references: List<OwnerReference<'a>>,
    #[serde(borrow)]
    finalizers: List<Text<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    access_modes: List<Text<'a>>,
    #[serde(borrow)]
    selector: Option<LabelSelector<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    resources: Resources<'a>,
    #[serde(borrow)]
    volume_name: Text<'a>,
    #[serde(borrow)]
    storage_class_name: Option<Text<'a>>,
    #[serde(borrow)]
    volume_mode: Option<Text<'a>>,
    #[serde(borrow)]
    data_source: Option<TypedReference<'a>>,
    #[serde(borrow)]
    data_source_ref: Option<TypedReference<'a>>,
    #[serde(borrow)]
    volume_attributes_class_name: Option<Text<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
struct LabelSelector<'a> {
    #[serde(borrow)]
    match_labels: Map<'a, Text<'a>>,
    #[serde(borrow)]
    match_expressions: List<MatchExpression<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default)]
struct MatchExpression<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    operator: Text<'a>,
    #[serde(borrow)]
    values: List<Text<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default)]
struct Resources<'a> {
    #[serde(borrow)]
    limits: Map<'a, Quantity>,
    #[serde(borrow)]
    requests: Map<'a, Quantity>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
struct TypedReference<'a> {
    #[serde(borrow)]
    api_group: Option<Text<'a>>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    /// Only `dataSourceRef` has one.
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    phase: Text<'a>,
    #[serde(borrow)]
    access_modes: List<Text<'a>>,
    #[serde(borrow)]
    allocated_resources: Map<'a, Quantity>,
    #[serde(borrow)]
    allocated_resource_statuses: Map<'a, Text<'a>>,
    #[serde(borrow)]
    current_volume_attributes_class_name: Option<Text<'a>>,
    #[serde(borrow)]
    modify_volume_status: Option<ModifyVolumeStatus<'a>>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
struct ModifyVolumeStatus<'a> {
    #[serde(borrow)]
    target_volume_attributes_class_name: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
}
