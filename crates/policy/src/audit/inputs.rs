//! What the audit asks a cluster for: the resources that it reads (AU-12), each in the least form. The role that it needs follows
//! from this table (AU-19).

use super::state::ItemKind;

/// How much of an object is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The object.
    Whole,
    /// Its metadata alone (AU-17). Not asked for without need, because RBAC cannot grant the metadata alone (AU-18).
    Metadata,
}

/// A resource that the audit reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The versions, the newest first.
    pub versions: &'static [&'static str],
    /// The plural name: in `incomplete` the name of the input (AU-21).
    pub resource: &'static str,
    /// The kind of its objects.
    pub kind: &'static str,
    /// How much of an object is asked for.
    pub form: Form,
    /// Whether supported clusters may lack the API. Then there are no such objects.
    pub is_optional: bool,
}

const fn whole(group: &'static str, resource: &'static str, kind: &'static str) -> Input {
    Input { group, versions: &["v1"], resource, kind, form: Form::Whole, is_optional: false }
}

const fn metadata(resource: &'static str, kind: &'static str) -> Input {
    Input { form: Form::Metadata, ..whole("", resource, kind) }
}

const fn optional(
    group: &'static str,
    versions: &'static [&'static str],
    resource: &'static str,
    kind: &'static str,
) -> Input {
    Input { versions, is_optional: true, ..whole(group, resource, kind) }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const DEVICES: &str = "resource.k8s.io";
const ALL_VERSIONS: &[&str] = &["v1", "v1beta1", "v1alpha1"];
const OF_DEVICES: &[&str] = &["v1", "v1beta2", "v1beta1"];

/// All of them, by group and resource.
pub const INPUTS: [Input; 30] = [
    metadata("configmaps", "ConfigMap"),
    whole("", "namespaces", "Namespace"),
    whole("", "nodes", "Node"),
    whole("", "persistentvolumeclaims", "PersistentVolumeClaim"),
    whole("", "persistentvolumes", "PersistentVolume"),
    whole("", "pods", "Pod"),
    whole("", "replicationcontrollers", "ReplicationController"),
    metadata("secrets", "Secret"),
    whole("", "serviceaccounts", "ServiceAccount"),
    optional(ADMISSION, ALL_VERSIONS, "mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
    optional(ADMISSION, ALL_VERSIONS, "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    whole(ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
    optional(ADMISSION, ALL_VERSIONS, "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
    optional(
        ADMISSION,
        ALL_VERSIONS,
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
    ),
    whole(ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    whole("apps", "daemonsets", "DaemonSet"),
    whole("apps", "deployments", "Deployment"),
    whole("apps", "replicasets", "ReplicaSet"),
    whole("apps", "statefulsets", "StatefulSet"),
    whole("batch", "cronjobs", "CronJob"),
    whole("batch", "jobs", "Job"),
    whole("certificates.k8s.io", "certificatesigningrequests", "CertificateSigningRequest"),
    whole(RBAC, "clusterrolebindings", "ClusterRoleBinding"),
    whole(RBAC, "clusterroles", "ClusterRole"),
    whole(RBAC, "rolebindings", "RoleBinding"),
    whole(RBAC, "roles", "Role"),
    optional(DEVICES, OF_DEVICES, "resourceclaims", "ResourceClaim"),
    optional(DEVICES, OF_DEVICES, "resourceslices", "ResourceSlice"),
    whole("storage.k8s.io", "csidrivers", "CSIDriver"),
    whole("storage.k8s.io", "volumeattachments", "VolumeAttachment"),
];

impl Input {
    /// The input of this resource.
    pub fn find(group: &str, resource: &str) -> Option<&'static Self> {
        INPUTS.iter().find(|input| input.group == group && input.resource == resource)
    }

    /// The `apiVersion` of its objects in a version.
    pub fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// The kind as the audit reads it; none for objects that are only counted.
    pub fn item_kind(&self) -> Option<ItemKind> {
        ItemKind::of(&self.api_version("v1"), self.kind)
    }
}
