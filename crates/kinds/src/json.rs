//! Parses JSON like Kubernetes: duplicate keys are kept for the decoder to handle, numbers keep their digits, and
//! unpaired surrogates and invalid UTF-8 become U+FFFD (AP-12, AP-13).
//!
//! Knows nothing of types.
//!
//! DIVERGES: documents with more than [`MAX_DEPTH`] levels or [`MAX_VALUES`] values are refused. Kubernetes accepts ten
//! thousand levels.

use std::borrow::Cow;

use portcullis_apimachinery::json::MAX_DEPTH;
use serde_json::{Map, Number, Value};

/// The maximum number of values in a document. A small document can be large in memory: this many values take some tens
/// of megabytes, and the largest objects that can be stored have far fewer.
pub const MAX_VALUES: usize = 120_000;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    /// A number, as written.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    /// The members in order, including duplicate keys.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// A JSON syntax error, with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {offset}")]
pub struct SyntaxError {
    /// The byte offset of the error.
    pub offset: usize,
    /// A description of the error.
    pub reason: &'static str,
}

impl Json<'_> {
    /// The type of the value in error messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Converts to an untyped value, with the last of duplicate keys; `None` for a number out of range.
    pub(crate) fn into_value(self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(bool) => bool.into(),
            Self::Number(digits) => number(&digits)?.into(),
            Self::Text(text) => text.into_owned().into(),
            Self::List(items) => items.into_iter().map(Self::into_value).collect::<Option<Vec<_>>>()?.into(),
            Self::Object(members) => {
                let members =
                    members.into_iter().map(|(key, value)| Some((key.into_owned(), value.into_value()?)));
                Value::Object(members.collect::<Option<_>>()?)
            }
        })
    }

    /// Converts to an untyped value; `None` if a key occurs twice, or a number is `-0` or no integer of 64 bits.
    pub(crate) fn into_exact_value(self) -> Option<Value> {
        Some(match self {
            Self::Number(digits) => match digits.parse::<i64>() {
                Ok(0) if digits.starts_with('-') => return None,
                Ok(number) => number.into(),
                Err(_) => digits.parse::<u64>().ok()?.into(),
            },
            Self::List(items) => {
                items.into_iter().map(Self::into_exact_value).collect::<Option<Vec<_>>>()?.into()
            }
            Self::Object(members) => {
                let mut object = Map::new();
                for (key, value) in members {
                    if object.insert(key.into_owned(), value.into_exact_value()?).is_some() {
                        return None;
                    }
                }
                Value::Object(object)
            }
            other => other.into_value()?,
        })
    }
}

impl From<Value> for Json<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(bool) => Self::Bool(bool),
            Value::Number(number) => Self::Number(Cow::Owned(number.to_string())),
            Value::String(text) => Self::Text(Cow::Owned(text)),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(members) => Self::Object(
                members.into_iter().map(|(key, value)| (Cow::Owned(key), value.into())).collect(),
            ),
        }
    }
}

fn number(digits: &str) -> Option<Number> {
    if let Ok(number) = digits.parse::<i64>() {
        return Some(number.into());
    }
    match digits.parse::<u64>() {
        Ok(number) => Some(number.into()),
        Err(_) => Number::from_f64(digits.parse().ok()?),
    }
}

/// Reads one JSON value.
///
/// # Errors
/// The text is not exactly one JSON value, is nested deeper than [`MAX_DEPTH`], or has more than [`MAX_VALUES`] values.
pub(crate) fn parse(text: &[u8]) -> Result<Json<'_>, SyntaxError> {
    let mut reader = Reader { text, at: 0, values: 0 };
    let value = reader.value(0)?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.error("invalid character after top-level value")),
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    values: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, reason: &'static str) -> SyntaxError {
        SyntaxError { offset: self.at.min(self.text.len()), reason }
    }

    /// Consumes the next byte.
    fn next(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied()?;
        self.at = self.at.saturating_add(1);
        Some(byte)
    }

    /// Returns the next byte after white space, without consuming it.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at).copied()? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at = self.at.saturating_add(1),
                byte => return Some(byte),
            }
        }
    }

    /// Consumes this byte if it is next after white space.
    fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        if taken {
            self.at = self.at.saturating_add(1);
        }
        taken
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, SyntaxError> {
        self.values = self.values.saturating_add(1);
        match self.peek() {
            _ if self.values > MAX_VALUES => Err(self.error("exceeded max number of values")),
            None => Err(self.error("unexpected end of JSON input")),
            Some(b'{' | b'[') if depth >= MAX_DEPTH => Err(self.error("exceeded max depth")),
            Some(b'{') => self.object(depth.saturating_add(1)),
            Some(b'[') => self.list(depth.saturating_add(1)),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", Json::Bool(true)),
            Some(b'f') => self.word(b"false", Json::Bool(false)),
            Some(b'n') => self.word(b"null", Json::Null),
            Some(_) => Err(self.error("invalid character looking for beginning of value")),
        }
    }

    fn word(&mut self, word: &[u8], value: Json<'a>) -> Result<Json<'a>, SyntaxError> {
        if !self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.error("invalid character in literal"));
        }
        self.at = self.at.saturating_add(word.len());
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, SyntaxError> {
        self.take(b'{');
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.error("invalid character looking for beginning of object key string"));
            }
            let key = self.string()?;
            if !self.take(b':') {
                return Err(self.error("invalid character after object key"));
            }
            members.push((key, self.value(depth)?));
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.error("invalid character after object key:value pair"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json<'a>, SyntaxError> {
        self.take(b'[');
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.take(b']') {
                return Ok(Json::List(items));
            }
            if !self.take(b',') {
                return Err(self.error("invalid character after array element"));
            }
        }
    }

    fn number(&mut self) -> Result<Json<'a>, SyntaxError> {
        let start = self.at;
        self.skip(|byte| byte == b'-', 1);
        let whole = self.at;
        if self.skip(|byte| byte.is_ascii_digit(), usize::MAX) == 0 {
            return Err(self.error("invalid character in numeric literal"));
        }
        if self.text.get(whole) == Some(&b'0') && self.at > whole.saturating_add(1) {
            self.at = whole.saturating_add(1);
            return Err(self.error("invalid character after a leading zero"));
        }
        if self.skip(|byte| byte == b'.', 1) == 1 && self.skip(|byte| byte.is_ascii_digit(), usize::MAX) == 0
        {
            return Err(self.error("invalid character after decimal point in numeric literal"));
        }
        if self.skip(|byte| matches!(byte, b'e' | b'E'), 1) == 1 {
            self.skip(|byte| matches!(byte, b'+' | b'-'), 1);
            if self.skip(|byte| byte.is_ascii_digit(), usize::MAX) == 0 {
                return Err(self.error("invalid character in exponent of numeric literal"));
            }
        }
        let digits = self.text.get(start..self.at).unwrap_or_default();
        Ok(Json::Number(String::from_utf8_lossy(digits)))
    }

    /// Skips at most this many such bytes, and returns how many there were.
    fn skip(&mut self, such: fn(u8) -> bool, most: usize) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let count = rest.iter().take(most).take_while(|byte| such(**byte)).count();
        self.at = self.at.saturating_add(count);
        count
    }

    fn string(&mut self) -> Result<Cow<'a, str>, SyntaxError> {
        self.take(b'"');
        let start = self.at;
        let mut text = String::new();
        let mut copied = start;
        loop {
            match self.next() {
                None => return Err(self.error("unexpected end of JSON input")),
                Some(b'"') => break,
                Some(0..0x20) => {
                    self.at = self.at.saturating_sub(1);
                    return Err(self.error("invalid control character in string literal"));
                }
                Some(b'\\') => {
                    text.push_str(&self.lossy(copied, self.at.saturating_sub(1)));
                    text.push(self.escape()?);
                    copied = self.at;
                }
                Some(_) => {}
            }
        }
        let rest = self.lossy(copied, self.at.saturating_sub(1));
        if copied == start {
            return Ok(rest);
        }
        text.push_str(&rest);
        Ok(Cow::Owned(text))
    }

    /// Decodes the bytes between two positions as UTF-8, and replaces each invalid byte.
    fn lossy(&self, from: usize, to: usize) -> Cow<'a, str> {
        let bytes = self.text.get(from..to).unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => {
                let mut text = String::new();
                for chunk in bytes.utf8_chunks() {
                    text.push_str(chunk.valid());
                    text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
                }
                Cow::Owned(text)
            }
        }
    }

    /// Parses an escape after its backslash.
    fn escape(&mut self) -> Result<char, SyntaxError> {
        Ok(match self.next() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\x08',
            Some(b'f') => '\x0c',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let first = self.hex()?;
                match char::from_u32(first) {
                    Some(character) => character,
                    None => self.low_surrogate(first).unwrap_or(char::REPLACEMENT_CHARACTER),
                }
            }
            _ => {
                self.at = self.at.saturating_sub(1);
                return Err(self.error("invalid character in string escape code"));
            }
        })
    }

    /// Combines a surrogate with the next one. Consumes nothing if they are not a pair.
    fn low_surrogate(&mut self, first: u32) -> Option<char> {
        let before = self.at;
        let second = match (self.next(), self.next()) {
            (Some(b'\\'), Some(b'u')) => self.hex().ok(),
            _ => None,
        };
        let pair = second.and_then(|second| {
            let units = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
            char::decode_utf16(units).next()?.ok()
        });
        if pair.is_none() {
            self.at = before;
        }
        pair
    }

    /// Four hexadecimal digits.
    fn hex(&mut self) -> Result<u32, SyntaxError> {
        let mut number: u32 = 0;
        for _ in 0..4 {
            let digit = self.next().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                self.at = self.at.saturating_sub(1);
                return Err(self.error("invalid character in \\u hexadecimal character escape"));
            };
            number = (number << 4) | digit;
        }
        Ok(number)
    }
}
