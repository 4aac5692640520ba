//! The paths in definitions: to the counts of a scale, to the values of columns, and to selectable fields.

use std::collections::HashSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;

use crate::Map;
use crate::custom::{FieldPath, JsonPath, JsonType, Schema};
use crate::fields::{ErrorList, Errors, Members};

/// The most selectable fields of a version.
const MAX_SELECTABLE: usize = 8;
/// The types and formats of columns.
const TYPES: [&str; 5] = ["integer", "number", "string", "boolean", "date"];
const FORMATS: [&str; 8] = ["int32", "int64", "float", "double", "byte", "date", "date-time", "password"];

/// Adds what is wrong with the subresources at a path.
pub(super) fn check_subresources(subresources: &Map, path: &str, errors: &mut Errors) {
    let Some(scale) = subresources.object_if_set("scale") else { return };
    let mut check = |name: &str, is_required: bool, starts: &[&str], detail: &str| {
        let (text, field) = (scale.text(name), format!("{path}.scale.{name}"));
        match (text, simple(text)) {
            ("", _) => errors.push_if(is_required, || FieldError::required(field, "")),
            (_, Err(why)) => errors.push(FieldError::invalid(field, quoted(text), why)),
            (_, Ok(())) => {
                let is_below = starts.iter().any(|start| text.starts_with(start));
                errors.push_if(!is_below, || FieldError::invalid(field, quoted(text), detail));
            }
        }
    };
    check("specReplicasPath", true, &[".spec."], "should be a json path under .spec");
    check("statusReplicasPath", true, &[".status."], "should be a json path under .status");
    let detail = "should be a json path under either .spec or .status";
    check("labelSelectorPath", false, &[".spec.", ".status."], detail);
}

/// Names with dots before them.
fn simple(text: &str) -> Result<(), &'static str> {
    let Some(rest) = text.strip_prefix('.') else { return Err("must be a simple json path starting with .") };
    let is_name = |name: &str| !name.is_empty() && !name.contains(['[', ']', '{', '}', '\\', '*']);
    if rest.split('.').all(is_name) { Ok(()) } else { Err("must be a simple json path") }
}

/// Adds what is wrong with a column at a path.
pub(super) fn check_column(column: &Map, path: &str, errors: &mut Errors) {
    errors.push_if(column.text("name").is_empty(), || FieldError::required(format!("{path}.name"), ""));
    let (kind, format) = (column.text("type"), column.text("format"));
    let one_of = |known: &[&str]| format!("must be one of {}", known.join(","));
    match kind {
        "" => errors.push(FieldError::required(format!("{path}.type"), one_of(&TYPES))),
        kind => errors.push_if(!TYPES.contains(&kind), || {
            FieldError::invalid(format!("{path}.type"), quoted(kind), one_of(&TYPES))
        }),
    }
    errors.push_if(!format.is_empty() && !FORMATS.contains(&format), || {
        FieldError::invalid(format!("{path}.format"), quoted(format), one_of(&FORMATS))
    });
    let (text, field) = (column.text("jsonPath"), format!("{path}.JSONPath"));
    let wrong = match text {
        "" => {
            errors.push(FieldError::required(field, ""));
            return;
        }
        text if !text.starts_with('.') => Some("must be a simple json path starting with .".to_owned()),
        text => JsonPath::parse(text).err().map(|why| format!("is an invalid path: {why}")),
    };
    errors.extend(wrong.map(|why| FieldError::invalid(field, quoted(text), why)));
}

/// Adds what is wrong with the selectable fields at a path.
pub(super) fn check_selectable(fields: &[&Map], schema: &Schema, path: &str, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (at, field) in fields.iter().enumerate() {
        let (text, at) = (field.text("jsonPath"), format!("{path}[{at}].jsonPath"));
        if text.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        // Without brackets, which rules may use.
        let found = match text.contains('[') {
            true => Err("array notation is not allowed".to_owned()),
            false => FieldPath::find(text, schema),
        };
        let (found, of) = match found {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(at, quoted(text), format!("is an invalid path: {why}")));
                continue;
            }
        };
        errors.push_if(found.begins_with("metadata"), || {
            FieldError::invalid(at.clone(), quoted(text), "must not point to fields in metadata")
        });
        let is_plain = matches!(of.kind, Some(JsonType::String | JsonType::Boolean | JsonType::Integer));
        errors.push_if(!is_plain, || {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                formats are allowed.";
            FieldError::invalid(at.clone(), quoted(text), detail)
        });
        errors.push_if(!seen.insert(found.name()), || FieldError::duplicate(at, quoted(text)));
    }
    errors.push_if(seen.len() > MAX_SELECTABLE, || FieldError::too_many(path, seen.len(), MAX_SELECTABLE));
}
