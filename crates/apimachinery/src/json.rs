//! Strict validation of untrusted JSON, before any decision uses it.
//!
//! Decoding into views ignores unknown fields, and handles duplicate keys differently in different places, so two
//! readers of one text could see two different objects. This check runs first. It rejects ambiguous JSON (duplicate
//! keys), deep nesting that could exhaust the stack, trailing data, and text that is not JSON; each error has a
//! position. It does not interpret the content, and the caller must limit the length of the text.
//!
//! DIVERGES: Kubernetes accepts duplicate keys (the last one wins), ten thousand levels, and lone surrogates, which it
//! replaces.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use hashbrown::HashSet;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// The maximum nesting depth of arrays and objects.
pub const MAX_DEPTH: usize = 64;

/// Objects with more keys than this use a hash set to find duplicates. In smaller ones the keys are compared pairwise.
const FEW_KEYS: usize = 16;

/// An error in a JSON text, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct JsonError {
    /// The byte offset of the error.
    pub offset: usize,
    /// The line of the error, from 1.
    pub line: usize,
    /// The column of the error in bytes, from 1; 0 is the end of the previous line.
    pub column: usize,
    /// The path of the field, such as `items[3].spec.nodeName`; empty for the text as a whole.
    pub path: String,
    /// A description of the error.
    pub reason: String,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.reason)
    }
}

impl JsonError {
    /// Creates an error at a position in a text.
    pub fn at(text: &str, offset: usize, path: impl Into<String>, reason: impl Into<String>) -> Self {
        let (line, column) = position(text.as_bytes(), offset);
        Self { offset, line, column, path: path.into(), reason: reason.into() }
    }

    /// Converts an error of decoding `text` into a type, and finds the path of the field that did not fit.
    pub fn of_decoding(text: &str, error: &serde_json::Error) -> Self {
        let (offset, reason) = (offset_of(text, error), reason_of(error));
        Self::at(text, offset, path_of_value(text, offset, &reason), reason)
    }

    /// Translates the error to an outer text, which contains the checked one from `start` on, in the field `path`.
    #[must_use]
    pub fn within(self, outer: &str, start: usize, path: &str) -> Self {
        let path = match self.path.chars().next() {
            None => path.to_owned(),
            Some('[') => format!("{path}{}", self.path),
            Some(_) if path.is_empty() => self.path,
            Some(_) => format!("{path}.{}", self.path),
        };
        Self::at(outer, start.saturating_add(self.offset), path, self.reason)
    }
}

/// The `apiVersion` and `kind` of an object; `None` where the field is absent or not a string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta<'a> {
    /// The group and version.
    pub api_version: Option<Cow<'a, str>>,
    /// The kind.
    pub kind: Option<Cow<'a, str>>,
}

/// Checks one untrusted JSON value.
///
/// # Errors
/// The text is not exactly one JSON value, an object in it has a key twice, or it nests deeper than [`MAX_DEPTH`].
pub fn check(text: &str) -> Result<(), JsonError> {
    type_meta(text).map(|_| ())
}

/// Checks one untrusted JSON value, given as bytes, and returns it as text.
///
/// # Errors
/// As [`check`]; also when the bytes are not UTF-8.
pub fn check_bytes(bytes: &[u8]) -> Result<&str, JsonError> {
    let text = utf8(bytes)?;
    check(text).map(|()| text)
}

/// Checks one untrusted JSON value, and returns its `apiVersion` and `kind`.
///
/// # Errors
/// As [`check`].
pub fn type_meta(text: &str) -> Result<TypeMeta<'_>, JsonError> {
    let mut checker = Checker::default();
    match checker.run(text) {
        Ok(()) => Ok(checker.found),
        Err(error) => Err(JsonError::at(text, offset_of(text, &error), checker.path(), reason_of(&error))),
    }
}

/// Decodes bytes as UTF-8.
///
/// # Errors
/// The bytes are not UTF-8. The position is that of the first invalid byte.
pub fn utf8(bytes: &[u8]) -> Result<&str, JsonError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to().saturating_add(1);
        let (line, column) = position(bytes, offset);
        let reason = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "not UTF-8 but UTF-16: save the file as UTF-8".to_owned(),
            _ => {
                let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
                format!("not UTF-8: byte 0x{byte:02x}")
            }
        };
        JsonError { offset, line, column, path: String::new(), reason }
    })
}

/// Appends a key to a path: `.name`, or `["a/b"]` if the key needs quotes.
pub fn push_key(path: &mut String, key: &str) {
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !plain {
        let _ = write!(path, "[{key:?}]");
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

/// Returns line and column after `offset` bytes.
fn position(bytes: &[u8], offset: usize) -> (usize, usize) {
    let read = bytes.get(..offset).unwrap_or(bytes);
    let line = read.iter().filter(|byte| **byte == b'\n').count();
    let column = read.iter().rev().take_while(|byte| **byte != b'\n').count();
    (line.saturating_add(1), column)
}

/// Returns how many bytes were read when the error occurred.
fn offset_of(text: &str, error: &serde_json::Error) -> usize {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    before.saturating_add(error.column()).min(text.len())
}

/// The error's text without the position, which is reported separately.
fn reason_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).map(str::to_owned).unwrap_or(text)
}

/// Returns the path of the value at which a reader failed after `offset` bytes of `text`.
///
/// It cuts the text within that value, so that it is incomplete, and uses the position at which the check stops.
fn path_of_value(text: &str, offset: usize, reason: &str) -> String {
    let (read, rest) = text.as_bytes().split_at_checked(offset).unwrap_or((text.as_bytes(), b""));
    let read = read.trim_ascii_end();
    // A reader that expects a scalar consumes the bracket of an array before it fails; one that expects an object only
    // peeks at it.
    let looked_at = match rest.trim_ascii_start().first() {
        Some(b'[') => reason.starts_with("invalid type: sequence"),
        Some(b'{') => reason.starts_with("invalid type: map"),
        _ => false,
    };
    let number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
    // Replace the value by something that is not a value; for an array or object, cutting off the end is enough.
    let (value, broken) = match read.last() {
        Some(b'[') => (0, looked_at),
        Some(b'{') => (0, false),
        Some(b',' | b':') => (0, true),
        Some(b']' | b'}') => (1, false),
        _ => (read.iter().rev().take_while(|byte| number(byte)).count().max(1), true),
    };
    let kept = read.get(..read.len().saturating_sub(value)).unwrap_or_default();
    let mut cut = String::from_utf8_lossy(kept).into_owned();
    if broken {
        cut.push('!');
    }
    let mut checker = Checker::default();
    let _ = checker.run(&cut);
    checker.path()
}

/// One step of a path.
enum Step {
    Key(String),
    Index(usize),
}

/// The state of one check.
#[derive(Default)]
struct Checker<'a> {
    /// The keys of the open objects, outermost first.
    keys: Vec<Cow<'a, str>>,
    /// The number of open arrays and objects.
    depth: usize,
    /// The path to the error, innermost step first. Filled only on failure.
    steps: Vec<Step>,
    /// The outermost object's type.
    found: TypeMeta<'a>,
    /// The string that was just read, if it was requested.
    text: Option<Cow<'a, str>>,
    /// Whether to keep the next string.
    wanted: bool,
}

impl<'a> Checker<'a> {
    fn run(&mut self, text: &'a str) -> Result<(), serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        Value { checker: self, index: None }.deserialize(&mut deserializer)?;
        deserializer.end()
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps.iter().rev() {
            match step {
                Step::Key(key) => push_key(&mut path, key),
                Step::Index(index) => {
                    let _ = write!(path, "[{index}]");
                }
            }
        }
        path
    }

    fn open<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.wanted = false;
        self.depth = self.depth.saturating_add(1);
        if self.depth > MAX_DEPTH {
            return Err(E::custom(format_args!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

/// Reads and discards any value.
struct Value<'c, 'a> {
    checker: &'c mut Checker<'a>,
    /// The index of the value, if it is an array element.
    index: Option<usize>,
}

impl<'a> DeserializeSeed<'a> for Value<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { checker, index } = self;
        let result = deserializer.deserialize_any(AnyValue { checker: &mut *checker });
        if let (Err(_), Some(index)) = (&result, index) {
            checker.steps.push(Step::Index(index));
        }
        result
    }
}

/// The key of a member.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

struct AnyValue<'c, 'a> {
    checker: &'c mut Checker<'a>,
}

impl<'a> Visitor<'a> for AnyValue<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<(), E> {
        if self.checker.wanted {
            self.checker.text = Some(Cow::Borrowed(text));
        }
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.checker.wanted {
            self.checker.text = Some(Cow::Owned(text.to_owned()));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        self.checker.open()?;
        let mut index = 0usize;
        while seq.next_element_seed(Value { checker: &mut *self.checker, index: Some(index) })?.is_some() {
            index = index.saturating_add(1);
        }
        self.checker.close();
        Ok(())
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let checker = self.checker;
        checker.open()?;
        let outermost = checker.depth == 1;
        let first = checker.keys.len();
        let mut many: HashSet<Cow<'a, str>> = HashSet::new();
        while let Some(Key(key)) = map.next_key::<Key<'a>>()? {
            let own = checker.keys.get(first..).unwrap_or_default();
            let repeated = if own.len() < FEW_KEYS {
                own.contains(&key)
            } else {
                if many.is_empty() {
                    many.extend(own.iter().cloned());
                }
                !many.insert(key.clone())
            };
            if repeated {
                let error = A::Error::custom("the key is given twice");
                checker.steps.push(Step::Key(key.into_owned()));
                return Err(error);
            }
            checker.wanted = outermost && matches!(&*key, "apiVersion" | "kind");
            let wanted = checker.wanted;
            let place = checker.keys.len();
            checker.keys.push(key);
            if let Err(error) = map.next_value_seed(Value { checker: &mut *checker, index: None }) {
                let key = checker.keys.get(place).cloned().unwrap_or_default();
                checker.steps.push(Step::Key(key.into_owned()));
                return Err(error);
            }
            if wanted {
                checker.wanted = false;
                let text = checker.text.take();
                match checker.keys.get(place).map(AsRef::as_ref) {
                    Some("kind") => checker.found.kind = text,
                    _ => checker.found.api_version = text,
                }
            }
        }
        checker.keys.truncate(first);
        checker.close();
        Ok(())
    }
}
