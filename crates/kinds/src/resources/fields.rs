//! Reads and writes members of objects. What is missing and what is of another type read alike: as not set.

use std::sync::LazyLock;

use serde_json::Value;

use crate::Map;

/// An object without members, for those that are missing.
static EMPTY: LazyLock<Map> = LazyLock::new(Map::new);

/// The text of a member; empty when it is not set.
pub(super) fn text<'a>(map: &'a Map, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The object of a member; without members when it is not set.
pub(super) fn object<'a>(map: &'a Map, name: &str) -> &'a Map {
    map.get(name).and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// The entries of a list; none when it is not set.
pub(super) fn list<'a>(map: &'a Map, name: &str) -> &'a [Value] {
    map.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The texts of a list.
pub(super) fn texts<'a>(
    map: &'a Map,
    name: &str,
) -> impl DoubleEndedIterator<Item = &'a str> + ExactSizeIterator + Clone {
    list(map, name).iter().map(|entry| entry.as_str().unwrap_or_default())
}

/// The objects of a list.
pub(super) fn objects<'a>(
    map: &'a Map,
    name: &str,
) -> impl DoubleEndedIterator<Item = &'a Map> + ExactSizeIterator + Clone {
    list(map, name).iter().map(|entry| entry.as_object().unwrap_or(&EMPTY))
}

/// The number of a member; 0 when it is not set.
pub(super) fn number(map: &Map, name: &str) -> i64 {
    map.get(name).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether a member is `true`.
pub(super) fn is_set(map: &Map, name: &str) -> bool {
    map.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// The object's metadata.
pub(super) fn metadata(object_: &Map) -> &Map {
    object(object_, "metadata")
}

/// The object's name.
pub(super) fn name(object: &Map) -> &str {
    text(metadata(object), "name")
}

/// Whether the object is under deletion.
pub(super) fn is_terminating(object: &Map) -> bool {
    !text(metadata(object), "deletionTimestamp").is_empty()
}

/// The member as an object that can be written to; made when there is none. Nothing when it is something else.
pub(super) fn object_mut<'a>(map: &'a mut Map, name: &str) -> Option<&'a mut Map> {
    map.entry(name).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// The objects of a list, to be written to.
pub(super) fn objects_mut<'a>(map: &'a mut Map, name: &str) -> impl Iterator<Item = &'a mut Map> {
    map.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets a member where it is empty text or missing.
pub(super) fn default_text(map: &mut Map, name: &str, value: &str) {
    if text(map, name).is_empty() {
        map.insert(name.to_owned(), Value::from(value));
    }
}

/// Makes a member what it is in another object: also missing, when it is missing there.
pub(super) fn keep(map: &mut Map, old: &Map, name: &str) {
    match old.get(name) {
        Some(value) => map.insert(name.to_owned(), value.clone()),
        None => map.remove(name),
    };
}

/// Makes a list that is empty or missing `null`, as it comes back from storage (AP-136).
pub(super) fn empty_to_null(map: &mut Map, name: &str) {
    if list(map, name).is_empty() {
        map.insert(name.to_owned(), Value::Null);
    }
}

/// Whether a member is there and is not null: Go's pointer that is not nil.
pub(super) fn is_present(map: &Map, name: &str) -> bool {
    map.get(name).is_some_and(|value| !value.is_null())
}

/// Sets a member where it is missing.
pub(super) fn default_value(map: &mut Map, name: &str, value: impl Into<Value>) {
    if !is_present(map, name) {
        map.insert(name.to_owned(), value.into());
    }
}

/// Keeps of the metadata what an update of the status of some kinds cannot change: nearly all.
pub(super) fn keep_metadata(object: &mut Map, old: &Map) {
    const KEPT: [&str; 7] = [
        "annotations",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "labels",
        "ownerReferences",
        "selfLink",
    ];
    if let Some(new) = object_mut(object, "metadata") {
        KEPT.into_iter().for_each(|name| keep(new, metadata(old), name));
    }
}

/// Sets the generation of a new object.
pub(super) fn begin_generation(object: &mut Map) {
    if let Some(metadata) = object_mut(object, "metadata") {
        metadata.insert("generation".to_owned(), Value::from(1));
    }
}

/// Sets the generation after an update: one more than before when something has changed that counts.
pub(super) fn raise_generation(object: &mut Map, old: &Map, has_changed: bool) {
    let generation = number(metadata(old), "generation").saturating_add(i64::from(has_changed));
    if let Some(metadata) = object_mut(object, "metadata").filter(|_| generation > 0) {
        metadata.insert("generation".to_owned(), Value::from(generation));
    }
}
