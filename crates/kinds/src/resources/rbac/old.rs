//! Roles and bindings as the API versions before `v1` had them (RB-120). Stored and decided over is what they mean in
//! `v1`; only the documents of clients have these forms.

use portcullis_policy::rbac::legacy;
use serde_json::Value;

use super::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use crate::Map;
use crate::resource::Resource;
use crate::schema::Type;
use crate::schema::rbac_old::{v1alpha1, v1beta1};

/// The four kinds as `v1beta1` of 1.6 to 1.21 had them.
pub static V1BETA1: [Resource; 4] = [
    row(&CLUSTER_ROLE_BINDINGS, "v1beta1", &v1beta1::CLUSTER_ROLE_BINDING),
    row(&CLUSTER_ROLES, "v1beta1", &v1beta1::CLUSTER_ROLE),
    row(&ROLE_BINDINGS, "v1beta1", &v1beta1::ROLE_BINDING),
    row(&ROLES, "v1beta1", &v1beta1::ROLE),
];

/// The four kinds as `v1alpha1` of 1.3 to 1.21 had them.
pub static V1ALPHA1: [Resource; 4] = [
    row(&CLUSTER_ROLE_BINDINGS, "v1alpha1", &v1alpha1::CLUSTER_ROLE_BINDING),
    row(&CLUSTER_ROLES, "v1alpha1", &v1alpha1::CLUSTER_ROLE),
    row(&ROLE_BINDINGS, "v1alpha1", &v1alpha1::ROLE_BINDING),
    row(&ROLES, "v1alpha1", &v1alpha1::ROLE),
];

const fn row(current: &Resource, version: &'static str, schema: &'static Type) -> Resource {
    Resource { version, schema, ..*current }
}

/// Shows a `v1` object as a document of this kind, which is one of these here (RB-122, RB-123).
pub fn downgrade(object: Map, kind: &Resource) -> Map {
    let mut value = Value::Object(object);
    if kind.version == "v1alpha1" {
        legacy::downgrade_to_v1alpha1(&mut value);
    } else if let Some(members) = value.as_object_mut() {
        members.insert("apiVersion".to_owned(), kind.api_version().into());
    }
    match value {
        Value::Object(document) => document,
        // Only members are changed.
        _ => Map::new(),
    }
}
