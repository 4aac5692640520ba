//! Conversion of manifests of the API versions before `v1` (RB-120 to RB-124): `v1alpha1` of 1.3 to 1.21, `v1beta1` of
//! 1.6 to 1.21.

use serde_json::{Map, Value, json};

use super::GROUP;

/// The group of all authenticated users.
const AUTHENTICATED_GROUP: &str = "system:authenticated";
const V1: &str = "rbac.authorization.k8s.io/v1";
/// The API version of 1.3 to 1.21 (RB-120).
pub const V1ALPHA1: &str = "rbac.authorization.k8s.io/v1alpha1";
/// The API version of 1.6 to 1.21 (RB-120).
pub const V1BETA1: &str = "rbac.authorization.k8s.io/v1beta1";

/// Converts an RBAC object of an old version to `v1`. Objects of `v1` and of other groups are unchanged. Returns
/// whether the object was converted.
pub fn upgrade(object: &mut Value) -> bool {
    match object.get("apiVersion").and_then(Value::as_str) {
        Some(V1ALPHA1) => upgrade_v1alpha1(object),
        // RB-122: the fields are those of v1.
        Some(V1BETA1) => {}
        _ => return false,
    }
    set_version(object, V1);
    true
}

/// Converts a `v1` RBAC object to `v1alpha1` (RB-123). Returns whether it was one.
pub fn downgrade_to_v1alpha1(object: &mut Value) -> bool {
    if object.get("apiVersion").and_then(Value::as_str) != Some(V1) {
        return false;
    }
    for subject in subjects(object) {
        let group = take_text(subject, "apiGroup");
        let version = match subject.get("kind").and_then(Value::as_str) {
            Some("ServiceAccount") => "v1".to_owned(),
            Some("User" | "Group") => V1ALPHA1.to_owned(),
            _ => format!("{group}/"),
        };
        subject.insert("apiVersion".to_owned(), Value::String(version));
    }
    set_version(object, V1ALPHA1);
    true
}

/// RB-121, RB-124.
fn upgrade_v1alpha1(object: &mut Value) {
    for subject in subjects(object) {
        let version = take_text(subject, "apiVersion");
        let group = match subject.get("kind").and_then(Value::as_str) {
            // RB-124: the wildcard meant all users; in v1 it would be a user of that name.
            Some("User") if subject.get("name").and_then(Value::as_str) == Some("*") => {
                subject.insert("kind".to_owned(), json!("Group"));
                subject.insert("name".to_owned(), json!(AUTHENTICATED_GROUP));
                GROUP
            }
            Some("User" | "Group") => GROUP,
            Some("ServiceAccount") => "",
            _ => version.rsplit_once('/').map_or("", |(group, _)| group),
        };
        subject.insert("apiGroup".to_owned(), json!(group));
    }
    if let Some(role_ref) = object.get_mut("roleRef").and_then(Value::as_object_mut) {
        role_ref.remove("namespace");
        role_ref.remove("apiVersion");
    }
    for rule in object.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(rule) = rule.as_object_mut() {
            rule.remove("attributeRestrictions");
        }
    }
}

fn subjects(object: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
    subjects.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn take_text(fields: &mut Map<String, Value>, key: &str) -> String {
    match fields.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn set_version(object: &mut Value, version: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!(version));
    }
}
