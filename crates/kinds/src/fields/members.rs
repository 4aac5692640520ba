//! Members of an object: reading and writing them by name.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::Map;

/// The empty object, for missing members.
static EMPTY: LazyLock<Map> = LazyLock::new(Map::new);

/// Access to the members of an object.
pub(crate) trait Members {
    /// The string of a member; empty if not set.
    fn text(&self, name: &str) -> &str;
    /// The number of a member; 0 if not set.
    fn number(&self, name: &str) -> i64;
    fn number_if_set(&self, name: &str) -> Option<i64>;
    /// Returns whether a member is `true`.
    fn is_true(&self, name: &str) -> bool;
    fn flag(&self, name: &str) -> Option<bool>;
    /// The object of a member; empty if not set.
    fn object(&self, name: &str) -> &Map;
    fn object_if_set(&self, name: &str) -> Option<&Map>;
    /// The object's metadata.
    fn metadata(&self) -> &Map;
    /// The entries of a list; empty if not set.
    fn list(&self, name: &str) -> &[Value];
    /// The strings of a list.
    fn texts(&self, name: &str) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator + Clone;
    /// The objects of a list.
    fn objects(&self, name: &str) -> impl DoubleEndedIterator<Item = &Map> + ExactSizeIterator + Clone;
    /// Returns whether a member is present and not `null`, like a non-nil pointer in Go.
    fn has(&self, name: &str) -> bool;
    fn object_mut(&mut self, name: &str) -> Option<&mut Map>;
    /// The mutable object of a member, created if missing; `None` if it is something else.
    fn object_or_new(&mut self, name: &str) -> Option<&mut Map>;
    /// The mutable objects of a list.
    fn objects_mut(&mut self, name: &str) -> impl Iterator<Item = &mut Map>;
    /// Sets a string that is missing or empty.
    fn default_text(&mut self, name: &str, text: &str);
    /// Sets a value that is missing or `null`.
    fn default_value(&mut self, name: &str, value: impl Into<Value>);
    /// Sets a number that is missing or zero.
    fn default_number(&mut self, name: &str, number: i64);
    /// Sets a list that is empty or missing to `null`, as it is read back from storage (AP-136).
    fn empty_to_null(&mut self, name: &str);
    /// Appends to a list, created if missing.
    fn push_to(&mut self, name: &str, value: Value);
    /// Copies a member from another object, or removes it if it is missing there.
    fn copy(&mut self, name: &str, from: &Map);
}

impl Members for Map {
    fn text(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, name: &str) -> i64 {
        self.number_if_set(name).unwrap_or_default()
    }

    fn number_if_set(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    fn is_true(&self, name: &str) -> bool {
        self.flag(name).unwrap_or_default()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Value::as_bool)
    }

    fn object(&self, name: &str) -> &Map {
        self.object_if_set(name).unwrap_or_else(|| &EMPTY)
    }

    fn object_if_set(&self, name: &str) -> Option<&Map> {
        self.get(name).and_then(Value::as_object)
    }

    fn metadata(&self) -> &Map {
        self.object("metadata")
    }

    fn list(&self, name: &str) -> &[Value] {
        self.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn texts(&self, name: &str) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator + Clone {
        self.list(name).iter().map(|entry| entry.as_str().unwrap_or_default())
    }

    fn objects(&self, name: &str) -> impl DoubleEndedIterator<Item = &Map> + ExactSizeIterator + Clone {
        self.list(name).iter().map(|entry| entry.as_object().unwrap_or_else(|| &EMPTY))
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.is_null())
    }

    fn object_mut(&mut self, name: &str) -> Option<&mut Map> {
        self.get_mut(name).and_then(Value::as_object_mut)
    }

    fn object_or_new(&mut self, name: &str) -> Option<&mut Map> {
        self.default_value(name, Map::new());
        self.object_mut(name)
    }

    fn objects_mut(&mut self, name: &str) -> impl Iterator<Item = &mut Map> {
        let list = self.get_mut(name).and_then(Value::as_array_mut);
        list.into_iter().flatten().filter_map(Value::as_object_mut)
    }

    fn default_text(&mut self, name: &str, text: &str) {
        if self.text(name).is_empty() {
            self.insert(name.to_owned(), text.into());
        }
    }

    fn default_value(&mut self, name: &str, value: impl Into<Value>) {
        if !self.has(name) {
            self.insert(name.to_owned(), value.into());
        }
    }

    fn default_number(&mut self, name: &str, number: i64) {
        if self.number(name) == 0 {
            self.insert(name.to_owned(), number.into());
        }
    }

    fn empty_to_null(&mut self, name: &str) {
        if self.list(name).is_empty() {
            self.insert(name.to_owned(), Value::Null);
        }
    }

    fn push_to(&mut self, name: &str, value: Value) {
        self.default_value(name, Vec::<Value>::new());
        if let Some(list) = self.get_mut(name).and_then(Value::as_array_mut) {
            list.push(value);
        }
    }

    fn copy(&mut self, name: &str, from: &Map) {
        match from.get(name) {
            Some(value) => self.insert(name.to_owned(), value.clone()),
            None => self.remove(name),
        };
    }
}

/// Restores the metadata that a status update of some kinds cannot change, which is nearly all of it.
pub(crate) fn keep_metadata(object: &mut Map, old: &Map) {
    const KEPT: [&str; 7] = [
        "annotations",
        "deletionTimestamp",
        "finalizers",
        "generation",
        "labels",
        "ownerReferences",
        "selfLink",
    ];
    if let Some(new) = object.object_or_new("metadata") {
        KEPT.into_iter().for_each(|name| new.copy(name, old.metadata()));
    }
}

/// Sets the generation of a new object.
pub(crate) fn begin_generation(object: &mut Map) {
    if let Some(metadata) = object.object_or_new("metadata") {
        metadata.insert("generation".to_owned(), Value::from(1));
    }
}

/// Sets the generation after an update: increments it if something relevant has changed.
pub(crate) fn raise_generation(object: &mut Map, old: &Map, has_changed: bool) {
    let generation = old.metadata().number("generation").saturating_add(i64::from(has_changed));
    if let Some(metadata) = object.object_or_new("metadata").filter(|_| generation > 0) {
        metadata.insert("generation".to_owned(), Value::from(generation));
    }
}

/// Reads `spec.nodeName` out of a stored object, without reading the rest of it; nothing when it is empty.
pub(crate) fn node_name(object: &[u8]) -> Option<Box<str>> {
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
    let object: Object<'_> = serde_json::from_str(str::from_utf8(object).ok()?).ok()?;
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
