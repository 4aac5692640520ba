//! The metadata that every object has: what the server sets, keeps and validates (AP-30 to AP-34, AP-43, AP-44).

use kinds::Map;
use kinds::resource::Resource;
use kinds::time::Instant;
use policy::field_error::FieldError;
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use serde_json::Value;

use super::target::Target;
use crate::status::Status;

/// What clients cannot set at creation (AP-30).
const SERVER_SET: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "uid",
];
const SUFFIX_LENGTH: usize = 5;
/// A generated name has at most 63 characters (AP-32).
const LONGEST_PREFIX: usize = 58;
/// Neither vowels nor what looks like them.
const SUFFIX_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The metadata of an object. There is some once it has been decoded.
pub(crate) fn of(object: &Map) -> &Map {
    static NONE: std::sync::LazyLock<Map> = std::sync::LazyLock::new(Map::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or_else(|| &NONE)
}

/// Changes the metadata of an object.
pub(crate) fn change<R>(object: &mut Map, change: impl FnOnce(&mut Map) -> R) -> R {
    let mut metadata = match object.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    let result = change(&mut metadata);
    object.insert("metadata".to_owned(), Value::Object(metadata));
    result
}

/// Sets a field of the metadata.
pub(crate) fn set(object: &mut Map, field: &str, value: impl Into<Value>) {
    change(object, |metadata| metadata.insert(field.to_owned(), value.into()));
}

/// Removes a field of the metadata.
pub(crate) fn unset(object: &mut Map, field: &str) {
    change(object, |metadata| metadata.remove(field));
}

/// Takes a field of the metadata from another object; removes it if it is not there.
pub(crate) fn keep(object: &mut Map, old: &Map, field: &str) {
    match of(old).get(field) {
        Some(value) => set(object, field, value.clone()),
        None => unset(object, field),
    }
}

/// A text of the metadata; empty when it is not there.
pub(crate) fn text<'a>(object: &'a Map, field: &str) -> &'a str {
    of(object).get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The finalizers.
pub(crate) fn finalizers(object: &Map) -> Vec<&str> {
    let list = of(object).get("finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Sets the finalizers; none of them leaves the field out.
pub(crate) fn set_finalizers(object: &mut Map, finalizers: Vec<String>) {
    match finalizers.is_empty() {
        true => unset(object, "finalizers"),
        false => set(object, "finalizers", finalizers),
    }
}

/// The grace period of a deletion, if there is one.
pub(crate) fn grace_period(object: &Map) -> Option<i64> {
    of(object).get("deletionGracePeriodSeconds").and_then(Value::as_i64)
}

/// Whether the object is being deleted.
pub(crate) fn is_terminating(object: &Map) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// One more generation, where the kind counts them.
pub(crate) fn raise_generation(object: &mut Map) {
    if let Some(generation) = of(object).get("generation").and_then(Value::as_i64).filter(|g| *g > 0) {
        set(object, "generation", generation + 1);
    }
}

/// Puts the object into the namespace of the request (AP-31).
///
/// # Errors
/// 400 when it says that it belongs elsewhere.
pub(crate) fn place(object: &mut Map, target: &Target<'_>) -> Result<(), Status> {
    if target.namespace.is_empty() {
        unset(object, "namespace");
        return Ok(());
    }
    match text(object, "namespace") {
        "" => {
            set(object, "namespace", target.namespace);
            Ok(())
        }
        found if found == target.namespace => Ok(()),
        _ => Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// Takes away what the server sets at creation (AP-30).
pub(crate) fn clear(object: &mut Map) {
    change(object, |metadata| metadata.retain(|field, _| !SERVER_SET.contains(&field.as_str())));
}

/// Gives a new object its identity and, if it has only a prefix, its name (AP-32). True: the name was made here.
///
/// # Errors
/// The system has no randomness.
pub(crate) fn identify(object: &mut Map, now: i64) -> Result<bool, Status> {
    let mut random = [0_u8; 16 + SUFFIX_LENGTH];
    getrandom::fill(&mut random).map_err(Status::internal)?;
    let (uid, suffix) = random.split_at(16);
    let uid = uuid(uid);
    let name = text(object, "name");
    let prefix = text(object, "generateName");
    let generated = (name.is_empty() && !prefix.is_empty()).then(|| {
        let mut name: String = prefix.chars().take(LONGEST_PREFIX).collect();
        let letters = suffix.iter().map(|byte| SUFFIX_LETTERS.get(usize::from(*byte) % SUFFIX_LETTERS.len()));
        name.extend(letters.flatten().map(|letter| char::from(*letter)));
        name
    });
    let is_generated = generated.is_some();
    change(object, |metadata| {
        metadata.insert("uid".to_owned(), Value::from(uid));
        metadata.insert("creationTimestamp".to_owned(), Value::from(time(now)));
        if let Some(name) = generated {
            metadata.insert("name".to_owned(), Value::from(name));
        }
    });
    Ok(is_generated)
}

/// A random UUID (version 4) out of random bytes.
fn uuid(random: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in random.iter().enumerate() {
        let byte = match i {
            6 => byte & 0x0f | 0x40,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 0x0f] {
            text.extend(char::from_digit(u32::from(digit), 16));
        }
    }
    text
}

/// A time in whole seconds, as objects have it.
pub(crate) fn time(seconds: i64) -> String {
    Instant::of_seconds(seconds).to_string()
}

/// The seconds of a time as objects have it.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    Instant::parse(text).ok().map(|instant| instant.seconds)
}

/// Everything wrong with the metadata of a new object (AP-33, AP-34).
pub(crate) fn validate_create(_resource: &Resource, object: &Map) -> Vec<FieldError> {
    match text(object, "name") {
        "" => vec![FieldError::required("metadata.name", "name or generateName is required")],
        _ => Vec::new(),
    }
}

/// Everything wrong with the metadata of an update (AP-22, AP-43, AP-44).
pub(crate) fn validate_update(_resource: &Resource, _object: &Map, _old: &Map) -> Vec<FieldError> {
    Vec::new()
}

/// Keeps of the old object what an update never changes (AP-43): silently where the new object says nothing or where
/// the field is the server's.
pub(crate) fn keep_system_fields(object: &mut Map, old: &Map) {
    for field in ["creationTimestamp", "generation", "managedFields", "selfLink"] {
        keep(object, old, field);
    }
    for field in ["deletionGracePeriodSeconds", "deletionTimestamp", "uid"] {
        if of(object).get(field).is_none_or(Value::is_null) {
            keep(object, old, field);
        }
    }
}
