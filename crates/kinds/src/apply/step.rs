//! The steps of paths to fields, as text in the form of `fieldsV1`: `f:spec` a field, `k:{"name":"a"}` the entry of a
//! list with these keys, `v:"a"` an entry that is a plain value, `i:0` an entry by its place.
//!
//! Equal steps have equal text: keys are in order of their names.

use std::fmt::Write as _;

use portcullis_apimachinery::quote::Quoted;
use serde_json::{Map, Value};

use super::schema::{Key, KeyDefault, Schema, Structure};

/// A step; see the module.
pub(crate) type Step = Box<str>;

/// An entry of a list that has no step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoStep {
    #[error("associative list with keys may not have a null element")]
    Null,
    #[error("associative list with keys may not have non-map elements")]
    NotAnObject,
    #[error("associative list with keys has an element that omits all of its keys")]
    NoKey,
    #[error("associative list without keys has an element that is not a plain value")]
    NotPlain,
}

/// The step to a field.
pub(crate) fn field(name: &str) -> Step {
    let mut step = String::with_capacity(name.len().saturating_add(2));
    step.push_str("f:");
    step.push_str(name);
    step.into()
}

/// The name of the field that a step leads to.
pub(crate) fn name(step: &str) -> Option<&str> {
    step.strip_prefix("f:")
}

/// The step to an entry of a list with this schema.
///
/// # Errors
/// The entry cannot be told from others.
pub(crate) fn entry<S: Schema>(list: S, entry: &Value) -> Result<Step, NoStep> {
    match list.structure() {
        Structure::KeyedList => keyed(list, entry),
        _ => match entry {
            Value::Null | Value::Array(_) | Value::Object(_) => Err(NoStep::NotPlain),
            plain => Ok(format!("v:{}", json(plain)).into()),
        },
    }
}

fn keyed<S: Schema>(list: S, entry: &Value) -> Result<Step, NoStep> {
    let entry = match entry {
        Value::Object(entry) => entry,
        Value::Null => return Err(NoStep::Null),
        _ => return Err(NoStep::NotAnObject),
    };
    let mut keys: Vec<(&str, String)> = Vec::with_capacity(3);
    list.keys().for_each(|key| {
        if let Some(value) = key_text(key, entry) {
            keys.push((key.name, value));
        }
    });
    if keys.is_empty() {
        return Err(NoStep::NoKey);
    }
    keys.sort_unstable();
    Ok(of_keys(keys.iter().map(|(name, value)| (*name, value.as_str()))))
}

/// The value of a key in an entry, as JSON; nothing without a value.
fn key_text(key: Key<'_>, entry: &Map<String, Value>) -> Option<String> {
    if let Some(value) = entry.get(key.name) {
        return Some(json(value));
    }
    Some(match key.default? {
        KeyDefault::Text(text) => json(&Value::from(text)),
        KeyDefault::Number(number) => number.to_string(),
        KeyDefault::Bool(bool) => bool.to_string(),
    })
}

fn of_keys<'k>(keys: impl Iterator<Item = (&'k str, &'k str)>) -> Step {
    let mut step = String::from("k:{");
    for (name, value) in keys {
        if step.len() > "k:{".len() {
            step.push(',');
        }
        step.push_str(&json(&Value::from(name)));
        step.push(':');
        step.push_str(value);
    }
    step.push('}');
    step.into()
}

/// JSON as Go writes it.
fn json(value: &Value) -> String {
    let whole =
        value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0 && number.abs() < 9e15);
    let text = match whole {
        // 80.0 is 80. A whole number below 9e15 has an exact integer.
        Some(number) => (number as i64).to_string(),
        None => value.to_string(),
    };
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len().saturating_add(16));
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "\\u{:04x}", u32::from(character));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// Reads a step of a `fieldsV1` of others. Nothing for one of a kind that is not known, which is ignored.
///
/// # Errors
/// It is no step.
pub(crate) fn parse(text: &str) -> Result<Option<Step>, &'static str> {
    let (kind, rest) = text.split_once(':').ok_or("a path element has no colon")?;
    Ok(Some(match kind {
        "f" => text.into(),
        "k" => {
            let keys: Map<String, Value> =
                serde_json::from_str(rest).map_err(|_| "the keys of a path element are no JSON object")?;
            // The map is in no certain order.
            let mut keys: Vec<(&str, String)> =
                keys.iter().map(|(name, value)| (name.as_str(), json(value))).collect();
            keys.sort_unstable();
            of_keys(keys.iter().map(|(name, value)| (*name, value.as_str())))
        }
        "v" => {
            let value: Value =
                serde_json::from_str(rest).map_err(|_| "the value of a path element is not JSON")?;
            format!("v:{}", json(&value)).into()
        }
        "i" => {
            let index: i64 = rest.parse().map_err(|_| "the index of a path element is no number")?;
            format!("i:{index}").into()
        }
        kind if kind.len() == 1 => return Ok(None),
        _ => return Err("a path element has no kind of one letter"),
    }))
}

/// Appends a step to a path in the form for people: `.spec`, `[name="a"]`, `[="a"]`, `[0]`.
pub(crate) fn show(step: &str, path: &mut String) {
    let (kind, rest) = step.split_once(':').unwrap_or(("f", step));
    match kind {
        "k" => {
            path.push('[');
            let keys: Map<String, Value> = serde_json::from_str(rest).unwrap_or_default();
            let mut keys: Vec<(&String, &Value)> = keys.iter().collect();
            keys.sort_unstable_by_key(|(name, _)| *name);
            for (at, (name, value)) in keys.into_iter().enumerate() {
                if at > 0 {
                    path.push(',');
                }
                path.push_str(name);
                path.push('=');
                show_value(value, path);
            }
            path.push(']');
        }
        "v" => {
            path.push_str("[=");
            show_value(&serde_json::from_str(rest).unwrap_or_default(), path);
            path.push(']');
        }
        "i" => {
            path.push('[');
            path.push_str(rest);
            path.push(']');
        }
        _ => {
            path.push('.');
            path.push_str(rest);
        }
    }
}

fn show_value(value: &Value, path: &mut String) {
    // Writing to a String cannot fail.
    let _ = match value {
        Value::String(text) => write!(path, "{}", Quoted(text)),
        other => write!(path, "{other}"),
    };
}
