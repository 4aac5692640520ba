//! Removes fields from a value.

use serde_json::Value;

use crate::Map;

use super::schema::{Schema, Structure};
use super::set::FieldSet;
use super::step;

/// Removes the fields of a set from an object, with all that is below them. What becomes empty thereby becomes `null`.
pub(super) fn remove_members<S: Schema>(schema: S, members: &mut Map, set: &FieldSet) {
    for (step, below) in set.children() {
        let Some(name) = step::name(step) else { continue };
        if below.is_member() {
            members.remove(name);
        } else if let Some(value) = members.get_mut(name)
            && let Some(inner) = schema.field(name).or_else(|| schema.inner())
        {
            remove(inner, value, below);
        }
    }
}

fn remove<S: Schema>(schema: S, value: &mut Value, set: &FieldSet) {
    match (schema.structure(), &mut *value) {
        (Structure::Set | Structure::KeyedList, Value::Array(items)) if !items.is_empty() => {
            items.retain_mut(|item| {
                let Ok(step) = step::entry(schema, item) else { return true };
                let Some(below) = set.below(&step) else { return true };
                if let Some(inner) = schema.inner().filter(|_| !below.is_member()) {
                    remove(inner, item, below);
                }
                !below.is_member()
            });
            if items.is_empty() {
                *value = Value::Null;
            }
        }
        (Structure::Map | Structure::Deduced, Value::Object(members)) if !members.is_empty() => {
            remove_members(schema, members, set);
            if members.is_empty() {
                *value = Value::Null;
            }
        }
        // A value with one owner has nothing below that could be removed alone.
        (Structure::AtomicList | Structure::AtomicMap, value) if !set.is_empty() => *value = Value::Null,
        _ => {}
    }
}
