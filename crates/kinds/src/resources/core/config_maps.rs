//! ConfigMaps: configuration data as text and bytes.

use portcullis_apimachinery::field_error::{FieldError, NO_FIELD};
use serde_json::Value;

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::resource::Resource;
use crate::resources::cells::{AGE, NAME, age, name, text_column};
use crate::resources::formats::data_key;
use crate::schema;
use crate::table::{Column, Row};

/// The row of ConfigMaps.
pub static CONFIG_MAPS: Resource = Resource {
    kind: "ConfigMap",
    plural: "configmaps",
    short_names: &["cm"],
    schema: &schema::core::small::CONFIG_MAP,
    validate_create: validate,
    validate_update,
    columns: COLUMNS,
    row,
    ..Resource::USUAL
};

/// The maximum size of the values of a ConfigMap or a Secret, in bytes (AP-132).
pub(super) const MAX_SIZE: usize = 1024 * 1024;

/// AP-132.
fn validate(config_map: &Map) -> Errors {
    let mut errors = Errors::new();
    let (data, binary) = (config_map.object("data"), config_map.object("binaryData"));
    for key in data.keys() {
        errors.extend(data_key(&format!("data[{key}]"), key));
        if binary.contains_key(key) {
            errors.push(FieldError::invalid(
                format!("data[{key}]"),
                key.as_str(),
                "duplicate of key present in binaryData",
            ));
        }
    }
    for key in binary.keys() {
        errors.extend(data_key(&format!("binaryData[{key}]"), key));
    }
    let texts: usize = data.values().filter_map(Value::as_str).map(str::len).sum();
    errors.push_if(texts + decoded_size(binary) > MAX_SIZE, || FieldError::too_long(NO_FIELD, MAX_SIZE));
    errors
}

/// The decoded size of the base64 values of a map, in bytes.
pub(super) fn decoded_size(map: &Map) -> usize {
    let size = |text: &str| {
        let padding = text.bytes().rev().take_while(|&byte| byte == b'=').count();
        (text.len() / 4 * 3).saturating_sub(padding)
    };
    map.values().filter_map(Value::as_str).map(size).sum()
}

/// AP-132: an immutable ConfigMap stays immutable and keeps its data.
fn validate_update(config_map: &Map, old: &Map) -> Errors {
    let mut errors = immutable_errors(config_map, old, &["data", "binaryData"]);
    errors.extend(validate(config_map));
    errors
}

/// Returns errors for changes of an immutable ConfigMap or Secret (AP-132).
pub(super) fn immutable_errors(object: &Map, old: &Map, fields: &[&str]) -> Errors {
    if !old.is_true("immutable") {
        return Errors::new();
    }
    let has_changed = |field: &&str| match *field {
        "immutable" => !object.is_true(field),
        field => object.get(field) != old.get(field),
    };
    std::iter::once(&"immutable")
        .chain(fields)
        .filter(|field| has_changed(field))
        .map(|field| FieldError::forbidden(*field, "field is immutable when `immutable` is set"))
        .collect()
}

const COLUMNS: &[Column] = &[NAME, text_column("Data", "How many keys there are, texts and bytes."), AGE];

fn row(config_map: &Map, now: i64) -> Row {
    let count = config_map.object("data").len() + config_map.object("binaryData").len();
    Row::of(vec![name(config_map), Value::from(count), age(config_map, now)])
}
