//! The table of all kinds, with one file per kind or family of kinds. To add a kind, add a row.

mod cells;
pub mod certificates;
pub mod core;
pub mod dra;
pub mod endpoint_slices;

mod formats;
pub mod leases;
pub mod machines;
pub mod pods;
mod quantities;
pub mod rbac;
mod resource_names;
pub mod runtime_classes;
mod scheduling;
pub mod storage;
mod volume_sources;

use crate::resource::Resource;

/// The kinds of this crate that are stored, in their stored versions: by group and then by plural name. See
/// [`Kinds::built_in`](crate::Kinds::built_in).
pub static ALL: &[&Resource] = &[
    &core::config_maps::CONFIG_MAPS,
    &core::endpoints::ENDPOINTS,
    &core::events::CORE_EVENTS,
    &core::namespaces::NAMESPACES,
    &core::nodes::NODES,
    &core::persistent_volume_claims::PERSISTENT_VOLUME_CLAIMS,
    &core::persistent_volumes::PERSISTENT_VOLUMES,
    &pods::PODS,
    &core::secrets::SECRETS,
    &core::service_accounts::SERVICE_ACCOUNTS,
    &core::services::SERVICES,
    &certificates::CERTIFICATE_SIGNING_REQUESTS,
    &machines::CLUSTER_API_MACHINES,
    &leases::LEASES,
    &endpoint_slices::ENDPOINT_SLICES,
    &core::events::EVENTS,
    &machines::OPENSHIFT_MACHINES,
    &runtime_classes::RUNTIME_CLASSES,
    &rbac::CLUSTER_ROLE_BINDINGS,
    &rbac::CLUSTER_ROLES,
    &rbac::ROLE_BINDINGS,
    &rbac::ROLES,
    &dra::DEVICE_CLASSES,
    &dra::RESOURCE_CLAIMS,
    &dra::RESOURCE_CLAIM_TEMPLATES,
    &dra::RESOURCE_SLICES,
    &storage::CSI_DRIVERS,
    &storage::CSI_NODES,
    &storage::STORAGE_CLASSES,
    &storage::VOLUME_ATTACHMENTS,
];
