//! Server-side apply: configurations that clients apply (AP-16).

use std::borrow::Cow;

use http::StatusCode;
use kinds::Map;
use kinds::apply::{Application, ApplyError, Conflicts};
use kinds::decode::DecodeError;
use kinds::resource::{Part, Resource};
use kinds::schema::{REST, Shape, Type};
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::options::FieldValidation;
use super::request_scope::RequestScope;
use super::{decode, managed, meta, part, update};
use crate::http::status::{Cause, Details, Status};
use crate::state::yaml;

/// A configuration of a client.
pub(crate) struct Configuration {
    /// The configuration.
    pub(crate) object: Map,
    /// The warnings for the client.
    pub(crate) warnings: Vec<String>,
}

/// Reads a configuration: the first document of a body. YAML is read as YAML 1.1, and the last of duplicate keys counts.
///
/// # Errors
/// 400 for a body that cannot be read, another kind than that of the path, and `managedFields`; with strict validation also
/// for duplicate keys.
pub(crate) fn read(
    documents: &RequestScope<'_>,
    bytes: &[u8],
    validation: FieldValidation,
) -> Result<Configuration, Status> {
    let bad = |error: &dyn std::fmt::Display| Status::bad_request(format!("error decoding YAML: {error}"));
    let text = std::str::from_utf8(bytes).map_err(|error| bad(&error))?;
    let read = yaml::first_document(text).map_err(|error| bad(&error))?;
    let object = match read.value {
        Value::Object(object) => object,
        Value::Null => Map::new(),
        _ => return Err(bad(&"a configuration is an object")),
    };
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => read.duplicates,
        FieldValidation::Strict if read.duplicates.is_empty() => Vec::new(),
        FieldValidation::Strict => {
            let duplicates = decode::listed(read.duplicates.into_iter());
            return Err(Status::bad_request(format!("error strict decoding YAML: {duplicates}")));
        }
    };
    let served = documents.target.served;
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("kind") != served.kind || text("apiVersion") != served.api_version() {
        let (version, kind) = (text("apiVersion"), text("kind"));
        let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
        return Err(Status::bad_request(format!("invalid object type: {version}, Kind={kind}")));
    }
    if meta::of(&object).get("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    Ok(Configuration { object, warnings })
}

/// The options of an apply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How<'a> {
    /// The manager.
    pub(crate) manager: &'a str,
    /// Whether fields are taken from their managers.
    pub(crate) forces: bool,
}

/// Makes of a stored object, or of none, what a configuration says.
///
/// # Errors
/// 409 for fields that others manage, 500 for a configuration that is not of this kind (as Kubernetes), 400 for another name
/// than that of the path.
pub(crate) fn apply(scope: &RequestScope<'_>, old: &Map, config: &Map, how: How<'_>) -> Result<Map, Status> {
    let uid = meta::text(config, "uid");
    if old.is_empty() && !uid.is_empty() {
        let (resource, name) = (scope.target.resource, scope.target.name);
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(resource.group, resource.plural, name, &why));
    }
    match scope.part {
        None => whole(scope, old, config, how),
        Some(part) => of_part(scope, part, old, config, how),
    }
}

fn whole(scope: &RequestScope<'_>, old: &Map, config: &Map, how: How<'_>) -> Result<Map, Status> {
    let served = scope.target.served;
    let mut merged = merged(scope, old, config, how)?;
    // The server wrote them itself, so there is nothing to decode. They are a large part of most objects.
    let managed = meta::take(&mut merged, "managedFields");
    let mut object = converted(scope, merged, served)?;
    if let Some(custom) = served.custom {
        custom.complete(&mut object, None).map_err(|error| unconverted(scope, &error))?;
    }
    let mut object = decode::current(object, served)?;
    decode::default(scope.target.resource, &mut object);
    meta::drop_repeated_owners(&mut object);
    if let Some(managed) = managed {
        meta::set(&mut object, "managedFields", managed);
    }
    update::check_name(scope, &object)?;
    Ok(object)
}

/// Applies a part: what it says of the object is applied to the object, as its scale.
fn of_part(
    scope: &RequestScope<'_>,
    part: &Part,
    old: &Map,
    config: &Map,
    how: How<'_>,
) -> Result<Map, Status> {
    let documents = scope.documents();
    let row = documents.target.served;
    let faults = kinds::apply::faults(kinds::apply::Typed::of(row.schema), config);
    if !faults.is_empty() {
        return Err(malformed(&documents, &faults.join("\n  ")));
    }
    let wanted = config.get("spec").and_then(|spec| spec.get("replicas")).cloned();
    let mut of_object = Map::new();
    for field in ["kind", "apiVersion"] {
        of_object.extend(old.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    match (wanted, part.custom) {
        (None, _) => {}
        // What is wrong with the number is found when it is written.
        (Some(_), Some(custom)) => drop(custom.set_scale(&mut of_object, config)),
        (Some(wanted), None) => {
            let spec = Map::from_iter([("replicas".to_owned(), wanted)]);
            of_object.insert("spec".to_owned(), spec.into());
        }
    }
    let merged = merged(scope, old, &of_object, how)?;
    // The document has its own validation.
    let mut object = part::put(scope, old, |document| {
        let mut document = document.clone();
        for field in ["resourceVersion", "name", "namespace", "uid"] {
            let given = meta::text(config, field);
            if !given.is_empty() {
                meta::set(&mut document, field, given);
            }
        }
        update::check_name(&documents, &document)?;
        let scaled = part.document(&merged).unwrap_or_default();
        let replicas = scaled.get("spec").and_then(|spec| spec.get("replicas")).cloned();
        if let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("replicas".to_owned(), replicas.unwrap_or_default());
        }
        converted(&documents, document, row)
    })?;
    meta::copy(&mut object, "managedFields", &merged);
    Ok(object)
}

fn merged(scope: &RequestScope<'_>, old: &Map, config: &Map, how: How<'_>) -> Result<Map, Status> {
    let served = scope.target.served;
    let empty = decode::empty(served);
    let live = match served.version_of {
        _ if old.is_empty() => Cow::Borrowed(&empty),
        None => Cow::Borrowed(old),
        Some(_) => Cow::Owned(decode::shown(old.clone(), served)),
    };
    let How { manager, forces } = how;
    let application = Application { live: &live, empty: &empty, config, manager, forces };
    let applied = managed::at_endpoint(scope, |endpoint| endpoint.apply(application));
    applied.map_err(|error| refusal(scope, &error))
}

/// Decodes a merged object. Integers that are too large wrap around, as in Kubernetes.
fn converted(scope: &RequestScope<'_>, mut object: Map, row: &Resource) -> Result<Map, Status> {
    wrap_object(&mut object, row.schema);
    let decoded = kinds::decode::value(object.into(), row.schema);
    decoded.map(|decoded| decoded.object).map_err(|error| unconverted(scope, &error))
}

fn unconverted(scope: &RequestScope<'_>, error: &DecodeError) -> Status {
    let what = what(scope);
    Status::unknown(format!("failed to convert new object ({what}) to proper version: {error}"))
}

fn wrap_object(object: &mut Map, ty: &Type) {
    for (name, value) in object {
        if let Some(field) = ty.field(name).filter(|field| field.name != REST) {
            wrap(value, field.shape);
        }
    }
}

fn wrap(value: &mut Value, shape: Shape) {
    match (shape, value) {
        (Shape::Int32, Value::Number(number)) => {
            if let Some(large) = number.as_i64() {
                // The upper bits are dropped.
                let wrapped = large as i32;
                *number = wrapped.into();
            }
        }
        (Shape::Object(ty), Value::Object(object)) => wrap_object(object, ty),
        (Shape::List(shape), Value::Array(items)) => items.iter_mut().for_each(|item| wrap(item, *shape)),
        (Shape::Map(shape), Value::Object(members)) => {
            members.values_mut().for_each(|value| wrap(value, *shape));
        }
        _ => {}
    }
}

/// The object in messages: `namespace/name; group/version, Kind=Kind`.
fn what(scope: &RequestScope<'_>) -> String {
    let target = &scope.target;
    let served = target.served;
    format!("{}/{}; {}, Kind={}", target.namespace, target.name, served.api_version(), served.kind)
}

fn malformed(scope: &RequestScope<'_>, faults: &str) -> Status {
    Status::unknown(format!("failed to create typed patch object ({}): {faults}", what(scope)))
}

fn refusal(scope: &RequestScope<'_>, error: &ApplyError) -> Status {
    match error {
        ApplyError::Conflicts(conflicts) => conflict(conflicts),
        ApplyError::Malformed(faults) => malformed(scope, &decode::listed(faults.iter().cloned())),
        ApplyError::ManagedFields(_) | ApplyError::NoVersion => {
            Status::unknown(format!("{}: {error}", quoted(scope.target.name)))
        }
    }
}

/// 409 with a cause for each field and manager.
fn conflict(conflicts: &Conflicts) -> Status {
    let causes = conflicts.list().into_iter().map(|(manager, path)| Cause {
        reason: "FieldManagerConflict".into(),
        message: format!("conflict with {manager}"),
        field: path,
    });
    let details = Details { causes: causes.collect(), ..Details::default() };
    Status::other(StatusCode::CONFLICT, "Conflict", conflicts.to_string(), Some(details))
}
