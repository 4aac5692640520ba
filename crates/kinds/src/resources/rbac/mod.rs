//! Roles and bindings of `rbac.authorization.k8s.io`: their form. Who may write which rules is decided elsewhere
//! (RB-50 and following).

mod bindings;
pub mod old;
mod roles;

pub use bindings::{CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS};
pub use roles::{CLUSTER_ROLES, ROLES};

use portcullis_policy::rbac::legacy;
use serde_json::Value;

use crate::Map;
use crate::resource::{NameRule, Resource};

/// The group of all four kinds.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// What the four kinds have in common (RB-6, RB-70).
const USUAL: Resource =
    Resource { group: GROUP, names: NameRule::PathSegment, creates_on_update: true, ..Resource::USUAL };

/// Turns a document of `v1alpha1` or `v1beta1` into the `v1` document that it means (RB-120 to RB-124). Other documents
/// stay as they are. Returns whether something was done.
pub fn upgrade(document: &mut Map) -> bool {
    let mut value = Value::Object(std::mem::take(document));
    let upgraded = legacy::upgrade(&mut value);
    if let Value::Object(fields) = value {
        *document = fields;
    }
    upgraded
}
