//! Roles and bindings of `rbac.authorization.k8s.io`: defaults and validation. The escalation check is elsewhere (RB-50
//! and following).

mod bindings;
pub mod legacy;
pub mod old;
mod roles;

pub use bindings::{CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS};
pub use roles::{CLUSTER_ROLES, ROLES};

use portcullis_apimachinery::names::NameRule;

use crate::resource::{MetadataChecks, Resource};

/// The group of all four kinds.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The values shared by the four kinds (RB-6, RB-70).
const USUAL: Resource = Resource {
    group: GROUP,
    names: NameRule::PathSegment,
    metadata_checks: MetadataChecks { alone: 2, as_update: 1, ..MetadataChecks::USUAL },
    creates_on_update: true,
    grants_permissions: true,
    ..Resource::USUAL
};
