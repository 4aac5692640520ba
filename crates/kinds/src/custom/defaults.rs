//! Defaults: members that are not given get the values of their schema, and members that are `null` although their schema
//! does not allow it get them as well, or go.

use serde_json::Value;

use super::schema::Schema;
use crate::Map;

/// Applies the defaults of an object, and then removes what is `null` and must not be.
pub fn default(object: &mut Map, schema: &Schema) {
    members(object, schema);
    remove_nulls_of(object, schema);
}

fn is_wrong_null(value: &Value, schema: &Schema) -> bool {
    value.is_null() && !schema.is_nullable
}

fn members(object: &mut Map, schema: &Schema) {
    for (name, property) in schema.properties() {
        let Some(default) = &property.default else { continue };
        if object.get(name).is_none_or(|value| is_wrong_null(value, property)) {
            object.insert(name.to_owned(), (**default).clone());
        }
    }
    for (name, value) in object.iter_mut() {
        if let Some(member) = schema.member(name) {
            replace(value, member);
        }
    }
}

/// Applies the defaults of a value.
fn replace(value: &mut Value, schema: &Schema) {
    if let Some(default) = schema.default.as_deref().filter(|_| is_wrong_null(value, schema)) {
        *value = default.clone();
    }
    match value {
        Value::Object(object) => members(object, schema),
        Value::Array(entries) => {
            if let Some(items) = schema.items.as_deref() {
                entries.iter_mut().for_each(|entry| replace(entry, items));
            }
        }
        _ => {}
    }
}

fn remove_nulls_of(object: &mut Map, schema: &Schema) {
    object.retain(|name, value| {
        let Some(member) = schema.member(name) else { return true };
        if is_wrong_null(value, member) && !member.preserves_unknown {
            return false;
        }
        remove_nulls(value, member);
        true
    });
}

fn remove_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(object) => remove_nulls_of(object, schema),
        Value::Array(entries) => {
            if let Some(items) = schema.items.as_deref() {
                entries.iter_mut().for_each(|entry| remove_nulls(entry, items));
            }
        }
        _ => {}
    }
}
