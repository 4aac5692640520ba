//! Bodies: from bytes to an object of the kind that the endpoint is of (AP-10 to AP-14).

use std::fmt::Display;

use http::HeaderValue;
use kinds::Map;
use kinds::decode::Decoded;
use kinds::resource::Resource;
use kinds::resources::rbac;
use kinds::schema::Type;
use portcullis_kinds as kinds;
use serde_json::Value;

use super::options::{FieldValidation, warning};
use super::target::Target;
use super::{context, meta};
use crate::api::negotiate::Form;
use crate::go::quoted;
use crate::state::yaml;
use crate::status::Status;

const REPEATED_OWNERS: &str = ".metadata.ownerReferences contains duplicate entries; they were dropped";

/// An object out of a body.
#[derive(Debug)]
pub(crate) struct Body {
    /// The object, with its defaults.
    pub(crate) object: Map,
    /// What the client is to be told about it.
    pub(crate) warnings: Vec<HeaderValue>,
}

/// Reads the body of a POST or PUT, in the version of the path, into an object as it is stored.
///
/// # Errors
/// 400 for what is no object of this kind.
pub(crate) fn object(
    bytes: &[u8],
    form: Form,
    target: &Target<'_>,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let served = target.served;
    let expected = Expected { kind: served.kind, api_version: &served.api_version(), shape: shape(served) };
    let Body { object, mut warnings } = document(bytes, form, expected, validation)?;
    let mut object = current(object, target.resource)?;
    context::default(target.resource, &mut object);
    if meta::drop_repeated_owners(&mut object) {
        warnings.extend(warning(REPEATED_OWNERS));
    }
    Ok(Body { object, warnings })
}

/// A document of the version of the path as the object that it means in the stored version (RB-121 to RB-124).
///
/// # Errors
/// It means none, which does not happen to what was decoded by its shape.
pub(crate) fn current(mut document: Map, resource: &Resource) -> Result<Map, Status> {
    if !rbac::upgrade(&mut document) {
        return Ok(document);
    }
    let decoded = kinds::decode::value(document.into(), shape(resource)).map_err(Status::internal)?;
    Ok(decoded.object)
}

/// An object as the version of the path shows it (RB-122, RB-123).
pub(crate) fn shown(object: Map, served: &Resource) -> Map {
    match kinds::resources::find(served.group, served.plural) {
        Some(stored) if stored.version != served.version => rbac::old::downgrade(object, served),
        _ => object,
    }
}

/// What a body must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    /// Its kind.
    pub(crate) kind: &'a str,
    /// The group and version of that.
    pub(crate) api_version: &'a str,
    /// Its fields.
    pub(crate) shape: &'static Type,
}

/// Reads a document of one kind, stored or not.
///
/// # Errors
/// 400 for what is no document of this kind.
pub(crate) fn document(
    bytes: &[u8],
    form: Form,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let Expected { kind, api_version, shape } = expected;
    let bad = |error: &dyn Display| {
        let version = quoted(api_version.rsplit('/').next().unwrap_or_default());
        Status::bad_request(format!("{kind} in version {version} cannot be handled as a {kind}: {error}"))
    };
    let decoded = match form {
        Form::Json => kinds::decode::json(bytes, shape).map_err(|error| bad(&error))?,
        Form::Yaml => {
            let text = std::str::from_utf8(bytes).map_err(|error| bad(&error))?;
            let json = yaml::to_json(text).map_err(|error| bad(&error))?;
            kinds::decode::json(json.as_bytes(), shape).map_err(|error| bad(&error))?
        }
        Form::Protobuf => {
            let object = kinds::protobuf::decode(bytes, shape).map_err(|error| bad(&error))?;
            Decoded { object, problems: Vec::new() }
        }
    };
    let mut object = decoded.object;
    claim(&mut object, "kind", kind)?;
    claim(&mut object, "apiVersion", api_version)?;
    let problems = decoded.problems.iter().map(ToString::to_string);
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Strict if decoded.problems.is_empty() => Vec::new(),
        FieldValidation::Strict => {
            let problems: Vec<String> = problems.collect();
            return Err(bad(&format_args!("strict decoding error: {}", problems.join(", "))));
        }
        FieldValidation::Warn => problems.filter_map(|problem| warning(&problem)).collect(),
    };
    Ok(Body { object, warnings })
}

/// The shape of a kind's objects.
pub(crate) fn shape(resource: &Resource) -> &'static Type {
    match resource.schema.name {
        "" => kinds::schema::find(&resource.api_version(), resource.kind).unwrap_or(resource.schema),
        _ => resource.schema,
    }
}

/// An object of this kind with nothing in it, as it is printed.
pub(crate) fn empty(resource: &Resource) -> Map {
    let empty = Value::Object(Map::new());
    kinds::decode::value(empty, shape(resource)).map(|decoded| decoded.object).unwrap_or_default()
}

/// AP-12: what is said of the kind must be right; what is not said is filled in.
///
/// # Errors
/// 400 when it is of another kind.
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

/// Reads a body as plain data, for the few documents that are no objects.
///
/// # Errors
/// 400 for what cannot be read, 415 for what is not data.
pub(crate) fn value(bytes: &[u8], form: Form) -> Result<Value, Status> {
    match form {
        Form::Json => serde_json::from_slice(bytes).map_err(|error| Status::bad_request(error.to_string())),
        Form::Yaml => {
            let text = std::str::from_utf8(bytes).map_err(|error| Status::bad_request(error.to_string()))?;
            let json = yaml::to_json(text).map_err(|error| Status::bad_request(error.to_string()))?;
            serde_json::from_str(&json).map_err(|error| Status::bad_request(error.to_string()))
        }
        Form::Protobuf => Err(Status::unsupported_media_type("application/json, application/yaml")),
    }
}
