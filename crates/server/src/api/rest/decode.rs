//! Bodies: from bytes to an object of the kind that the endpoint is of (AP-10 to AP-14).

use http::HeaderValue;
use kinds::Map;
use kinds::resource::Resource;
use portcullis_kinds as kinds;
use serde_json::Value;

use super::options::{FieldValidation, warning};
use crate::api::fields;
use crate::api::negotiate::Form;
use crate::go::quoted;
use crate::status::Status;

/// An object out of a body.
#[derive(Debug)]
pub(crate) struct Body {
    /// The object, with its defaults.
    pub(crate) object: Map,
    /// What the client is to be told about it.
    pub(crate) warnings: Vec<HeaderValue>,
}

/// Reads the body of a POST or PUT.
///
/// # Errors
/// 400 for what is no object of this kind.
pub(crate) fn object(
    bytes: &[u8],
    form: Form,
    resource: &Resource,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let version = resource.api_version();
    let bad = |error: &dyn std::fmt::Display| {
        let (kind, version) = (resource.kind, quoted(resource.version));
        Status::bad_request(format!("{kind} in version {version} cannot be handled as a {kind}: {error}"))
    };
    let (value, complaints) = match form {
        Form::Json => fields::decode(bytes).map_err(|error| bad(&error))?,
        Form::Yaml | Form::Protobuf => (self::value(bytes, form)?, Vec::new()),
    };
    let mut object = match value {
        Value::Object(object) => object,
        Value::Null => Map::new(),
        _ => return Err(bad(&"not an object")),
    };
    claim(&mut object, "kind", resource.kind)?;
    claim(&mut object, "apiVersion", &version)?;
    if !object.get("metadata").is_some_and(Value::is_object) {
        object.insert("metadata".to_owned(), Value::Object(Map::new()));
    }
    if validation == FieldValidation::Strict && !complaints.is_empty() {
        return Err(bad(&format_args!("strict decoding error: {}", complaints.join(", "))));
    }
    let warnings = match validation {
        FieldValidation::Warn => complaints.iter().filter_map(|complaint| warning(complaint)).collect(),
        _ => Vec::new(),
    };
    (resource.default)(&mut object);
    Ok(Body { object, warnings })
}

/// AP-12: what is said of the kind must be right; what is not said is filled in.
fn claim(object: &mut Map, field: &str, expected: &str) -> Result<(), Status> {
    match object.get(field).and_then(Value::as_str).unwrap_or_default() {
        "" => {
            object.insert(field.to_owned(), Value::from(expected));
            Ok(())
        }
        found if found == expected => Ok(()),
        found => {
            let (found, expected) = (quoted(found), quoted(expected));
            Err(Status::bad_request(format!(
                "the {field} in the data ({found}) does not match the expected {field} ({expected})"
            )))
        }
    }
}

/// Reads a body as plain data, for the few documents that are no objects.
///
/// # Errors
/// 400 for what cannot be read, 415 for what is not data.
pub(crate) fn value(bytes: &[u8], form: Form) -> Result<Value, Status> {
    match form {
        Form::Json => serde_json::from_slice(bytes).map_err(|error| Status::bad_request(error.to_string())),
        Form::Yaml => {
            let text = std::str::from_utf8(bytes).map_err(|error| Status::bad_request(error.to_string()))?;
            serde_saphyr::from_str(text).map_err(|error| Status::bad_request(error.to_string()))
        }
        Form::Protobuf => Err(Status::unsupported_media_type("application/json, application/yaml")),
    }
}
