//! The steps of paths to fields, as text in the form of `fieldsV1`: `f:spec` a field, `k:{"name":"a"}` the entry of a
//! list with these keys, `v:"a"` an entry that is a plain value, `i:0` an entry by its place.
//!
//! Equal steps have equal text: keys are in order of their names.

use std::borrow::Cow;
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
            plain => Ok(of_value(plain)),
        },
    }
}

fn keyed<S: Schema>(list: S, entry: &Value) -> Result<Step, NoStep> {
    let entry = match entry {
        Value::Object(entry) => entry,
        Value::Null => return Err(NoStep::Null),
        _ => return Err(NoStep::NotAnObject),
    };
    let mut keys: Vec<(&str, Cow<'_, Value>)> = Vec::with_capacity(3);
    list.keys().for_each(|key| {
        if let Some(value) = key_value(key, entry) {
            keys.push((key.name, value));
        }
    });
    if keys.is_empty() {
        return Err(NoStep::NoKey);
    }
    Ok(of_keys(keys))
}

/// The value of a key in an entry; nothing without a value.
fn key_value<'e>(key: Key<'_>, entry: &'e Map<String, Value>) -> Option<Cow<'e, Value>> {
    if let Some(value) = entry.get(key.name) {
        return Some(Cow::Borrowed(value));
    }
    Some(Cow::Owned(match key.default? {
        KeyDefault::Text(text) => text.into(),
        KeyDefault::Number(number) => number.into(),
        KeyDefault::Bool(bool) => bool.into(),
    }))
}

fn of_keys(mut keys: Vec<(&str, Cow<'_, Value>)>) -> Step {
    keys.sort_unstable_by_key(|(name, _)| *name);
    let mut step = String::with_capacity(48);
    step.push_str("k:{");
    for (at, (name, value)) in keys.iter().enumerate() {
        if at > 0 {
            step.push(',');
        }
        push_text(&mut step, name);
        step.push(':');
        push_json(&mut step, value);
    }
    step.push('}');
    step.into()
}

fn of_value(value: &Value) -> Step {
    let mut step = String::from("v:");
    push_json(&mut step, value);
    step.into()
}

/// Appends JSON as Go writes it.
fn push_json(step: &mut String, value: &Value) {
    match value {
        Value::String(text) => push_text(step, text),
        other => step.push_str(&json(other)),
    }
}

/// Appends text as Go writes it in JSON.
fn push_text(step: &mut String, text: &str) {
    if is_plain(text) {
        step.push('"');
        step.push_str(text);
        step.push('"');
    } else {
        step.push_str(&json(&Value::from(text)));
    }
}

/// Whether this text is in JSON as it is.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&'))
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
        "k" if is_one_plain_key(rest) => text.into(),
        "k" => {
            let keys: Map<String, Value> =
                serde_json::from_str(rest).map_err(|_| "the keys of a path element are no JSON object")?;
            of_keys(keys.iter().map(|(name, value)| (name.as_str(), Cow::Borrowed(value))).collect())
        }
        "v" => {
            let value: Value =
                serde_json::from_str(rest).map_err(|_| "the value of a path element is not JSON")?;
            of_value(&value)
        }
        "i" => {
            let index: i64 = rest.parse().map_err(|_| "the index of a path element is no number")?;
            format!("i:{index}").into()
        }
        kind if kind.len() == 1 => return Ok(None),
        _ => return Err("a path element has no kind of one letter"),
    }))
}

/// Whether this is `{"name":"value"}` as [`of_keys`] writes it, which most keys are.
fn is_one_plain_key(keys: &str) -> bool {
    let inner = keys.strip_prefix(r#"{""#).and_then(|keys| keys.strip_suffix(r#""}"#));
    inner
        .and_then(|keys| keys.split_once(r#"":""#))
        .is_some_and(|(name, value)| is_plain(name) && is_plain(value))
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
