//! Turns JSON into the object that Go's structs would hold and print (AP-11 to AP-14): names that no field has are
//! dropped and reported, equal keys merged as Go merges them, numbers, bytes, quantities and times checked and brought
//! into their one form.
//!
//! Judges the shape of a document alone: whether its `kind` is the right one and its values make sense is for others.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use portcullis_policy::rbac::quote::Quoted;

pub use crate::json::{MAX_DEPTH, MAX_VALUES, SyntaxError};

use crate::Map;
use crate::complete;
use crate::json::{self, Json};
use crate::scalar;
use crate::schema::{Field, Presence, Shape, Type};

/// Problems after this one are not reported any more.
const MAX_PROBLEMS: usize = 100;

/// What a document holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decoded {
    /// The object as Go would print it.
    pub object: Map,
    /// What `fieldValidation` is about (AP-14), each once, in the order of the document.
    pub problems: Vec<Problem>,
}

/// Something in a document that is passed over unless the client asked for strictness (AP-14). Prints as Kubernetes
/// puts it into warnings and causes: `unknown field "spec.foo"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// No field has this name.
    Unknown(String),
    /// A field or key was given before.
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

/// Why a document is not of its type (AP-11).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not one JSON value.
    #[error("the document is not valid JSON: {0}")]
    Syntax(#[from] SyntaxError),
    /// The value nests too deep.
    #[error("the document nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A value is of another JSON type than its field. The path is empty for the document itself.
    #[error("cannot unmarshal {found} into field {path:?} of type {wanted}")]
    Type {
        /// Where.
        path: String,
        /// What was found.
        found: String,
        /// What the field holds.
        wanted: &'static str,
    },
    /// A text is no value of its field.
    #[error("field {path:?}: {reason}")]
    Value {
        /// Where.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Decodes JSON text.
///
/// # Errors
/// The text is not one JSON value, or a value is not of its field's type.
pub fn json(text: &[u8], ty: &'static Type) -> Result<Decoded, DecodeError> {
    document(json::parse(text)?, ty)
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

/// Whether so many levels hold all of a value.
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

/// Reads values into what is set of them; `complete` does the rest.
#[derive(Default)]
struct Reader {
    /// Where the reader is: `spec.containers[0].name`.
    path: String,
    problems: Vec<Problem>,
    seen: HashSet<Problem>,
}

impl Reader {
    /// Reads a value over the one that an equal key gave before. Nothing means that the value is not set.
    fn read(
        &mut self,
        shape: Shape,
        json: Json<'_>,
        old: Option<Value>,
        is_pointer: bool,
    ) -> Result<Option<Value>, DecodeError> {
        if json == Json::Null {
            // Go leaves plain values and structs as they are.
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
        let mut given = HashSet::new();
        for (key, value) in members {
            let Some(field) = ty.field(&key) else {
                self.report(Problem::Unknown, &key);
                continue;
            };
            if given.contains(key.as_ref()) {
                self.report(Problem::Duplicate, &key);
            }
            let (shape, is_pointer) = (field.shape, is_pointer(field));
            let old = object.remove(key.as_ref());
            let read = self.within(&key, |reader| reader.read(shape, value, old, is_pointer))?;
            if let Some(value) = read {
                object.insert(key.as_ref().to_owned(), value);
            }
            given.insert(key);
        }
        Ok(Value::Object(object))
    }

    /// Of equal keys of a map the last counts.
    fn map(
        &mut self,
        shape: Shape,
        members: Vec<(Cow<'_, str>, Json<'_>)>,
        old: Option<Value>,
    ) -> Result<Value, DecodeError> {
        let mut map = members_of(old);
        let mut given = HashSet::new();
        for (key, value) in members {
            if given.contains(key.as_ref()) {
                self.report(Problem::Duplicate, &key);
            }
            let read = self.within(&key, |reader| reader.read(shape, value, None, false))?;
            map.insert(key.as_ref().to_owned(), read.unwrap_or_else(|| unset(shape)));
            given.insert(key);
        }
        Ok(Value::Object(map))
    }

    /// A list that is given twice is read over the first one, entry by entry, as Go does.
    fn list(&mut self, shape: Shape, items: Vec<Json<'_>>, old: Option<Value>) -> Result<Value, DecodeError> {
        let mut old = match old {
            Some(Value::Array(old)) => old.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let length = self.path.len();
            self.path.push_str(&format!("[{index}]"));
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

    /// Go takes the bytes one by one as well.
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

    fn report(&mut self, problem: fn(String) -> Problem, key: &str) {
        if self.problems.len() >= MAX_PROBLEMS {
            return;
        }
        let problem = problem(self.within(key, |reader| reader.path.clone()));
        if self.seen.insert(problem.clone()) {
            self.problems.push(problem);
        }
    }

    /// Does something one member further down.
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

/// Whether Go has a pointer, which `null` takes away.
fn is_pointer(field: &Field) -> bool {
    matches!(field.presence, Presence::OrNull | Presence::WhenSet)
}

fn members_of(old: Option<Value>) -> Map {
    match old {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// What a list entry or map value is that was given as `null` (AP-136). `complete` fills in objects.
fn unset(shape: Shape) -> Value {
    match shape {
        Shape::Object(_) => Value::Object(Map::new()),
        shape => complete::zero(shape),
    }
}

/// What a shape holds, in the words of error messages.
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
