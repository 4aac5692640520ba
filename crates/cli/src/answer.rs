//! The forms of lines that `review` answers: how each is read, answered, and compared with an answer it already holds.

mod access;
mod admission;
mod attributes;
mod covers;
mod rules;

use std::fmt::Display;

use portcullis_policy::json::JsonError;
use portcullis_policy::objects::strict;
use serde::Deserialize;
use serde_json::Value;

use crate::lines::in_line;

pub use access::{AccessAndAdmission, access};
pub use attributes::{KubeletAttributes, RequestInfos};
pub use covers::Covers;
pub use rules::Rules;

/// Whether a line must hold an answer to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsing {
    /// The question is enough.
    Question,
    /// The answer must be there too.
    WithAnswer,
}

/// One form of lines.
pub trait Answering {
    /// A line that has been read.
    type Question<'l>;

    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it, and in which field.
    fn parse<'l>(&self, line: &'l str, parsing: Parsing) -> Result<Self::Question<'l>, String>;

    /// The completed line.
    fn answer(&self, question: &Self::Question<'_>) -> String;

    /// How the answer in the line differs from ours; nothing when it does not.
    fn difference(&self, question: &Self::Question<'_>) -> Option<String>;
}

/// `recorded … answered …`, unless both are the same.
fn unless_equal<T: PartialEq + Display>(what: &str, recorded: T, answered: T) -> Option<String> {
    (recorded != answered).then(|| format!("{what}: recorded {recorded}, answered {answered}"))
}

/// Reads a line as a JSON object; it has been checked already, so this does not fail on what was.
///
/// # Errors
/// It is another JSON value.
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

/// Reads a line as a type with fields; the error names the field.
fn decoded<'l, T: Deserialize<'l>>(line: &'l str) -> Result<T, String> {
    if !line.trim_ascii_start().starts_with('{') {
        object(line)?;
    }
    strict::from_str(line).map_err(|error| in_line(&JsonError::of_decoding(line, &error)))
}

/// A text field that must be there.
fn text<'v>(value: &'v Value, field: &str) -> Result<&'v str, String> {
    match value.get(field) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{field}: expected a string")),
        None => Err(format!("{field}: is missing: every line has one")),
    }
}
