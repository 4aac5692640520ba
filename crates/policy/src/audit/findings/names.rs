//! How objects are called in findings (AU-30), and where they are.

use super::finding::Instance;
use crate::objects::rbac::{Binding, Role};

/// `KIND/NAMESPACE/NAME` or `KIND/NAME`, the kind in lower case.
pub(super) fn object(kind: &str, namespace: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}

pub(super) fn of_binding(binding: &Binding) -> String {
    let (namespace, name) = (&binding.metadata.namespace, &binding.metadata.name);
    object(if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" }, namespace, name)
}

pub(super) fn of_role(role: &Role) -> String {
    let (namespace, name) = (&role.metadata.namespace, &role.metadata.name);
    object(if namespace.is_empty() { "ClusterRole" } else { "Role" }, namespace, name)
}

/// The namespace and name of a binding.
pub(super) fn key(binding: &Binding) -> (String, String) {
    (binding.metadata.namespace.clone(), binding.metadata.name.clone())
}

/// A namespace, or the cluster.
pub(super) fn scope(namespace: &str) -> Instance {
    if namespace.is_empty() { Instance::Cluster } else { Instance::Namespace(namespace.to_owned()) }
}
