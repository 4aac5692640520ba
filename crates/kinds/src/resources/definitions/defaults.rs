//! The defaults in schemas: each must be a value of its own schema, with nothing that would be pruned.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use crate::custom::{Schema, check_embedded, check_lists, prune_value, validate_at};
use crate::fields::{ErrorList, Errors};

/// Adds what is wrong with the defaults of a schema at a path.
pub(super) fn check(schema: &Schema, path: &str, errors: &mut Errors) {
    within(schema, path, errors);
}

fn within(schema: &Schema, path: &str, errors: &mut Errors) {
    if let Some(default) = schema.default.as_deref() {
        one(default, schema, &format!("{path}.default"), errors);
    }
    if let Some(items) = schema.items.as_deref() {
        within(items, &format!("{path}.items"), errors);
    }
    for (name, property) in schema.properties() {
        within(property, &format!("{path}.properties[{name}]"), errors);
    }
    if let Some(additional) = schema.additional() {
        within(additional, &format!("{path}.additionalProperties"), errors);
    }
}

fn one(default: &Value, schema: &Schema, path: &str, errors: &mut Errors) {
    let mut pruned = default.clone();
    prune_value(&mut pruned, schema, false);
    errors.push_if(pruned != *default, || {
        FieldError::invalid(path, default, "must be pruned: it has fields that the schema does not have")
    });
    errors.extend(validate_at(path, default, schema));
    let at = &mut path.to_owned();
    check_embedded(default, schema, at, errors);
    check_lists(default, schema, at, errors);
}
