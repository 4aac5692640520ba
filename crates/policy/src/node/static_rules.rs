//! What every node may do, whatever is bound to it (NA-104): also the rules of ClusterRole `system:node` (RB-95).

use crate::features::{Feature, FeatureGates};
use crate::objects::rbac::PolicyRule;
use crate::request::ResourceRequest;

/// One row of the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    gate: Option<Feature>,
}

const fn row(
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Row {
    Row { groups, resources, verbs, gate: None }
}

const fn gated(
    gate: Feature,
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Row {
    Row { groups, resources, verbs, gate: Some(gate) }
}

const CORE: &[&str] = &[""];
const CERTIFICATES: &[&str] = &["certificates.k8s.io"];
const RESOURCE: &[&str] = &["resource.k8s.io"];
const STORAGE: &[&str] = &["storage.k8s.io"];
const READ: &[&str] = &["get", "list", "watch"];

/// The rows of NA-104, in its order.
const ROWS: [Row; 27] = [
    row(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
    row(&["authorization.k8s.io"], &["subjectaccessreviews", "localsubjectaccessreviews"], &["create"]),
    row(CORE, &["services"], READ),
    row(CORE, &["nodes"], &["create", "get", "list", "watch"]),
    row(CORE, &["nodes/status"], &["update", "patch"]),
    row(CORE, &["nodes"], &["update", "patch"]),
    row(&["", "events.k8s.io"], &["events"], &["create", "update", "patch"]),
    row(CORE, &["pods"], READ),
    row(CORE, &["pods"], &["create", "delete"]),
    row(CORE, &["pods/status"], &["update", "patch"]),
    row(CORE, &["pods/eviction"], &["create"]),
    row(CORE, &["secrets", "configmaps"], READ),
    row(CORE, &["persistentvolumeclaims", "persistentvolumes"], &["get"]),
    row(CORE, &["endpoints"], &["get"]),
    row(CERTIFICATES, &["certificatesigningrequests"], &["create", "get", "list", "watch"]),
    row(&["coordination.k8s.io"], &["leases"], &["get", "create", "update", "patch", "delete"]),
    row(STORAGE, &["volumeattachments"], &["get"]),
    row(CORE, &["serviceaccounts/token"], &["create"]),
    row(CORE, &["persistentvolumeclaims/status"], &["get", "update", "patch"]),
    row(STORAGE, &["csidrivers"], &["get", "watch", "list"]),
    row(STORAGE, &["csinodes"], &["get", "create", "update", "patch", "delete"]),
    row(&["node.k8s.io"], &["runtimeclasses"], READ),
    gated(Feature::DynamicResourceAllocation, RESOURCE, &["resourceclaims"], &["get"]),
    gated(Feature::DynamicResourceAllocation, RESOURCE, &["resourceslices"], &["deletecollection"]),
    gated(Feature::ClusterTrustBundle, CERTIFICATES, &["clustertrustbundles"], READ),
    gated(Feature::KubeletServiceAccountTokenForCredentialProviders, CORE, &["serviceaccounts"], &["get"]),
    gated(
        Feature::PodCertificateRequest,
        CERTIFICATES,
        &["podcertificaterequests"],
        &["get", "list", "watch", "create"],
    ),
];

impl Row {
    fn is_in_force(&self, gates: FeatureGates) -> bool {
        self.gate.is_none_or(|gate| gates.is_on(gate))
    }

    /// Whether the row covers a request (NA-104): namespace, name and version play no part, and nothing is a
    /// wildcard.
    pub(super) fn covers(&self, verb: &str, request: &ResourceRequest<'_>) -> bool {
        self.verbs.contains(&verb)
            && self.groups.contains(&request.group)
            && self.resources.iter().any(|resource| {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                resource == request.resource && subresource == request.subresource
            })
    }
}

/// The rows in force that can be reached: of a resource with a branch of its own (NA-73) no row is (NA-104, the
/// shadowed ones).
pub(super) fn live(gates: FeatureGates, has_branch: impl Fn(&str, &str) -> bool) -> Vec<Row> {
    let shadowed = |row: &Row| {
        row.groups.iter().all(|group| {
            row.resources
                .iter()
                .all(|r| has_branch(group, r.split_once('/').map_or(*r, |(resource, _)| resource)))
        })
    };
    ROWS.iter().filter(|row| row.is_in_force(gates) && !shadowed(row)).copied().collect()
}

/// The rows in force as RBAC rules, in the order of NA-104: the rules of ClusterRole `system:node` (RB-95).
pub fn rules(gates: FeatureGates) -> Vec<PolicyRule> {
    let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    ROWS.iter()
        .filter(|row| row.is_in_force(gates))
        .map(|row| PolicyRule {
            verbs: owned(row.verbs),
            api_groups: owned(row.groups),
            resources: owned(row.resources),
            ..PolicyRule::default()
        })
        .collect()
}
