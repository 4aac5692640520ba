//! The values of expressions, of JSON values and their schema.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kinds::Map;
use kinds::custom::{Format, JsonType, Schema};
use kube_cel::cel::Value;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::parser::Parser;
use portcullis_apimachinery::cel;
use serde_json::Value as Json;

use crate::match_conditions::context::convert_with;

/// Converts values, and measures them.
#[derive(Debug, Default)]
pub(super) struct Converted {
    /// The length of the longest list, map or text.
    pub(super) longest: usize,
    /// About the size as text, in bytes.
    pub(super) bytes: usize,
    /// The length of the longest text.
    pub(super) longest_text: usize,
}

impl Converted {
    /// The value of a JSON value.
    pub(super) fn value(&mut self, json: &Json, schema: &Schema) -> Value {
        self.bytes = self.bytes.saturating_add(1);
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (schema.kind, number.as_i64(), number.as_f64()) {
                (Some(JsonType::Number), _, Some(value)) => Value::Float(value),
                (_, Some(whole), _) => Value::Int(whole),
                (_, None, Some(value)) if value == value.trunc() => {
                    format!("{value:.0}").parse().map_or(Value::Float(value), Value::Int)
                }
                (_, None, value) => Value::Float(value.unwrap_or(f64::NAN)),
            },
            Json::String(text) => self.text(text, schema),
            Json::Array(entries) => {
                self.longest = self.longest.max(entries.len());
                let items = schema.items.as_deref();
                let entries = entries.iter().filter_map(|entry| Some(self.value(entry, items?)));
                Value::List(Arc::new(entries.collect()))
            }
            Json::Object(object) => self.object(object, schema, false),
        }
    }

    /// The value of an object. `is_root`: it is an API object.
    pub(super) fn object(&mut self, object: &Map, schema: &Schema, is_root: bool) -> Value {
        let mut fields: HashMap<String, Value> = HashMap::with_capacity(object.len());
        if let Some(values) = schema.additional() {
            self.longest = self.longest.max(object.len());
            for (name, value) in object {
                self.bytes = self.bytes.saturating_add(name.len());
                fields.insert(name.clone(), self.value(value, values));
            }
            return Value::Map(fields.into());
        }
        for (name, value) in object {
            // What is not nullable is never null, and what is counts as absent.
            let Some(property) = schema.property(name).filter(|_| !value.is_null()) else { continue };
            if let Some(name) = cel::escaped(name) {
                self.bytes = self.bytes.saturating_add(name.len());
                fields.insert(name.into_owned(), self.value(value, property));
            }
        }
        if is_root || schema.is_embedded {
            self.common(object, &mut fields);
        }
        Value::Map(fields.into())
    }

    /// The members that all API objects have.
    fn common(&mut self, object: &Map, fields: &mut HashMap<String, Value>) {
        let text = |value: Option<&Json>| {
            let text = value.and_then(Json::as_str).unwrap_or_default();
            Value::String(Arc::new(text.to_owned()))
        };
        for name in ["apiVersion", "kind"] {
            fields.insert(name.to_owned(), text(object.get(name)));
        }
        let metadata = object.get("metadata").and_then(Json::as_object);
        let names = ["name", "generateName"].into_iter().filter_map(|name| {
            let value =
                metadata?.get(name).filter(|value| value.as_str().is_some_and(|text| !text.is_empty()))?;
            Some((name.to_owned(), text(Some(value))))
        });
        let names: HashMap<String, Value> = names.collect();
        self.bytes = self.bytes.saturating_add(512);
        fields.insert("metadata".to_owned(), Value::Map(names.into()));
    }

    fn text(&mut self, text: &str, schema: &Schema) -> Value {
        static TIMESTAMP: LazyLock<Option<IdedExpr>> =
            LazyLock::new(|| Parser::new().parse("timestamp(self)").ok());
        static DURATION: LazyLock<Option<IdedExpr>> =
            LazyLock::new(|| Parser::new().parse("duration(self)").ok());
        self.bytes = self.bytes.saturating_add(text.len());
        self.longest_text = self.longest_text.max(text.len());
        // No text is taken for a type.
        let text = if text.starts_with('\0') { format!("\u{fffd}{text}") } else { text.to_owned() };
        let whole = |text: &str| Value::String(Arc::new(text.to_owned()));
        let by = |expression: &Option<IdedExpr>, text: &str| {
            expression
                .as_ref()
                .and_then(|expression| convert_with(expression, whole(text)))
                .unwrap_or_else(|| whole(text))
        };
        if schema.is_int_or_string {
            return whole(&text);
        }
        match schema.limits().format {
            Some(Format::Byte) => match BASE64.decode(&text) {
                Ok(bytes) => Value::Bytes(Arc::new(bytes)),
                Err(_) => whole(&text),
            },
            Some(Format::Date) => by(&TIMESTAMP, &format!("{text}T00:00:00Z")),
            Some(Format::DateTime) => by(&TIMESTAMP, &text),
            Some(Format::Duration) => by(&DURATION, &text),
            _ => whole(&text),
        }
    }
}
