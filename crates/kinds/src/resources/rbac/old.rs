//! Roles and bindings in the API versions before `v1` (RB-120). They are converted to `v1` for storage and decisions;
//! only the documents of clients have these forms.

use serde_json::Value;

use super::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, legacy};
use crate::Map;
use crate::resource::{Conversion, Resource};
use crate::schema::Type;
use crate::schema::rbac_old::{v1alpha1, v1beta1};

/// The four kinds in `v1beta1` of 1.6 to 1.21.
pub static V1BETA1: [Resource; 4] = [
    row(&CLUSTER_ROLE_BINDINGS, "v1beta1", &v1beta1::CLUSTER_ROLE_BINDING),
    row(&CLUSTER_ROLES, "v1beta1", &v1beta1::CLUSTER_ROLE),
    row(&ROLE_BINDINGS, "v1beta1", &v1beta1::ROLE_BINDING),
    row(&ROLES, "v1beta1", &v1beta1::ROLE),
];

/// The four kinds in `v1alpha1` of 1.3 to 1.21.
pub static V1ALPHA1: [Resource; 4] = [
    row(&CLUSTER_ROLE_BINDINGS, "v1alpha1", &v1alpha1::CLUSTER_ROLE_BINDING),
    row(&CLUSTER_ROLES, "v1alpha1", &v1alpha1::CLUSTER_ROLE),
    row(&ROLE_BINDINGS, "v1alpha1", &v1alpha1::ROLE_BINDING),
    row(&ROLES, "v1alpha1", &v1alpha1::ROLE),
];

const fn row(current: &'static Resource, version: &'static str, schema: &'static Type) -> Resource {
    let version_of = Some(Conversion { row: current, to: upgrade, from: downgrade });
    Resource { version, schema, version_of, ..*current }
}

/// Turns a document of `v1alpha1` or `v1beta1` into the `v1` document that it means (RB-120 to RB-124). Other documents
/// stay as they are.
fn upgrade(document: Map) -> Map {
    let mut value = Value::Object(document);
    legacy::upgrade(&mut value);
    members(value)
}

/// Converts a `v1` object to a document of this old kind (RB-122, RB-123).
fn downgrade(object: Map, kind: &Resource) -> Map {
    let mut value = Value::Object(object);
    if kind.version == "v1alpha1" {
        legacy::downgrade_to_v1alpha1(&mut value);
    } else if let Some(members) = value.as_object_mut() {
        members.insert("apiVersion".to_owned(), kind.api_version().into());
    }
    members(value)
}

/// The members of an object: conversions only change members.
fn members(value: Value) -> Map {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
