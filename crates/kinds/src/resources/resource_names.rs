//! Names of the resources that containers use and quotas count, such as `cpu`.

use portcullis_apimachinery::names::label_key_errors;

/// The resources without a domain that are counted in whole numbers.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// The other known resources without a domain, in containers or in quotas.
const MEASURED: [&str; 11] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "storage",
];

/// Returns whether this is a known resource without a domain.
pub(super) fn is_standard(resource: &str) -> bool {
    COUNTED.contains(&resource)
        || MEASURED.contains(&resource)
        || is_huge_pages(resource)
        || resource.starts_with("requests.hugepages-")
}

/// Returns whether quotas count this resource without a domain.
pub(super) fn is_standard_in_quotas(resource: &str) -> bool {
    is_standard(resource) && resource != "storage"
}

/// Returns whether this is huge pages of some size, such as `hugepages-2Mi`.
pub(crate) fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("hugepages-")
}

/// Returns whether containers can ask for a resource without a domain.
pub(super) fn is_of_containers(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(resource)
}

/// Returns whether the name belongs to Kubernetes itself.
pub(super) fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// Returns whether this is the name of an extended resource, of a device plugin or a device class.
pub(crate) fn is_extended(resource: &str) -> bool {
    !is_native(resource)
        && !resource.starts_with("requests.")
        && label_key_errors(&format!("requests.{resource}")).is_empty()
}

/// Returns whether the resource is counted in whole numbers.
pub(super) fn is_counted(resource: &str) -> bool {
    COUNTED.contains(&resource) || is_extended(resource)
}
