//! The formats of lines that `review` answers: how each is parsed, answered, and compared with a recorded answer.

mod access;
mod admission;
mod attributes;
mod covers;
mod rules;

use std::fmt::Display;

use portcullis_apimachinery::json::JsonError;
use portcullis_policy::objects::strict;
use serde::Deserialize;
use serde_json::Value;

use crate::lines::in_line;

pub use access::{AccessAndAdmission, access};
pub use attributes::{KubeletAttributes, RequestInfos};
pub use covers::Covers;
pub use rules::Rules;

/// Whether a line must contain a recorded answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsing {
    /// The question is sufficient.
    Question,
    /// The recorded answer is required.
    WithAnswer,
}

/// A format of lines.
pub trait Answering {
    /// A parsed line.
    type Question<'l>;

    /// Parses a line.
    ///
    /// # Errors
    /// A description of the error, with the field.
    fn parse<'l>(&self, line: &'l str, parsing: Parsing) -> Result<Self::Question<'l>, String>;

    /// Returns the line with its answer.
    fn answer(&self, question: &Self::Question<'_>) -> String;

    /// Returns how the recorded answer differs from ours; none if it does not.
    fn difference(&self, question: &Self::Question<'_>) -> Option<String>;
}

/// Returns `recorded … answered …`, unless both are equal.
fn unless_equal<T: PartialEq + Display>(what: &str, recorded: T, answered: T) -> Option<String> {
    (recorded != answered).then(|| format!("{what}: recorded {recorded}, answered {answered}"))
}

/// Parses a line as a JSON object. The syntax was checked before.
///
/// # Errors
/// The line is another JSON value.
pub fn object(line: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let found = match &value {
        Value::Object(_) => return Ok(value),
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
    };
    Err(format!("expected a JSON object, found {found}"))
}

/// Parses a line as a type with fields; the error names the field.
fn decoded<'l, T: Deserialize<'l>>(line: &'l str) -> Result<T, String> {
    if !line.trim_ascii_start().starts_with('{') {
        object(line)?;
    }
    strict::from_str(line).map_err(|error| in_line(&JsonError::of_decoding(line, &error)))
}

/// Returns a required text field.
fn text<'v>(value: &'v Value, field: &str) -> Result<&'v str, String> {
    match value.get(field) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{field}: expected a string")),
        None => Err(format!("{field}: is missing: every line has one")),
    }
}
