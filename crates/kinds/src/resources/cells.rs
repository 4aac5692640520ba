//! Table cells used by many kinds (AP-91, AP-92).

use serde_json::Value;

use crate::Map;
use crate::fields::Members;
use crate::table::{self, Column};

/// The first column of most tables.
pub(super) const NAME: Column =
    Column { format: "name", ..text_column("Name", "What the object is called.") };
/// The age of the object.
pub(super) const AGE: Column = text_column("Age", "How long ago the object was created.");

/// A text column that is always shown.
pub(super) const fn text_column(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A column of whole numbers that is always shown.
pub(super) const fn integer_column(name: &'static str, description: &'static str) -> Column {
    Column { kind: "integer", ..text_column(name, description) }
}

/// A column of flags that is always shown.
pub(super) const fn boolean_column(name: &'static str, description: &'static str) -> Column {
    Column { kind: "boolean", ..text_column(name, description) }
}

/// A text column that `-o wide` shows.
pub(super) const fn wide_column(name: &'static str, description: &'static str) -> Column {
    Column { priority: 1, ..text_column(name, description) }
}

/// The name of the object.
pub(super) fn name(object: &Map) -> Value {
    Value::from(object.metadata().text("name"))
}

/// The age of the object at a time in seconds since 1970.
pub(super) fn age(object: &Map, now: i64) -> Value {
    Value::from(table::age(object.metadata().get("creationTimestamp").and_then(Value::as_str), now))
}
