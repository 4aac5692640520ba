//! Predicates of the spec of a service, which all rules about services share.

use crate::Map;
use crate::fields::Members;

pub(super) const CLUSTER_IP: &str = "ClusterIP";
pub(super) const NODE_PORT: &str = "NodePort";
pub(super) const LOAD_BALANCER: &str = "LoadBalancer";
pub(super) const EXTERNAL_NAME: &str = "ExternalName";
/// The `clusterIP` of a headless service.
pub(super) const HEADLESS: &str = "None";
/// Returns whether the service is reachable from outside the cluster.
pub(super) fn is_external(spec: &Map) -> bool {
    match spec.text("type") {
        LOAD_BALANCER | NODE_PORT => true,
        CLUSTER_IP => !spec.list("externalIPs").is_empty(),
        _ => false,
    }
}

/// Returns whether the service needs a health check node port.
pub(super) fn needs_health_port(spec: &Map) -> bool {
    spec.text("type") == LOAD_BALANCER && spec.text("externalTrafficPolicy") == "Local"
}

/// Returns whether the service needs node ports.
pub(super) fn needs_node_ports(spec: &Map) -> bool {
    matches!(spec.text("type"), NODE_PORT | LOAD_BALANCER)
}

/// Returns whether the service is headless.
pub(super) fn is_headless(spec: &Map) -> bool {
    spec.texts("clusterIPs").eq([HEADLESS])
}
