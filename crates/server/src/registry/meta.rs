//! Object metadata. The rules are in `portcullis_kinds::meta`; this module adds the time, generated names and UIDs, and
//! what deletion reads and writes.

use std::collections::HashSet;
use std::time::SystemTime;

use kinds::Map;
pub(crate) use kinds::meta::{is_terminating, text};
use portcullis_apimachinery::time::Instant;
use portcullis_store::Revision;
use serde_json::Value;

use super::target::Target;
use crate::http::status::Status;

/// Returns the current time in seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Returns the metadata of an object. Decoded objects always have metadata.
pub(crate) fn of(object: &Map) -> &Map {
    static NONE: std::sync::LazyLock<Map> = std::sync::LazyLock::new(Map::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or_else(|| &NONE)
}

/// Changes the metadata of an object.
pub(crate) fn change<R>(object: &mut Map, change: impl FnOnce(&mut Map) -> R) -> R {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        return change(metadata);
    }
    let mut metadata = Map::new();
    let result = change(&mut metadata);
    object.insert("metadata".to_owned(), Value::Object(metadata));
    result
}

/// Sets a field of the metadata.
pub(crate) fn set(object: &mut Map, field: &str, value: impl Into<Value>) {
    change(object, |metadata| metadata.insert(field.to_owned(), value.into()));
}

/// Sets a field of the metadata to that of another object; removes it if that has none.
pub(crate) fn copy(object: &mut Map, field: &str, from: &Map) {
    let value = of(from).get(field).cloned();
    change(object, |metadata| match value {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    });
}

/// A copy of an object without a field of its metadata.
pub(crate) fn without(object: &Map, field: &str) -> Map {
    let kept = |(name, value): (&String, &Value)| (name.clone(), value.clone());
    let copied = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let metadata = metadata.iter().filter(|(name, _)| *name != field).map(kept).collect();
            (name.clone(), Value::Object(metadata))
        }
        _ => kept((name, value)),
    };
    object.iter().map(copied).collect()
}

/// Removes a field of the metadata.
pub(crate) fn unset(object: &mut Map, field: &str) {
    drop(take(object, field));
}

/// Takes a field out of the metadata.
pub(crate) fn take(object: &mut Map, field: &str) -> Option<Value> {
    change(object, |metadata| metadata.remove(field))
}

/// Returns the resourceVersion of an object; 0 if it has none, because then it is not stored.
///
/// # Errors
/// The resourceVersion is invalid, so it is not from this server.
pub(crate) fn revision(object: &Map) -> Result<Revision, Status> {
    match text(object, "resourceVersion") {
        "" => Ok(Revision(0)),
        text => text.parse().map(Revision).map_err(|error| {
            Status::internal(format_args!(
                "the resourceVersion {text:?} of an object cannot be read: {error}"
            ))
        }),
    }
}

/// Returns the finalizers.
pub(crate) fn finalizers(object: &Map) -> Vec<&str> {
    let list = of(object).get("finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Sets the finalizers; an empty list removes the field.
pub(crate) fn set_finalizers(object: &mut Map, finalizers: Vec<String>) {
    match finalizers.is_empty() {
        true => unset(object, "finalizers"),
        false => set(object, "finalizers", finalizers),
    }
}

/// Adds a finalizer.
pub(crate) fn add_finalizer(object: &mut Map, finalizer: &str) {
    let all = finalizers(object).into_iter().chain([finalizer]).map(str::to_owned).collect();
    set_finalizers(object, all);
}

/// Removes a finalizer, however often it is there.
pub(crate) fn remove_finalizer(object: &mut Map, finalizer: &str) {
    let rest = finalizers(object).into_iter().filter(|f| *f != finalizer).map(str::to_owned).collect();
    set_finalizers(object, rest);
}

/// Returns the grace period of the deletion, if any.
pub(crate) fn grace_period(object: &Map) -> Option<i64> {
    of(object).get("deletionGracePeriodSeconds").and_then(Value::as_i64)
}

/// Increments the generation, for kinds that have one.
pub(crate) fn raise_generation(object: &mut Map) {
    if let Some(generation) = of(object).get("generation").and_then(Value::as_i64).filter(|g| *g > 0) {
        set(object, "generation", generation + 1);
    }
}

/// Removes repeated owner references. Returns true if there were any.
pub(crate) fn drop_repeated_owners(object: &mut Map) -> bool {
    change(object, |metadata| {
        let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else { return false };
        let count = owners.len();
        let mut seen = HashSet::with_capacity(count);
        // Decoded references have their members in one order.
        owners.retain(|owner| seen.insert(owner.to_string()));
        owners.len() < count
    })
}

/// Sets the namespace of the object to that of the request (AP-31).
///
/// # Errors
/// 400 if the object has a different namespace.
pub(crate) fn place(object: &mut Map, target: &Target<'_>) -> Result<(), Status> {
    kinds::meta::settle_namespace(object, target.namespace)
        .map_err(|error| Status::bad_request(error.to_string()))
}

/// Sets the identity of a new object and generates its name if it has only a prefix (AP-30, AP-32). Returns true if the
/// name was generated.
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn identify(object: &mut Map, now: i64) -> Result<bool, Status> {
    let uid = new_uid()?;
    let mut suffix = [0_u8; 8];
    getrandom::fill(&mut suffix).map_err(Status::internal)?;
    kinds::meta::begin(object, &uid, Instant::of_seconds(now));
    let is_named = !text(object, "name").is_empty();
    kinds::meta::generate_name(object, u64::from_ne_bytes(suffix));
    Ok(!is_named && !text(object, "name").is_empty())
}

/// Generates a new UID.
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn new_uid() -> Result<String, Status> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(Status::internal)?;
    Ok(uuid(random))
}

/// Returns five random characters for the end of a generated name (AP-32).
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn suffix() -> Result<String, Status> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(Status::internal)?;
    Ok(kinds::meta::suffix(u64::from_ne_bytes(random)))
}

/// Formats random bytes as a UUID (version 4).
pub(crate) fn uuid(random: [u8; 16]) -> String {
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
            text.push(char::from(if digit < 10 { b'0' + digit } else { b'a' - 10 + digit }));
        }
    }
    text
}

/// Formats a time in whole seconds as in objects.
pub(crate) fn time(seconds: i64) -> String {
    Instant::of_seconds(seconds).to_string()
}

/// Parses a time as in objects into seconds.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    Instant::parse(text).ok().map(|instant| instant.seconds)
}
