//! Decodes JSON into the object that Go's structs would represent and print (AP-11 to AP-14): unknown fields are
//! dropped and reported, duplicate keys are merged as in Go, and numbers, bytes, quantities and times are validated and
//! normalized.
//!
//! Only the schema of a document is checked, not whether its `kind` is the expected one or its values are valid.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt::{self, Write as _};

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError as BadBase64, Engine as _};
use portcullis_apimachinery::json::MAX_DEPTH;
use serde_json::Value;

use portcullis_apimachinery::quote::Quoted;

pub use crate::json::{MAX_VALUES, SyntaxError};

use crate::Map;
use crate::complete;
use crate::json::{self, Json};
use crate::scalar;
use crate::schema::{Field, Presence, REST, Shape, Type};

/// The maximum number of problems that are reported.
const MAX_PROBLEMS: usize = 100;
/// The maximum size of the path of a problem in bytes. A path contains the keys of maps, which may be as long as a body;
/// no answer shows as much as this of one.
const MAX_PATH: usize = 8 * 1024;

/// Decodes a base64 field; empty if it is not set.
///
/// # Errors
/// The field is not base64. This cannot happen for decoded objects.
pub fn bytes(object: &Map, part: &str, field: &str) -> Result<Vec<u8>, BadBase64> {
    let text = object.get(part).and_then(|part| part.get(field)).and_then(Value::as_str);
    STANDARD.decode(text.unwrap_or_default())
}

/// A decoded document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The object, as Go would print it.
    pub object: Map,
    /// The problems that `fieldValidation` reports (AP-14), each once, in the order of the document.
    pub problems: Vec<Problem>,
}

/// A problem that is ignored unless the client requested strict validation (AP-14). Prints in the format of Kubernetes'
/// warnings and causes: `unknown field "spec.foo"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// An unknown field.
    Unknown(String),
    /// A duplicate field or key.
    Duplicate(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "unknown field {}", Quoted(path)),
            Self::Duplicate(path) => write!(f, "duplicate field {}", Quoted(path)),
        }
    }
}

/// An error of decoding a document into its type (AP-11).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not one JSON value.
    #[error("the document is not valid JSON: {0}")]
    Syntax(#[from] SyntaxError),
    /// The value is nested too deeply.
    #[error("the document nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A value has another JSON type than its field. The path is empty for the document itself.
    #[error("cannot unmarshal {found} into field {path:?} of type {wanted}")]
    Type {
        /// The field path.
        path: String,
        /// The JSON type found.
        found: String,
        /// The expected type.
        wanted: &'static str,
    },
    /// A string is not a valid value of its field.
    #[error("field {path:?}: {reason}")]
    Value {
        /// The field path.
        path: String,
        /// A description of the error.
        reason: String,
    },
}

/// Decodes JSON text.
///
/// # Errors
/// The text is not one JSON value, or a value does not have its field's type.
pub fn json(text: &[u8], ty: &'static Type) -> Result<Decoded, DecodeError> {
    Document::parse(text)?.decode(ty)
}

/// JSON text that was parsed once, of a type that it names itself.
#[derive(Debug)]
pub struct Document<'a>(Json<'a>);

impl<'a> Document<'a> {
    /// Parses JSON text.
    ///
    /// # Errors
    /// The text is not one JSON value.
    pub fn parse(text: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self(json::parse(text)?))
    }

    /// A member of the outermost object that is text, such as `kind`. Empty if it is missing.
    ///
    /// # Errors
    /// The document is no object, the member is no text, or it is there twice.
    pub fn text(&self, name: &str) -> Result<&str, DecodeError> {
        let wrong = |path: &str, json: &Json<'_>, wanted| {
            let (path, found) = (path.to_owned(), json.kind().to_owned());
            DecodeError::Type { path, found, wanted }
        };
        let Json::Object(members) = &self.0 else { return Err(wrong("", &self.0, "object")) };
        let mut found = members.iter().filter(|(member, _)| member == name);
        match (found.next(), found.next()) {
            (None, _) => Ok(""),
            (Some((_, Json::Text(text))), None) => Ok(text),
            (Some((_, other)), None) => Err(wrong(name, other, "string")),
            (Some(_), Some(_)) => {
                Err(DecodeError::Value { path: name.to_owned(), reason: "duplicate field".to_owned() })
            }
        }
    }

    /// Converts to an untyped value that every JSON and YAML parser agrees on; `None` if a key occurs twice, or a number is `-0`
    /// or no integer of 64 bits.
    pub fn untyped(self) -> Option<Value> {
        self.0.into_exact_value()
    }

    /// Decodes it into a type.
    ///
    /// # Errors
    /// A value does not have its field's type.
    pub fn decode(self, ty: &'static Type) -> Result<Decoded, DecodeError> {
        document(self.0, ty)
    }
}

/// Decodes a JSON value.
///
/// # Errors
/// As [`json`].
pub fn value(value: Value, ty: &'static Type) -> Result<Decoded, DecodeError> {
    if !is_shallow(&value, MAX_DEPTH) {
        return Err(DecodeError::TooDeep);
    }
    document(value.into(), ty)
}

/// Returns whether a value has at most this many levels.
fn is_shallow(value: &Value, levels: usize) -> bool {
    let is_inner_shallow = |value| levels > 0 && is_shallow(value, levels.saturating_sub(1));
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(is_inner_shallow),
        Value::Object(members) => levels > 0 && members.values().all(is_inner_shallow),
        _ => true,
    }
}

fn document(document: Json<'_>, ty: &'static Type) -> Result<Decoded, DecodeError> {
    let mut reader = Reader::default();
    let read = reader.read(Shape::Object(ty), document, None, false)?;
    let mut object = match read {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    };
    complete::object(&mut object, ty);
    Ok(Decoded { object, problems: reader.problems })
}

/// Decodes the fields that are set; `complete` adds the rest.
#[derive(Default)]
struct Reader {
    /// The current field path: `spec.containers[0].name`.
    path: String,
    problems: Vec<Problem>,
    seen: HashSet<Problem>,
}

impl Reader {
    /// Decodes a value over that of an earlier duplicate key. `None` means that the value is not set.
    fn read(
        &mut self,
        shape: Shape,
        json: Json<'_>,
        old: Option<Value>,
        is_pointer: bool,
    ) -> Result<Option<Value>, DecodeError> {
        if json == Json::Null {
            // Go keeps plain values and structs unchanged.
            let is_kept =
                matches!(shape, Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Object(_) | Shape::Text);
            return Ok(old.filter(|_| is_kept && !is_pointer));
        }
        let value = match (shape, json) {
            (Shape::Object(ty), Json::Object(members)) => self.object(ty, members, old)?,
            (Shape::List(shape), Json::List(items)) => self.list(*shape, items, old)?,
            (Shape::Map(shape), Json::Object(members)) => self.map(*shape, members, old)?,
            (Shape::Bool, Json::Bool(bool)) => bool.into(),
            (Shape::Text, Json::Text(text)) => text.into_owned().into(),
            (Shape::Int32, Json::Number(digits)) => self.integer::<i32>(&digits, "int32")?,
            (Shape::Int64, Json::Number(digits)) => self.integer::<i64>(&digits, "int64")?,
            (Shape::IntOrString, Json::Text(text)) => text.into_owned().into(),
            (Shape::IntOrString, Json::Number(digits)) => self.integer::<i32>(&digits, "int32")?,
            (Shape::Bytes, Json::Text(text)) => self.checked(scalar::rebase64(&text))?,
            (Shape::Bytes, Json::List(items)) => self.bytes(items)?,
            (Shape::Quantity, Json::Text(text) | Json::Number(text)) => {
                self.checked(scalar::quantity(&text))?
            }
            (Shape::Time, Json::Text(text)) => self.checked(scalar::time(&text))?,
            (Shape::MicroTime, Json::Text(text)) => self.checked(scalar::micro_time(&text))?,
            (Shape::Any, json) => {
                let too_large = || "a number is too large".to_owned();
                self.checked(json.into_value().ok_or_else(too_large))?
            }
            (shape, json) => return Err(self.mismatch(json.kind(), wanted(shape))),
        };
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    fn object(
        &mut self,
        ty: &'static Type,
        members: Vec<(Cow<'_, str>, Json<'_>)>,
        old: Option<Value>,
    ) -> Result<Value, DecodeError> {
        let mut object = members_of(old);
        let mut given = Given::default();
        for (key, value) in members {
            let Some(field) = ty.field(&key) else {
                self.report(Problem::Unknown, &key);
                continue;
            };
            if !given.insert(field, &key) {
                self.report(Problem::Duplicate, &key);
            }
            let (shape, is_pointer) = (field.shape, is_pointer(field));
            if field.name == REST {
                self.within(&key, |reader| reader.report_duplicates(&value));
            }
            let old = object.remove(key.as_ref());
            let read = self.within(&key, |reader| reader.read(shape, value, old, is_pointer))?;
            if let Some(value) = read {
                object.insert(key.into_owned(), value);
            }
        }
        Ok(Value::Object(object))
    }

    /// The last of several equal map keys wins.
    fn map(
        &mut self,
        shape: Shape,
        members: Vec<(Cow<'_, str>, Json<'_>)>,
        old: Option<Value>,
    ) -> Result<Value, DecodeError> {
        let mut map = members_of(old);
        // What an earlier duplicate of the whole map has set can be given once more. Its keys are not gone through: there can be
        // many such duplicates.
        let is_first = map.is_empty();
        let mut given = BTreeSet::new();
        for (key, value) in members {
            let is_repeated =
                if is_first { map.contains_key(key.as_ref()) } else { !given.insert(key.clone()) };
            if is_repeated {
                self.report(Problem::Duplicate, &key);
            }
            let read = self.within(&key, |reader| reader.read(shape, value, None, false))?;
            map.insert(key.into_owned(), read.unwrap_or_else(|| unset(shape)));
        }
        Ok(Value::Object(map))
    }

    /// A duplicate list is decoded over the first one, entry by entry, as in Go.
    fn list(&mut self, shape: Shape, items: Vec<Json<'_>>, old: Option<Value>) -> Result<Value, DecodeError> {
        let mut old = match old {
            Some(Value::Array(old)) => old.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let length = self.path.len();
            self.push_index(index);
            let read = self.read(shape, item, old.next(), false)?;
            self.path.truncate(length);
            list.push(read.unwrap_or_else(|| unset(shape)));
        }
        Ok(Value::Array(list))
    }

    fn integer<T: std::str::FromStr>(&self, digits: &str, wanted: &'static str) -> Result<Value, DecodeError>
    where
        Value: From<T>,
    {
        let number = digits.parse::<T>();
        number.map(Value::from).map_err(|_| self.mismatch(&format!("number {digits}"), wanted))
    }

    /// Go also accepts a list of single bytes.
    fn bytes(&self, items: Vec<Json<'_>>) -> Result<Value, DecodeError> {
        let mut bytes = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Json::Null => bytes.push(0),
                Json::Number(digits) => {
                    let byte = digits.parse::<u8>();
                    bytes.push(byte.map_err(|_| self.mismatch(&format!("number {digits}"), "uint8"))?);
                }
                other => return Err(self.mismatch(other.kind(), "uint8")),
            }
        }
        Ok(scalar::base64(&bytes))
    }

    fn checked(&self, value: Result<Value, String>) -> Result<Value, DecodeError> {
        value.map_err(|reason| DecodeError::Value { path: self.path.clone(), reason })
    }

    fn mismatch(&self, found: &str, wanted: &'static str) -> DecodeError {
        DecodeError::Type { path: self.path.clone(), found: found.to_owned(), wanted }
    }

    /// Reports the members that are there twice in a value that is kept as it is.
    fn report_duplicates(&mut self, json: &Json<'_>) {
        match json {
            Json::Object(members) => {
                let mut given = BTreeSet::new();
                for (key, value) in members {
                    if !given.insert(key.as_ref()) {
                        self.report(Problem::Duplicate, key);
                    }
                    self.within(key, |reader| reader.report_duplicates(value));
                }
            }
            Json::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let length = self.path.len();
                    self.push_index(index);
                    self.report_duplicates(item);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, problem: fn(String) -> Problem, key: &str) {
        if self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        let shown =
            |path: &str| path.get(..path.floor_char_boundary(MAX_PATH)).unwrap_or_default().to_owned();
        let problem = problem(self.within(key, |reader| shown(&reader.path)));
        if self.seen.insert(problem.clone()) {
            self.problems.push(problem);
        }
    }

    fn push_index(&mut self, index: usize) {
        // Writing to a string does not fail.
        let _ = write!(self.path, "[{index}]");
    }

    /// Runs a function with a member appended to the path.
    fn within<T>(&mut self, key: &str, act: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        let done = act(self);
        self.path.truncate(length);
        done
    }
}

/// The members of an object that were given.
#[derive(Default)]
struct Given {
    /// The declared fields, of which a type has few: comparing takes less time than hashing.
    fields: Vec<&'static Field>,
    /// The other members.
    others: BTreeSet<String>,
}

impl Given {
    /// Adds a member. False if it was there.
    fn insert(&mut self, field: &'static Field, key: &str) -> bool {
        if field.name == REST {
            return self.others.insert(key.to_owned());
        }
        let is_new = !self.fields.iter().any(|given| std::ptr::eq(*given, field));
        if is_new {
            self.fields.push(field);
        }
        is_new
    }
}

/// Returns whether the field is a pointer in Go, which `null` clears.
fn is_pointer(field: &Field) -> bool {
    matches!(field.presence, Presence::OrNull | Presence::WhenSet)
}

fn members_of(old: Option<Value>) -> Map {
    match old {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// The value of a list entry or map value that was given as `null` (AP-136). `complete` fills in objects.
fn unset(shape: Shape) -> Value {
    match shape {
        Shape::Object(_) => Value::Object(Map::new()),
        shape => complete::zero(shape),
    }
}

/// The name of a shape in error messages.
fn wanted(shape: Shape) -> &'static str {
    match shape {
        Shape::Any => "any",
        Shape::Bool => "bool",
        Shape::Bytes => "bytes",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::IntOrString => "int32 or string",
        Shape::List(_) => "list",
        Shape::Map(_) => "map",
        Shape::MicroTime | Shape::Time => "time",
        Shape::Object(ty) => ty.name,
        Shape::Quantity => "quantity",
        Shape::Text => "string",
    }
}
