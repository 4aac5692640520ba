//! The table of all kinds, one file per kind or family of kinds. Adding a kind is adding a row.

mod cells;
pub mod core;
mod fields;

use crate::resource::Resource;

pub mod pods;

/// All kinds, by group and then by plural name.
pub static ALL: &[&Resource] = &[
    &core::config_maps::CONFIG_MAPS,
    &core::endpoints::ENDPOINTS,
    &core::events::CORE_EVENTS,
    &core::namespaces::NAMESPACES,
    &core::nodes::NODES,
    &core::persistent_volume_claims::PERSISTENT_VOLUME_CLAIMS,
    &core::persistent_volumes::PERSISTENT_VOLUMES,
    &core::secrets::SECRETS,
    &core::service_accounts::SERVICE_ACCOUNTS,
    &core::services::SERVICES,
    &core::events::EVENTS,
];
pub static ALL: &[&Resource] = &[&pods::PODS];

/// The kind that a path names.
pub fn find(group: &str, plural: &str) -> Option<&'static Resource> {
    ALL.iter().copied().find(|resource| resource.group == group && resource.plural == plural)
}
