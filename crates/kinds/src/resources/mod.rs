//! The table of all kinds, with one file per kind or family of kinds. To add a kind, add a row.

mod addresses;
pub mod admission_registration;
pub mod api_services;
pub mod autoscalers;
mod cells;
pub mod certificates;
pub mod core;
pub mod definitions;
pub mod disruption_budgets;
pub mod dra;
pub mod endpoint_slices;
pub mod flow_control;

mod formats;
pub mod label_selectors;
pub mod leases;
pub mod machines;
pub mod networking;
pub mod pods;
mod ports;
pub mod priority_classes;
pub(crate) mod quantities;
pub mod rbac;
pub(crate) mod resource_names;
pub mod runtime_classes;
mod scheduling;
mod status;
pub mod storage;
mod volume_sources;
pub mod workloads;

use crate::resource::Resource;

/// The kinds of this crate that are stored, in their stored versions: by group and then by plural name. See
/// [`Kinds::built_in`](crate::Kinds::built_in).
pub static ALL: &[&Resource] = &[
    &core::config_maps::CONFIG_MAPS,
    &core::endpoints::ENDPOINTS,
    &core::events::CORE_EVENTS,
    &core::quotas::LIMIT_RANGES,
    &core::namespaces::NAMESPACES,
    &core::nodes::NODES,
    &core::persistent_volume_claims::PERSISTENT_VOLUME_CLAIMS,
    &core::persistent_volumes::PERSISTENT_VOLUMES,
    &pods::PODS,
    &workloads::POD_TEMPLATES,
    &workloads::REPLICATION_CONTROLLERS,
    &core::quotas::RESOURCE_QUOTAS,
    &core::secrets::SECRETS,
    &core::service_accounts::SERVICE_ACCOUNTS,
    &core::services::SERVICES,
    &admission_registration::MUTATING_ADMISSION_POLICIES,
    &admission_registration::MUTATING_ADMISSION_POLICY_BINDINGS,
    &admission_registration::MUTATING_WEBHOOK_CONFIGURATIONS,
    &admission_registration::VALIDATING_ADMISSION_POLICIES,
    &admission_registration::VALIDATING_ADMISSION_POLICY_BINDINGS,
    &admission_registration::VALIDATING_WEBHOOK_CONFIGURATIONS,
    &definitions::DEFINITIONS,
    &api_services::API_SERVICES,
    &workloads::CONTROLLER_REVISIONS,
    &workloads::DAEMON_SETS,
    &workloads::DEPLOYMENTS,
    &workloads::REPLICA_SETS,
    &workloads::STATEFUL_SETS,
    &autoscalers::HORIZONTAL_POD_AUTOSCALERS,
    &workloads::CRON_JOBS,
    &workloads::JOBS,
    &certificates::CERTIFICATE_SIGNING_REQUESTS,
    &certificates::CLUSTER_TRUST_BUNDLES,
    &certificates::POD_CERTIFICATE_REQUESTS,
    &machines::CLUSTER_API_MACHINES,
    &leases::LEASES,
    &endpoint_slices::ENDPOINT_SLICES,
    &core::events::EVENTS,
    &flow_control::FLOW_SCHEMAS,
    &flow_control::PRIORITY_LEVEL_CONFIGURATIONS,
    &machines::OPENSHIFT_MACHINES,
    &networking::INGRESS_CLASSES,
    &networking::INGRESSES,
    &networking::IP_ADDRESSES,
    &networking::NETWORK_POLICIES,
    &networking::SERVICE_CIDRS,
    &runtime_classes::RUNTIME_CLASSES,
    &disruption_budgets::POD_DISRUPTION_BUDGETS,
    &rbac::CLUSTER_ROLE_BINDINGS,
    &rbac::CLUSTER_ROLES,
    &rbac::ROLE_BINDINGS,
    &rbac::ROLES,
    &dra::DEVICE_CLASSES,
    &dra::RESOURCE_CLAIMS,
    &dra::RESOURCE_CLAIM_TEMPLATES,
    &dra::RESOURCE_SLICES,
    &priority_classes::PRIORITY_CLASSES,
    &storage::CSI_DRIVERS,
    &storage::CSI_NODES,
    &storage::CSI_STORAGE_CAPACITIES,
    &storage::STORAGE_CLASSES,
    &storage::VOLUME_ATTACHMENTS,
    &storage::VOLUME_ATTRIBUTES_CLASSES,
];
