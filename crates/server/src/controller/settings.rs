//! The numbers that the controllers follow, with the names and defaults of kube-controller-manager and kube-apiserver.

use std::time::Duration;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// After this time without a sign of its kubelet a node counts as unreachable (`--node-monitor-grace-period`).
    pub node_monitor_grace_period: Duration,
    /// How often a node that is not ready is looked at again (`--node-monitor-period`).
    pub node_monitor_period: Duration,
    /// Like the grace period, for a node whose kubelet was never heard of (`--node-startup-grace-period`).
    pub node_startup_grace_period: Duration,
    /// How long a node must be missing before its pods are deleted. Kubernetes has no flag for it.
    pub missing_node_grace_period: Duration,
    /// How many pods that have ended are kept; 0 for all (`--terminated-pod-gc-threshold`).
    pub terminated_pod_gc_threshold: usize,
    /// How often everything that quotas count is counted again (`--resource-quota-sync-period`).
    pub resource_quota_sync_period: Duration,
    /// How long events are kept after their last write; zero for ever (`--event-ttl`).
    pub event_ttl: Duration,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self {
            node_monitor_grace_period: Duration::from_secs(50),
            node_monitor_period: Duration::from_secs(5),
            node_startup_grace_period: Duration::from_secs(60),
            missing_node_grace_period: Duration::from_secs(40),
            terminated_pod_gc_threshold: 12_500,
            resource_quota_sync_period: Duration::from_secs(5 * 60),
            event_ttl: Duration::from_secs(60 * 60),
        }
    }
}
