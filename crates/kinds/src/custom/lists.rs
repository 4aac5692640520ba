//! Lists whose entries are unique: sets by their values, maps by some of their members.

use std::borrow::Cow;
use std::collections::HashSet;

use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use serde_json::Value;

use super::path::{at_entry, at_member};
use super::schema::{ListType, Schema};
use crate::Map;

/// Adds an error for each entry that is there before.
pub(super) fn check(object: &Map, schema: &Schema, errors: &mut FieldErrors) {
    members(object, schema, &mut String::new(), errors);
}

/// As [`check`], for a value at a path.
pub(crate) fn check_value(value: &Value, schema: &Schema, path: &mut String, errors: &mut FieldErrors) {
    match value {
        Value::Object(object) => members(object, schema, path, errors),
        Value::Array(entries) => {
            unique(entries, schema, path, errors);
            let Some(items) = schema.items.as_deref() else { return };
            for (at, entry) in entries.iter().enumerate() {
                at_entry(path, at, |path| check_value(entry, items, path, errors));
            }
        }
        _ => {}
    }
}

fn members(object: &Map, schema: &Schema, path: &mut String, errors: &mut FieldErrors) {
    for (name, value) in object {
        if let Some(member) = schema.member(name) {
            at_member(path, name, |path| check_value(value, member, path, errors));
        }
    }
}

fn unique(entries: &[Value], schema: &Schema, path: &str, errors: &mut FieldErrors) {
    let mut seen = HashSet::with_capacity(entries.len().min(1024));
    let mut told = HashSet::new();
    for (at, entry) in entries.iter().enumerate() {
        let Some(key) = key(entry, schema) else { continue };
        let text = key.to_string();
        if !seen.insert(text.clone()) && told.insert(text.clone()) {
            errors.push(FieldError::duplicate(format!("{path}[{at}]"), text));
        }
    }
}

/// The key by which an entry is unique; none for atomic lists.
pub(crate) fn key<'v>(entry: &'v Value, schema: &Schema) -> Option<Cow<'v, Value>> {
    match schema.list_type {
        ListType::Atomic => None,
        ListType::Set => Some(Cow::Borrowed(entry)),
        ListType::Map => {
            let object = entry.as_object()?;
            let keys = schema.list_keys().iter();
            let keys = keys.filter_map(|name| Some(((**name).to_owned(), object.get(&**name)?.clone())));
            Some(Cow::Owned(Value::Object(keys.collect())))
        }
    }
}
