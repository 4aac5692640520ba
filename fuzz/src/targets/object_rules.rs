//! What the rows of all kinds do with objects: defaults, validation, updates, tables and deletion. Defaults that are set
//! stay as they are, and an error says what is wrong.

use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_kinds::resource::Resource;
use portcullis_kinds::schema::meta::PARTIAL_OBJECT_METADATA;
use portcullis_kinds::{Kinds, Map, decode, meta};
use serde_json::Value;

pub(super) const OBJECT: &[&str] = &[
    "\"kind\":\"FlowSchema\",",
    "\"kind\":\"PriorityLevelConfiguration\",",
    "\"matchingPrecedence\":1,",
    "\"distinguisherMethod\":{\"type\":\"ByUser\"},",
    "\"rules\":[{\"subjects\":[{\"kind\":\"User\",\"user\":{\"name\":\"*\"}}]}],",
    "\"resourceRules\":[{\"verbs\":[\"*\"],\"clusterScope\":true}],",
    "\"nonResourceRules\":[{\"verbs\":[\"get\"],\"nonResourceURLs\":[\"*\"]}],",
    "\"limited\":{\"limitResponse\":{\"type\":\"Queue\",\"queuing\":{}}},",
    "\"exempt\":{},",
    "\"type\":\"Limited\",",
    "\"conditions\":[{\"type\":\"Dangling\",\"status\":\"False\"}],",
    "\"labels\":{\"a\":\"b\"},",
    "\"name\":\"\",",
    "null",
    "{}",
    "[]",
];

pub(super) fn object_rules(input: &[u8]) -> bool {
    let Ok(partial) = decode::json(input, &PARTIAL_OBJECT_METADATA) else { return false };
    let text = |name: &str| partial.object.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_named = |row: &&Resource| row.kind == text("kind") && row.api_version() == text("apiVersion");
    let Some(row) = Kinds::built_in().rows().find(is_named) else { return false };
    let Ok(decoded) = decode::json(input, row.schema) else { return false };
    let mut object = decoded.object;
    (row.default)(&mut object);
    promise_to_keep_defaults(row, &object);
    (row.prepare_create)(&mut object);
    let mut errors = meta::validate(&object, row);
    errors.extend((row.validate_create)(&object));
    judge_update(row, &object, &mut errors);
    errors.iter().for_each(promise_a_reason);
    let _ = (row.row)(&object, 0);
    let _ = (row.is_held)(&object);
    let _ = (row.delete)(&object, Some(0), 0);
    errors.is_empty()
}

/// An object is read back from storage with its defaults, and gets them again.
fn promise_to_keep_defaults(row: &Resource, object: &Map) {
    let mut again = object.clone();
    (row.default)(&mut again);
    assert_eq!(&again, object, "defaults stay as they are");
}

/// Updates the object to itself.
fn judge_update(row: &'static Resource, object: &Map, errors: &mut FieldErrors) {
    let (mut updated, mut status) = (object.clone(), object.clone());
    (row.prepare_update)(&mut updated, object);
    errors.extend(meta::validate_update(&updated, object, row, false));
    errors.extend((row.validate_update)(&updated, object));
    (row.prepare_status)(&mut status, object);
    errors.extend((row.validate_status)(&status, object));
}

fn promise_a_reason(error: &FieldError) {
    assert!(!error.field.is_empty() && !error.message().is_empty(), "{error:?}");
}
