//! Cells that many tables share (AP-91, AP-92).

use serde_json::Value;

use super::fields::{metadata, text};
use crate::Map;
use crate::table::Column;
use crate::time;

/// The first column of most tables.
pub(super) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    description: "What the object is called.",
    priority: 0,
};
/// How long there has been the object.
pub(super) const AGE: Column = text_column("Age", "How long ago the object was created.");

/// A column of texts that is always shown.
pub(super) const fn text_column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A column of texts that `-o wide` shows.
pub(super) const fn wide_column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 1 }
}

/// The name of the object.
pub(super) fn name(object: &Map) -> Value {
    Value::from(text(metadata(object), "name"))
}

/// The age of the object at a time in seconds since 1970.
pub(super) fn age(object: &Map, now: i64) -> Value {
    Value::from(time::age(metadata(object).get("creationTimestamp").and_then(Value::as_str), now))
}
