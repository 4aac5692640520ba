//! Finds the schema of a kind by `apiVersion` and `kind`.

use super::core::{claim, node, persistent_volume, pod, quota, replication, service, small};
use super::resource::{claim as device_claim, slice};
use super::{
    Type, admission_registration, api_registration, apiextensions, apps, authentication, authorization,
    authorization_v1beta1, autoscaling, batch, certificates, certificates_v1beta1, coordination, discovery,
    events, flow_control, machine, meta, networking, node as node_group, policy, rbac, rbac_old, scheduling,
    storage,
};

/// The groups with the first part of their package names. The package names of other groups contain the full group
/// name.
const GROUPS: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "admissionregistration"),
    ("apiregistration.k8s.io", "apiregistration"),
    ("authentication.k8s.io", "authentication"),
    ("authorization.k8s.io", "authorization"),
    ("certificates.k8s.io", "certificates"),
    ("coordination.k8s.io", "coordination"),
    ("discovery.k8s.io", "discovery"),
    ("events.k8s.io", "events"),
    ("flowcontrol.apiserver.k8s.io", "flowcontrol"),
    ("meta.k8s.io", "meta"),
    ("networking.k8s.io", "networking"),
    ("node.k8s.io", "node"),
    ("rbac.authorization.k8s.io", "rbac"),
    ("resource.k8s.io", "resource"),
    ("scheduling.k8s.io", "scheduling"),
    ("storage.k8s.io", "storage"),
];

/// All kinds that have their own documents.
static KINDS: &[&Type] = &[
    &small::BINDING,
    &small::CONFIG_MAP,
    &service::ENDPOINTS,
    &small::EVENT,
    &quota::LIMIT_RANGE,
    &small::NAMESPACE,
    &node::NODE,
    &persistent_volume::PERSISTENT_VOLUME,
    &claim::PERSISTENT_VOLUME_CLAIM,
    &pod::POD,
    &pod::POD_TEMPLATE,
    &replication::REPLICATION_CONTROLLER,
    &quota::RESOURCE_QUOTA,
    &small::SECRET,
    &service::SERVICE,
    &small::SERVICE_ACCOUNT,
    &admission_registration::MUTATING_ADMISSION_POLICY,
    &admission_registration::MUTATING_ADMISSION_POLICY_BINDING,
    &admission_registration::MUTATING_WEBHOOK_CONFIGURATION,
    &admission_registration::VALIDATING_ADMISSION_POLICY,
    &admission_registration::VALIDATING_ADMISSION_POLICY_BINDING,
    &admission_registration::VALIDATING_WEBHOOK_CONFIGURATION,
    &apiextensions::CUSTOM_RESOURCE_DEFINITION,
    &api_registration::API_SERVICE,
    &apps::CONTROLLER_REVISION,
    &apps::DAEMON_SET,
    &apps::DEPLOYMENT,
    &apps::REPLICA_SET,
    &apps::STATEFUL_SET,
    &authentication::SELF_SUBJECT_REVIEW,
    &authentication::TOKEN_REQUEST,
    &authentication::TOKEN_REVIEW,
    &authorization::LOCAL_SUBJECT_ACCESS_REVIEW,
    &authorization::SELF_SUBJECT_ACCESS_REVIEW,
    &authorization::SELF_SUBJECT_RULES_REVIEW,
    &authorization::SUBJECT_ACCESS_REVIEW,
    &authorization_v1beta1::LOCAL_SUBJECT_ACCESS_REVIEW,
    &authorization_v1beta1::SUBJECT_ACCESS_REVIEW,
    &autoscaling::v1::HORIZONTAL_POD_AUTOSCALER,
    &autoscaling::v1::SCALE,
    &autoscaling::v2::HORIZONTAL_POD_AUTOSCALER,
    &batch::CRON_JOB,
    &batch::JOB,
    &certificates::CERTIFICATE_SIGNING_REQUEST,
    &certificates_v1beta1::CLUSTER_TRUST_BUNDLE,
    &certificates_v1beta1::POD_CERTIFICATE_REQUEST,
    &machine::CLUSTER_V1BETA1_MACHINE,
    &machine::CLUSTER_MACHINE,
    &coordination::LEASE,
    &discovery::ENDPOINT_SLICE,
    &events::EVENT,
    &flow_control::FLOW_SCHEMA,
    &flow_control::PRIORITY_LEVEL_CONFIGURATION,
    &machine::OPENSHIFT_MACHINE,
    &networking::INGRESS,
    &networking::INGRESS_CLASS,
    &networking::IP_ADDRESS,
    &networking::NETWORK_POLICY,
    &networking::SERVICE_CIDR,
    &node_group::RUNTIME_CLASS,
    &policy::EVICTION,
    &policy::POD_DISRUPTION_BUDGET,
    &rbac::CLUSTER_ROLE,
    &rbac::CLUSTER_ROLE_BINDING,
    &rbac::ROLE,
    &rbac::ROLE_BINDING,
    &rbac_old::v1alpha1::CLUSTER_ROLE,
    &rbac_old::v1alpha1::CLUSTER_ROLE_BINDING,
    &rbac_old::v1alpha1::ROLE,
    &rbac_old::v1alpha1::ROLE_BINDING,
    &rbac_old::v1beta1::CLUSTER_ROLE,
    &rbac_old::v1beta1::CLUSTER_ROLE_BINDING,
    &rbac_old::v1beta1::ROLE,
    &rbac_old::v1beta1::ROLE_BINDING,
    &device_claim::DEVICE_CLASS,
    &device_claim::RESOURCE_CLAIM,
    &device_claim::RESOURCE_CLAIM_TEMPLATE,
    &slice::RESOURCE_SLICE,
    &scheduling::PRIORITY_CLASS,
    &storage::CSI_DRIVER,
    &storage::CSI_NODE,
    &storage::CSI_STORAGE_CAPACITY,
    &storage::STORAGE_CLASS,
    &storage::VOLUME_ATTACHMENT,
    &storage::VOLUME_ATTRIBUTES_CLASS,
];

/// Kinds that exist in every group and version.
static COMMON: &[&Type] = &[
    &meta::API_GROUP,
    &meta::API_GROUP_LIST,
    &meta::API_RESOURCE_LIST,
    &meta::API_VERSIONS,
    &meta::CREATE_OPTIONS,
    &meta::DELETE_OPTIONS,
    &meta::PARTIAL_OBJECT_METADATA,
    &meta::PATCH_OPTIONS,
    &meta::STATUS,
    &meta::UPDATE_OPTIONS,
];

/// Packages whose kinds have the schemas of another package, except for those that are in [`KINDS`] themselves.
const SAME: &[(&str, &str)] =
    &[("authorization/v1beta1", "authorization/v1"), ("policy/v1beta1", "policy/v1")];

/// All kinds that have their own documents, except for those that exist in all groups.
pub fn kinds() -> impl Iterator<Item = &'static Type> {
    KINDS.iter().copied()
}

/// The kinds that exist in all groups.
pub fn common() -> impl Iterator<Item = &'static Type> {
    COMMON.iter().copied()
}

/// The group and version in the documents of a kind; `None` for a type without its own documents.
pub fn group_version(ty: &Type) -> Option<(&'static str, &'static str)> {
    if COMMON.iter().any(|common| std::ptr::eq(*common, ty)) {
        return Some(("", "v1"));
    }
    let kind = KINDS.iter().find(|kind| std::ptr::eq(**kind, ty))?;
    let (short, version) = kind.package.split_once('/')?;
    let group = match short {
        "core" => "",
        short => GROUPS.iter().find(|(_, of)| *of == short).map_or(short, |(group, _)| group),
    };
    Some((group, version))
}

/// Finds the schema of a kind. `package` is a package (`rbac/v1`) or an `apiVersion` (`rbac.authorization.k8s.io/v1`,
/// `v1`).
pub fn find(package: &str, kind: &str) -> Option<&'static Type> {
    let (group, version) = match package.split_once('/') {
        None => ("core", package),
        Some((group, version)) => {
            let short = GROUPS.iter().find(|(long, _)| *long == group);
            (short.map_or(group, |(_, short)| *short), version)
        }
    };
    let same = SAME.iter().find(|(package, _)| package.split_once('/') == Some((group, version)));
    named(KINDS, group, version, kind)
        .or_else(|| same.and_then(|(_, of)| of.split_once('/')).and_then(|(g, v)| named(KINDS, g, v, kind)))
        .or_else(|| COMMON.iter().copied().find(|ty| ty.name == kind))
}

fn named(kinds: &[&'static Type], group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    kinds.iter().copied().find(|ty| ty.name == kind && ty.package.split_once('/') == Some((group, version)))
}
