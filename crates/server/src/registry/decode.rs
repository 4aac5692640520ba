//! Decodes request bodies into objects of the endpoint's kind (AP-10 to AP-14).

use std::fmt::Display;

use http::HeaderValue;
use kinds::Map;
use kinds::decode::Decoded;
use kinds::resource::{Custom, Resource};
use kinds::schema::Type;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::meta::{self, now};
use super::options::FieldValidation;
use super::target::Target;
use crate::http::negotiate::Form;
use crate::http::status::Status;
use crate::http::warning;
use crate::state::yaml;

const REPEATED_OWNERS: &str = ".metadata.ownerReferences contains duplicate entries; they were dropped";

/// An object decoded from a request body.
#[derive(Debug)]
pub(crate) struct Body {
    /// The object with its defaults applied.
    pub(crate) object: Map,
    /// The warnings for the client.
    pub(crate) warnings: Vec<HeaderValue>,
}

/// Decodes the body of a POST or PUT from the version of the path into the stored form.
///
/// # Errors
/// 400 if the body is not an object of this kind.
pub(crate) fn object(
    bytes: &[u8],
    form: Form,
    target: &Target<'_>,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let served = target.served;
    let expected = Expected {
        kind: served.kind,
        api_version: &served.api_version(),
        shape: served.schema,
        custom: served.custom,
    };
    let Body { object, mut warnings } = document(bytes, form, expected, validation)?;
    let mut object = current(object, served)?;
    default(target.resource, &mut object);
    if meta::drop_repeated_owners(&mut object) {
        warnings.extend(warning::header(REPEATED_OWNERS));
    }
    Ok(Body { object, warnings })
}

/// Fills in what an object from a client or a file does not say.
pub(crate) fn default(resource: &Resource, object: &mut Map) {
    (resource.default)(object);
    (resource.default_times)(object, &meta::time(now()));
}

/// Converts a document from the version of the path to the stored version (RB-121 to RB-124).
///
/// # Errors
/// The document cannot be converted. This cannot happen for decoded documents.
pub(crate) fn current(document: Map, served: &Resource) -> Result<Map, Status> {
    let Some(version) = served.version_of else { return Ok(document) };
    let document = (version.to)(document);
    let decoded = kinds::decode::value(document.into(), version.row.schema).map_err(Status::internal)?;
    Ok(decoded.object)
}

/// Converts an object to the version of the path (RB-122, RB-123).
pub(crate) fn shown(object: Map, served: &Resource) -> Map {
    match served.version_of {
        Some(version) => (version.from)(object, served),
        None => object,
    }
}

/// The expected content of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    /// Its kind.
    pub(crate) kind: &'a str,
    /// The API group and version of the kind.
    pub(crate) api_version: &'a str,
    /// The schema of the kind.
    pub(crate) shape: &'static Type,
    /// The definition of a custom kind.
    pub(crate) custom: Option<&'static dyn Custom>,
}

/// Decodes a document of one kind, stored or not.
///
/// # Errors
/// 400 if the body is not a document of this kind.
pub(crate) fn document(
    bytes: &[u8],
    form: Form,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let Expected { kind, api_version, shape, custom } = expected;
    let bad = |error: &dyn Display| {
        let version = quoted(api_version.rsplit('/').next().unwrap_or_default());
        Status::bad_request(format!("{kind} in version {version} cannot be handled as a {kind}: {error}"))
    };
    let decoded = match form {
        Form::Json => kinds::decode::json(bytes, shape).map_err(|error| bad(&error))?,
        Form::Yaml => {
            let text = std::str::from_utf8(bytes).map_err(|error| bad(&error))?;
            let json = yaml::body_to_json(text).map_err(|error| bad(&error))?;
            kinds::decode::json(json.as_bytes(), shape).map_err(|error| bad(&error))?
        }
        Form::Protobuf => {
            let object = kinds::protobuf::decode(bytes, shape).map_err(|error| bad(&error))?;
            Decoded { object, problems: Vec::new() }
        }
    };
    let Decoded { mut object, mut problems } = decoded;
    match custom {
        None => claim(&mut object, "kind", kind)?,
        // Another kind than that of the path is found by the validation of the object.
        Some(_) => required(&object, &["kind", "apiVersion"])?,
    }
    claim(&mut object, "apiVersion", api_version)?;
    if let Some(custom) = custom {
        let told = (validation != FieldValidation::Ignore).then_some(&mut problems);
        custom.complete(&mut object, told).map_err(|error| bad(&error))?;
    }
    let are_none = problems.is_empty();
    let problems = problems.iter().map(ToString::to_string);
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Strict if are_none => Vec::new(),
        FieldValidation::Strict => {
            return Err(bad(&format_args!("strict decoding error: {}", listed(problems))));
        }
        FieldValidation::Warn => warning::headers(problems),
    };
    Ok(Body { object, warnings })
}

/// The maximum size of the problems in one message, in bytes.
///
/// DIVERGES: Kubernetes reports all of them, each with the whole path.
const MAX_PROBLEMS: usize = 16 * 1024;

/// The problems of an object for an error message, as far as they fit.
pub(crate) fn listed(problems: impl Iterator<Item = String>) -> String {
    let mut listed = String::new();
    for problem in problems {
        if !listed.is_empty() {
            listed.push_str(", ");
        }
        let left = MAX_PROBLEMS.saturating_sub(listed.len());
        if problem.len() > left {
            listed.push_str(problem.get(..problem.floor_char_boundary(left)).unwrap_or_default());
            listed.push('…');
            break;
        }
        listed.push_str(&problem);
    }
    listed
}

/// Returns an empty object of this kind, in the order of serialization.
pub(crate) fn empty(resource: &Resource) -> Map {
    let empty = Value::Object(Map::new());
    kinds::decode::value(empty, resource.schema).map(|decoded| decoded.object).unwrap_or_default()
}

/// Checks that an object says these texts.
///
/// # Errors
/// 400 for the first one that is missing.
fn required(object: &Map, fields: &[&str]) -> Result<(), Status> {
    let is_missing =
        |field: &&&str| object.get(**field).and_then(Value::as_str).unwrap_or_default().is_empty();
    match fields.iter().find(is_missing) {
        None => Ok(()),
        Some(field) => {
            Err(Status::bad_request(format!("Object '{field}' is missing in the body of the request")))
        }
    }
}

/// AP-12: checks `kind` or `apiVersion` if set, and fills it in otherwise.
///
/// # Errors
/// 400 if it is a different kind.
pub(crate) fn claim(object: &mut Map, field: &str, expected: &str) -> Result<(), Status> {
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

/// Reads a body that is not an object of a kind, such as DeleteOptions. JSON and YAML are taken as they come, protobuf is
/// read by the fields of `shape`.
///
/// # Errors
/// 400 for a body that cannot be read.
pub(crate) fn value(bytes: &[u8], form: Form, shape: &Type) -> Result<Value, Status> {
    let bad = |error: &dyn Display| Status::bad_request(error.to_string());
    match form {
        Form::Json => serde_json::from_slice(bytes).map_err(|error| bad(&error)),
        Form::Yaml => yaml_value(bytes),
        Form::Protobuf => {
            kinds::protobuf::decode(bytes, shape).map(Value::Object).map_err(|error| bad(&error))
        }
    }
}

/// Reads a body in YAML, or in JSON, which is YAML as well.
///
/// # Errors
/// 400 for a body that cannot be read.
pub(crate) fn yaml_value(bytes: &[u8]) -> Result<Value, Status> {
    let bad = |error: &dyn Display| Status::bad_request(error.to_string());
    let text = std::str::from_utf8(bytes).map_err(|error| bad(&error))?;
    let json = yaml::body_to_json(text).map_err(|error| bad(&error))?;
    serde_json::from_str(&json).map_err(|error| bad(&error))
}
