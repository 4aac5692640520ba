//! API objects within custom objects (`x-kubernetes-embedded-resource`): their kind and their metadata.

use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::names::rfc1035_label_errors;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::path::{at_entry, at_member};
use super::schema::Schema;
use crate::Map;
use crate::decode::{self, DecodeError, Problem};
use crate::fields::Members;
use crate::meta;
use crate::schema::meta::OBJECT_META;

/// Decodes the metadata of all objects within an object: what it does not know is dropped.
///
/// # Errors
/// A member of metadata has another type than there.
pub(super) fn decode_metadata(
    object: &mut Map,
    schema: &Schema,
    problems: &mut Vec<Problem>,
) -> Result<(), DecodeError> {
    members(object, schema, &mut String::new(), problems)
}

fn members(
    object: &mut Map,
    schema: &Schema,
    path: &mut String,
    problems: &mut Vec<Problem>,
) -> Result<(), DecodeError> {
    for (name, value) in object.iter_mut() {
        if let Some(member) = schema.member(name) {
            at_member(path, name, |path| within(value, member, path, problems))?;
        }
    }
    Ok(())
}

fn within(
    value: &mut Value,
    schema: &Schema,
    path: &mut String,
    problems: &mut Vec<Problem>,
) -> Result<(), DecodeError> {
    match value {
        Value::Object(object) => {
            if schema.is_embedded && object.get("metadata").is_some_and(|metadata| !metadata.is_null()) {
                at_member(path, "metadata", |path| one(object, path, problems))?;
            }
            members(object, schema, path, problems)
        }
        Value::Array(entries) => {
            let Some(items) = schema.items.as_deref() else { return Ok(()) };
            for (at, entry) in entries.iter_mut().enumerate() {
                at_entry(path, at, |path| within(entry, items, path, problems))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Decodes the metadata of one object.
fn one(object: &mut Map, path: &str, problems: &mut Vec<Problem>) -> Result<(), DecodeError> {
    let Some(metadata) = object.remove("metadata") else { return Ok(()) };
    let prefix = |inner: &str| if inner.is_empty() { path.to_owned() } else { format!("{path}.{inner}") };
    let mut decoded = decode::value(metadata, &OBJECT_META).map_err(|error| match error {
        DecodeError::Type { path, found, wanted } => DecodeError::Type { path: prefix(&path), found, wanted },
        DecodeError::Value { path, reason } => DecodeError::Value { path: prefix(&path), reason },
        other => other,
    })?;
    // What was not given is not shown.
    decoded.object.retain(|_, value| !value.is_null());
    problems.extend(decoded.problems.into_iter().map(|problem| match problem {
        Problem::Unknown(inner) => Problem::Unknown(prefix(&inner)),
        Problem::Duplicate(inner) => Problem::Duplicate(prefix(&inner)),
    }));
    object.insert("metadata".to_owned(), Value::Object(decoded.object));
    Ok(())
}

/// Everything wrong with the objects within an object.
pub(super) fn validate(object: &Map, schema: &Schema, errors: &mut FieldErrors) {
    check_members(object, schema, &mut String::new(), errors);
}

/// As [`validate`], for a value at a path.
pub(crate) fn check_value(value: &Value, schema: &Schema, path: &mut String, errors: &mut FieldErrors) {
    match value {
        Value::Object(object) => {
            if schema.is_embedded {
                check(object, path, errors);
            }
            check_members(object, schema, path, errors);
        }
        Value::Array(entries) => {
            let Some(items) = schema.items.as_deref() else { return };
            for (at, entry) in entries.iter().enumerate() {
                at_entry(path, at, |path| check_value(entry, items, path, errors));
            }
        }
        _ => {}
    }
}

fn check_members(object: &Map, schema: &Schema, path: &mut String, errors: &mut FieldErrors) {
    for (name, value) in object {
        if let Some(member) = schema.member(name) {
            at_member(path, name, |path| check_value(value, member, path, errors));
        }
    }
}

fn check(object: &Map, path: &str, errors: &mut FieldErrors) {
    for name in ["apiVersion", "kind"] {
        let field = format!("{path}.{name}");
        match object.get(name) {
            None => errors.push(FieldError::required(field, "must not be empty")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, quoted(text), "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let why = format!("unexpected GroupVersion string: {text}");
                    errors.push(FieldError::invalid(field, quoted(text), why));
                }
            }
            Some(Value::String(text)) => {
                for why in rfc1035_label_errors(&text.to_lowercase()) {
                    let why = format!("may have mixed case, but should otherwise match: {why}");
                    errors.push(FieldError::invalid(field.clone(), quoted(text), why));
                }
            }
            Some(other) => errors.push(FieldError::invalid(field, other, "must be a string")),
        }
    }
    match object.get("metadata") {
        None => {}
        Some(Value::Object(_)) => meta::validate_embedded(object.object("metadata"), path, errors),
        Some(other) => {
            errors.push(FieldError::invalid(format!("{path}.metadata"), other, "must be an object"))
        }
    }
}
