//! Reads and writes members of objects. A missing member and one of another type both read as not set.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::Map;

/// The empty object, for missing members.
static EMPTY: LazyLock<Map> = LazyLock::new(Map::new);

/// The string of a member; empty if not set.
pub(super) fn text<'a>(map: &'a Map, name: &str) -> &'a str {
    map.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The object of a member; empty if not set.
pub(super) fn object<'a>(map: &'a Map, name: &str) -> &'a Map {
    map.get(name).and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// The entries of a list; empty if not set.
pub(super) fn list<'a>(map: &'a Map, name: &str) -> &'a [Value] {
    map.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The strings of a list.
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

/// The number of a member; 0 if not set.
pub(super) fn number(map: &Map, name: &str) -> i64 {
    map.get(name).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns whether a member is `true`.
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

/// Returns whether the object is terminating.
pub(super) fn is_terminating(object: &Map) -> bool {
    !text(metadata(object), "deletionTimestamp").is_empty()
}

/// The member as a mutable object, created if missing; `None` if it is something else.
pub(super) fn object_mut<'a>(map: &'a mut Map, name: &str) -> Option<&'a mut Map> {
    map.entry(name).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

/// The mutable objects of a list.
pub(super) fn objects_mut<'a>(map: &'a mut Map, name: &str) -> impl Iterator<Item = &'a mut Map> {
    map.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets a member that is missing or an empty string.
pub(super) fn default_text(map: &mut Map, name: &str, value: &str) {
    if text(map, name).is_empty() {
        map.insert(name.to_owned(), Value::from(value));
    }
}

/// Copies a member from another object, or removes it if it is missing there.
pub(super) fn keep(map: &mut Map, old: &Map, name: &str) {
    match old.get(name) {
        Some(value) => map.insert(name.to_owned(), value.clone()),
        None => map.remove(name),
    };
}

/// Sets a list that is empty or missing to `null`, as it is read back from storage (AP-136).
pub(super) fn empty_to_null(map: &mut Map, name: &str) {
    if list(map, name).is_empty() {
        map.insert(name.to_owned(), Value::Null);
    }
}

/// Returns whether a member is present and not null, like a non-nil pointer in Go.
pub(super) fn is_present(map: &Map, name: &str) -> bool {
    map.get(name).is_some_and(|value| !value.is_null())
}

/// Sets a missing member.
pub(super) fn default_value(map: &mut Map, name: &str, value: impl Into<Value>) {
    if !is_present(map, name) {
        map.insert(name.to_owned(), value.into());
    }
}

/// Restores the metadata that a status update of some kinds cannot change, which is nearly all of it.
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

/// Sets the generation after an update: increments it if something relevant has changed.
pub(super) fn raise_generation(object: &mut Map, old: &Map, has_changed: bool) {
    let generation = number(metadata(old), "generation").saturating_add(i64::from(has_changed));
    if let Some(metadata) = object_mut(object, "metadata").filter(|_| generation > 0) {
        metadata.insert("generation".to_owned(), Value::from(generation));
    }
}

/// Reads `spec.nodeName` out of a stored object, without reading the rest of it; nothing when it is empty.
pub(super) fn node_name(object: &[u8]) -> Option<Box<str>> {
    #[derive(Deserialize)]
    struct Object<'o> {
        #[serde(borrow)]
        spec: Spec<'o>,
    }
    #[derive(Deserialize)]
    struct Spec<'o> {
        #[serde(borrow, rename = "nodeName", default)]
        node_name: Cow<'o, str>,
    }
    let object: Object<'_> = serde_json::from_slice(object).ok()?;
    let node = object.spec.node_name;
    (!node.is_empty()).then(|| node.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_an_object_is_the_one_that_its_spec_names() {
        let read = |text: &str| node_name(text.as_bytes());
        let pod = r#"{"metadata":{"labels":{"nodeName":"a"}},"spec":{"x":{"nodeName":"b"},"nodeName":"c"},"status":{}}"#;
        assert_eq!(read(pod).as_deref(), Some("c"));
        assert_eq!(read(r#"{"spec":{"nodeName":"a\u002db"}}"#).as_deref(), Some("a-b"));
        for none in [r#"{"spec":{}}"#, r#"{"spec":{"nodeName":""}}"#, "{}", "x", r#"{"spec":{"nodeName":1}}"#]
        {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
