//! The plugins, in the order in which they are asked.

use super::plugin::Plugin;
use super::{
    certificate_approval, certificate_signing, certificate_subject_restriction, default_storage_class,
    default_toleration_seconds, limit_ranger, namespace_lifecycle, node_restriction,
    persistent_volume_claim_resize, pod_resize, pod_security, pod_topology_labels, policies, priority,
    resource_quota, runtime_class, service_account, webhook,
};

/// All plugins, in order. A plugin that is missing here is never called. The effects of TaintNodesByCondition and
/// StorageObjectInUseProtection on new objects are in `prepare_create` of the kinds.
pub(super) static PLUGINS: &[&Plugin] = &[
    &namespace_lifecycle::PLUGIN,
    &limit_ranger::PLUGIN,
    &service_account::PLUGIN,
    &node_restriction::PLUGIN,
    &pod_security::PLUGIN,
    &priority::PLUGIN,
    &default_toleration_seconds::PLUGIN,
    &default_storage_class::PLUGIN,
    &persistent_volume_claim_resize::PLUGIN,
    &runtime_class::PLUGIN,
    &certificate_approval::PLUGIN,
    &certificate_signing::PLUGIN,
    &certificate_subject_restriction::PLUGIN,
    &pod_topology_labels::PLUGIN,
    &pod_resize::PLUGIN,
    &webhook::MUTATING,
    &policies::PLUGIN,
    &webhook::VALIDATING,
    &resource_quota::PLUGIN,
];
