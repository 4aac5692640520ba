//! The columns that `kubectl get` shows of a custom kind.

use portcullis_apimachinery::time::Instant;
use serde_json::{Value, json};

use super::json_path::JsonPath;
use crate::Map;
use crate::fields::Members;
use crate::table::{self, Row};

/// The columns after the name; those that every kind has if the definition says nothing.
#[derive(Debug)]
pub struct Columns {
    columns: Box<[Column]>,
}

#[derive(Debug)]
struct Column {
    path: JsonPath,
    kind: Kind,
    /// As documents show it.
    shown: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Boolean,
    Date,
    Integer,
    Number,
    String,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "boolean" => Self::Boolean,
            "date" => Self::Date,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" => Self::String,
            _ => return None,
        })
    }
}

/// A description that only the server knows.
const AGE: &str = "How long ago the object was created.";

impl Columns {
    /// Reads the columns of a validated definition.
    pub(super) fn read(columns: &[Value]) -> Self {
        let age = [
            json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": AGE}),
        ];
        let columns = if columns.is_empty() { &age } else { columns };
        Self { columns: columns.iter().filter_map(Value::as_object).filter_map(Column::read).collect() }
    }

    /// The columns, as tables begin with them.
    pub(super) fn shown(&self) -> Vec<Value> {
        let name = json!({"name": "Name", "type": "string", "format": "name", "priority": 0,
            "description": "What the object is called."});
        let others =
            self.columns.iter().map(|column| serde_json::from_str(&column.shown).unwrap_or_default());
        std::iter::once(name).chain(others).collect()
    }

    /// The row of an object, at a time in seconds since 1970.
    pub(super) fn row(&self, object: &Map, now: i64) -> Row {
        let name = Value::from(object.metadata().text("name"));
        let cells = self.columns.iter().map(|column| column.cell(object, now));
        Row::of(std::iter::once(name).chain(cells).collect())
    }
}

impl Column {
    fn read(column: &Map) -> Option<Self> {
        let path = column.text("jsonPath");
        let description = match column.text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            text => text.to_owned(),
        };
        let shown = json!({
            "name": column.text("name"),
            "type": column.text("type"),
            "format": column.text("format"),
            "description": description,
            "priority": column.number("priority"),
        });
        Some(Self {
            path: JsonPath::parse(path).ok()?,
            kind: Kind::named(column.text("type"))?,
            shown: shown.to_string().into(),
        })
    }

    fn cell(&self, object: &Map, now: i64) -> Value {
        let Some(value) = self.path.first(object) else { return Value::Null };
        match (self.kind, value) {
            (Kind::String, Value::String(_) | Value::Null) => value.clone(),
            (Kind::String, other) => other.to_string().into(),
            (Kind::Boolean, Value::Bool(_)) | (Kind::Number, Value::Number(_)) => value.clone(),
            (Kind::Integer, Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => whole.into(),
                (None, Some(value)) => {
                    format!("{:.0}", value.trunc()).parse::<i64>().map_or(Value::Null, Value::from)
                }
                (None, None) => Value::Null,
            },
            (Kind::Date, Value::String(text)) if Instant::parse(text).is_ok() => {
                table::age(Some(text), now).into()
            }
            (Kind::Date, Value::String(_)) => "<invalid>".into(),
            _ => Value::Null,
        }
    }
}
