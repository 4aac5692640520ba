//! Validation of metadata (AP-22, AP-34, AP-43, AP-44).

use std::collections::BTreeSet;

use portcullis_apimachinery::field_error::{FieldError, NO_FIELD};
use portcullis_apimachinery::names::NameRule;
use portcullis_apimachinery::names::label_errors;
use portcullis_apimachinery::names::{label_key_errors, label_value_errors};
use serde_json::Value;

use super::{is_terminating, name, namespace, text};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::{MetadataChecks, Resource};

/// The maximum total size of annotations, keys and values, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;
/// The finalizers that need no domain.
const OWN_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

/// The longest name of a field manager, in bytes (AP-16).
const MAX_MANAGER: usize = 128;

/// Validates the metadata of a new object. Errors are in field order (AP-34).
pub fn validate(object: &Map, resource: &Resource) -> Errors {
    let mut errors = Errors::new();
    check(object, resource, resource.names, resource.metadata_checks.knows_finalizers, &mut errors);
    errors
}

/// Everything wrong with an update, of which `of_kind` is what the kind's own validation says.
pub fn with_metadata(
    of_kind: Errors,
    object: &Map,
    old: &Map,
    resource: &Resource,
    is_status: bool,
) -> Errors {
    let alone = |error: &&FieldError| error.field == NO_FIELD && resource.reports_fieldless_alone;
    match of_kind.iter().find(alone) {
        Some(error) => Errors::from([error.clone()]),
        None => {
            let mut errors = validate_update(object, old, resource, is_status);
            errors.extend(of_kind);
            errors
        }
    }
}

/// Validates the metadata of an update, and repeats errors as often as the API server does (AP-22): for every kind,
/// once as a new object and once against the stored one; then as often as the kind's own validation repeats it.
pub fn validate_update(object: &Map, old: &Map, resource: &Resource, is_status: bool) -> Errors {
    let of_kind = resource.metadata_checks;
    let of_kind = if is_status { MetadataChecks { alone: 0, as_update: 1, ..of_kind } } else { of_kind };
    let knows_finalizers = of_kind.knows_finalizers;
    let mut errors = Errors::new();
    check(object, resource, NameRule::PathSegment, false, &mut errors);
    let mut of_update = Errors::new();
    check_update(object, old, false, &mut of_update);
    let is_update_valid = of_update.is_empty();
    errors.extend(of_update);
    repeat(of_kind.alone, &mut errors, |errors| {
        check(object, resource, resource.names, knows_finalizers, errors);
    });
    if !is_update_valid || knows_finalizers {
        repeat(of_kind.as_update, &mut errors, |errors| check_update(object, old, knows_finalizers, errors));
    }
    errors
}

/// Reports the errors of a check as often as Kubernetes does, which repeats it. What finds nothing once finds nothing again.
fn repeat(times: u8, errors: &mut Errors, check: impl Fn(&mut Errors)) {
    for _ in 0..times {
        let mut found = Errors::new();
        check(&mut found);
        if found.is_empty() {
            return;
        }
        errors.extend(found);
    }
}

/// Adds everything wrong with the metadata of an object within another one, at this path. It needs no name.
pub fn validate_embedded(metadata: &Map, path: &str, errors: &mut Errors) {
    let mut metadata = metadata.clone();
    metadata.default_text("name", "unnamed");
    let is_namespaced = !metadata.text("namespace").is_empty();
    let object = Map::from_iter([("metadata".to_owned(), Value::Object(metadata))]);
    let mut found = Errors::new();
    let resource = Resource { is_namespaced, ..Resource::USUAL };
    check(&object, &resource, NameRule::PathSegment, false, &mut found);
    found.iter_mut().for_each(|error| error.field.insert_str(0, &format!("{path}.")));
    errors.extend(found);
}

fn check(object: &Map, resource: &Resource, names: NameRule, knows_finalizers: bool, errors: &mut Errors) {
    let prefix = text(object, "generateName");
    if !prefix.is_empty() {
        let of_prefix = names.prefix_errors(prefix).into_iter();
        errors.extend(of_prefix.map(|error| FieldError::invalid("metadata.generateName", prefix, error)));
    }
    match name(object) {
        "" => errors.push(FieldError::required("metadata.name", "name or generateName is required")),
        name => {
            let of_name = names.errors(name).into_iter();
            errors.extend(of_name.map(|error| FieldError::invalid("metadata.name", name, error)));
        }
    }
    check_namespace(namespace(object), resource.is_namespaced, errors);
    check_labels(object, errors);
    check_annotations(object, errors);
    check_owners(object, errors);
    check_finalizers(object, errors);
    if knows_finalizers {
        check_own_finalizers(object, errors);
    }
    check_managers(object, errors);
}

fn check_namespace(namespace: &str, is_namespaced: bool, errors: &mut Errors) {
    const FIELD: &str = "metadata.namespace";
    match (is_namespaced, namespace) {
        (true, "") => errors.push(FieldError::required(FIELD, "")),
        (true, namespace) => {
            let of_name = label_errors(namespace).into_iter();
            errors.extend(of_name.map(|error| FieldError::invalid(FIELD, namespace, error)));
        }
        (false, "") => {}
        (false, _) => errors.push(FieldError::forbidden(FIELD, "not allowed on this type")),
    }
}

/// Checks that immutable metadata is unchanged (AP-43, AP-44), and validates some fields again.
fn check_update(object: &Map, old: &Map, knows_finalizers: bool, errors: &mut Errors) {
    if is_terminating(old) {
        let before: BTreeSet<&str> = finalizers(old).collect();
        let added: BTreeSet<&str> = finalizers(object).filter(|name| !before.contains(name)).collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    for name in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let (new, old) = (set(object, name), set(old, name));
        if new != old {
            let shown = new.map(ToString::to_string).unwrap_or_default();
            errors.push(FieldError::invalid(format!("metadata.{name}"), shown, "field is immutable"));
        }
    }
    check_labels(object, errors);
    check_annotations(object, errors);
    check_owners(object, errors);
    if knows_finalizers {
        check_own_finalizers(object, errors);
    }
    check_managers(object, errors);
}

/// A member of the metadata, unless it is its zero value.
fn set<'a>(object: &'a Map, name: &str) -> Option<&'a Value> {
    let value = object.metadata().get(name)?;
    (!value.is_null() && value.as_str() != Some("")).then_some(value)
}

fn check_labels(object: &Map, errors: &mut Errors) {
    const FIELD: &str = "metadata.labels";
    for (key, value) in entries(object, "labels") {
        let of_key = label_key_errors(key).into_iter();
        errors.extend(of_key.map(|error| FieldError::invalid(FIELD, key, error)));
        let of_value = label_value_errors(value).into_iter();
        errors.extend(of_value.map(|error| FieldError::invalid(FIELD, value, error)));
    }
}

/// Keys are label keys, but may contain upper-case letters.
fn check_annotations(object: &Map, errors: &mut Errors) {
    const FIELD: &str = "metadata.annotations";
    let mut size = 0_usize;
    for (key, value) in entries(object, "annotations") {
        size = size.saturating_add(key.len()).saturating_add(value.len());
        let of_key = label_key_errors(&key.to_lowercase()).into_iter();
        errors.extend(of_key.map(|error| FieldError::invalid(FIELD, key, error)));
    }
    errors.push_if(size > MAX_ANNOTATIONS, || FieldError::too_long(FIELD, MAX_ANNOTATIONS));
}

/// The paths have no index (AP-34).
fn check_owners(object: &Map, errors: &mut Errors) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controllers = 0;
    for owner in object.metadata().objects("ownerReferences") {
        let (group, version) = group_and_version(owner.text("apiVersion"));
        if version.is_empty() {
            let field = format!("{FIELD}.apiVersion");
            errors.push(FieldError::invalid(field, owner.text("apiVersion"), "version must not be empty"));
        }
        for name in ["kind", "name", "uid"] {
            if owner.text(name).is_empty() {
                errors.push(FieldError::invalid(format!("{FIELD}.{name}"), "", "must not be empty"));
            }
        }
        if group.is_empty() && version == "v1" && owner.text("kind") == "Event" {
            errors.push(FieldError::invalid(FIELD, "Event", "an Event is disallowed from being an owner"));
        }
        if owner.is_true("controller") {
            controllers += 1;
            let detail = "Only one reference can have Controller set to true";
            errors.push_if(controllers > 1, || FieldError::invalid(FIELD, owner.text("name"), detail));
        }
    }
}

fn group_and_version(api_version: &str) -> (&str, &str) {
    match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, rest)) if rest.contains('/') => ("", ""),
        Some(both) => both,
    }
}

fn finalizers(object: &Map) -> impl Iterator<Item = &str> {
    object.metadata().texts("finalizers")
}

fn check_finalizers(object: &Map, errors: &mut Errors) {
    const FIELD: &str = "metadata.finalizers";
    for name in finalizers(object) {
        let of_name = label_key_errors(name).into_iter();
        errors.extend(of_name.map(|error| FieldError::invalid(FIELD, name, error)));
    }
    let has = |wanted: &str| finalizers(object).any(|name| name == wanted);
    let detail = "finalizer foregroundDeletion and orphan cannot be both set";
    errors.push_if(has("orphan") && has("foregroundDeletion"), || FieldError::invalid(FIELD, "", detail));
}

fn check_own_finalizers(object: &Map, errors: &mut Errors) {
    for (index, name) in finalizers(object).enumerate() {
        if !name.contains('/') && !OWN_FINALIZERS.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("metadata.finalizers[{index}]"), name, detail));
        }
    }
}

/// The longest name of a subresource, in bytes.
const MAX_SUBRESOURCE: usize = 256;

/// Checks who manages fields.
fn check_managers(object: &Map, errors: &mut Errors) {
    for (index, entry) in object.metadata().objects("managedFields").enumerate() {
        let field = |name: &str| format!("metadata.managedFields[{index}].{name}");
        // One pass over the members is faster than looking up each name.
        let (mut operation, mut form, mut manager, mut subresource) = ("", "", "", "");
        for (name, value) in entry {
            let known = match name.as_str() {
                "operation" => &mut operation,
                "fieldsType" => &mut form,
                "manager" => &mut manager,
                "subresource" => &mut subresource,
                _ => continue,
            };
            *known = value.as_str().unwrap_or_default();
        }
        errors.push_if(!matches!(operation, "Apply" | "Update"), || {
            FieldError::invalid(field("operation"), operation, "must be `Apply` or `Update`")
        });
        errors.push_if(!matches!(form, "" | "FieldsV1"), || {
            FieldError::invalid(field("fieldsType"), form, "must be `FieldsV1`")
        });
        errors.push_if(manager.len() > MAX_MANAGER, || FieldError::too_long(field("manager"), MAX_MANAGER));
        errors.push_if(subresource.len() > MAX_SUBRESOURCE, || {
            FieldError::too_long(field("subresource"), MAX_SUBRESOURCE)
        });
    }
}

/// The entries of a map of strings. Values of other types count as empty, as they are read back (AP-136).
fn entries<'a>(object: &'a Map, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    object
        .metadata()
        .object(name)
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}
