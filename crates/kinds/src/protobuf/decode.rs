//! Decodes Kubernetes' protobuf format by the schemas, into the same objects as JSON.
//!
//! Unknown fields are skipped, as usual in protobuf. The last of several values of a singular field wins, and repeated
//! messages are merged. The nesting depth is limited by the schemas, not by the input.
//!
//! DIVERGES: text that is not UTF-8, groups, times outside the years 1 to 9999 and documents of more than
//! [`MAX_VALUES`] values are refused; Kubernetes accepts them.

use portcullis_apimachinery::time::Instant;
use serde_json::Value;

use super::MAGIC;
use crate::Map;
use crate::complete;
use crate::json::{self, MAX_VALUES};
use crate::scalar;
use crate::schema::{Field, Shape, Type};

/// The first and the last second of the years 1 to 9999.
const YEARS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// An error of decoding protobuf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The magic prefix is missing.
    #[error("the body does not begin with the four bytes of a Kubernetes protobuf document")]
    Magic,
    /// A message or a number is truncated.
    #[error("the protobuf message breaks off")]
    Truncated,
    /// An invalid wire type or field number.
    #[error("the protobuf message has a field of no known type")]
    Wire,
    /// There are more than [`MAX_VALUES`] values.
    #[error("the protobuf message holds more than {MAX_VALUES} values")]
    TooMany,
    /// A field has the wrong wire type.
    #[error("the protobuf field {0} has another type than its number says")]
    Type(&'static str),
    /// A string is not UTF-8.
    #[error("the protobuf field {0} is not valid UTF-8")]
    Utf8(&'static str),
    /// A value is invalid for its field.
    #[error("the protobuf field {field}: {reason}")]
    Value {
        /// The name of the field.
        field: &'static str,
        /// A description of the error.
        reason: String,
    },
}

/// The envelope of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// The group and version of the document; empty if not set.
    pub api_version: &'a str,
    /// The kind of the document; empty if not set.
    pub kind: &'a str,
    /// The message, see [`message`].
    pub raw: &'a [u8],
}

/// Decodes a document: the envelope and its message. `kind` and `apiVersion` are those of the envelope.
///
/// # Errors
/// See [`ProtobufError`]. The kind is not compared with the expected one.
pub fn decode(bytes: &[u8], ty: &Type) -> Result<Map, ProtobufError> {
    let envelope = envelope(bytes)?;
    let mut object = message(envelope.raw, ty)?;
    for (name, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !text.is_empty() {
            object.insert(name.to_owned(), text.into());
        }
    }
    Ok(object)
}

/// Decodes the envelope of a document.
///
/// # Errors
/// The bytes are not a document.
pub fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let mut envelope = Envelope::default();
    let mut fields = Fields(bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => {
                let mut fields = Fields(wire.bytes("typeMeta")?);
                while let Some((number, wire)) = fields.next()? {
                    match number {
                        1 => envelope.api_version = wire.text("apiVersion")?,
                        2 => envelope.kind = wire.text("kind")?,
                        _ => {}
                    }
                }
            }
            2 => envelope.raw = wire.bytes("raw")?,
            _ => {}
        }
    }
    Ok(envelope)
}

/// Decodes a message into the object that Go would print.
///
/// # Errors
/// The bytes are not a message, or a value does not have its field's type.
pub fn message(bytes: &[u8], ty: &Type) -> Result<Map, ProtobufError> {
    let mut object = Map::new();
    Reader { values: 0 }.message(bytes, ty, &[], &mut object)?;
    complete::object(&mut object, ty);
    Ok(object)
}

/// Decodes the fields that are set; `complete` adds the rest.
struct Reader {
    /// The number of values read.
    values: usize,
}

impl Reader {
    /// Decodes the fields of a type that are in the embedded message `within`, or in its own message if that is empty.
    fn message(
        &mut self,
        bytes: &[u8],
        ty: &Type,
        within: &[u32],
        into: &mut Map,
    ) -> Result<(), ProtobufError> {
        let mut fields = Fields(bytes);
        while let Some((number, wire)) = fields.next()? {
            if let Some(field) =
                ty.fields.iter().find(|field| field.number == number && field.within == within)
            {
                let value = self.value(field.name, field.shape, wire, into.remove(field.name))?;
                into.insert(field.name.to_owned(), value);
            } else if let Some(embedded) = ty.fields.iter().find_map(|field| embedded(field, within, number))
            {
                self.message(wire.bytes(ty.name)?, ty, embedded, into)?;
            }
        }
        Ok(())
    }

    /// Decodes a value over an earlier one.
    fn value(
        &mut self,
        name: &'static str,
        shape: Shape,
        wire: Wire<'_>,
        old: Option<Value>,
    ) -> Result<Value, ProtobufError> {
        self.values = self.values.saturating_add(1);
        if self.values > MAX_VALUES {
            return Err(ProtobufError::TooMany);
        }
        Ok(match shape {
            Shape::Any => raw(name, wire.bytes(name)?)?,
            Shape::Bool => (wire.number(name)? != 0).into(),
            Shape::Bytes => scalar::base64(wire.bytes(name)?),
            // The upper bits are dropped, as specified by protobuf.
            Shape::Int32 => (wire.number(name)? as i32).into(),
            Shape::Int64 => wire.number(name)?.cast_signed().into(),
            Shape::IntOrString => int_or_string(name, wire.bytes(name)?)?,
            Shape::List(shape) => self.list(name, *shape, wire, old)?,
            Shape::Map(shape) => self.map(name, *shape, wire.bytes(name)?, old)?,
            Shape::MicroTime => scalar::of_micro_time(time(name, wire.bytes(name)?)?),
            Shape::Object(ty) => {
                let mut members = match old {
                    Some(Value::Object(members)) => members,
                    _ => Map::new(),
                };
                self.message(wire.bytes(name)?, ty, &[], &mut members)?;
                members.into()
            }
            Shape::Quantity => quantity(name, wire.bytes(name)?)?,
            Shape::Text => wire.text(name)?.into(),
            Shape::Time => {
                let time = time(name, wire.bytes(name)?)?;
                scalar::of_time(Instant::of_seconds(time.seconds))
            }
        })
    }

    /// Adds an entry to a list, or several if numbers are packed.
    fn list(
        &mut self,
        name: &'static str,
        shape: Shape,
        wire: Wire<'_>,
        old: Option<Value>,
    ) -> Result<Value, ProtobufError> {
        let mut items = match old {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        match (shape, wire) {
            (Shape::Bool | Shape::Int32 | Shape::Int64, Wire::Bytes(packed)) => {
                let mut packed = Fields(packed);
                while !packed.0.is_empty() {
                    items.push(self.value(name, shape, Wire::Number(packed.varint()?), None)?);
                }
            }
            _ => items.push(self.value(name, shape, wire, None)?),
        }
        Ok(items.into())
    }

    /// Adds an entry to a map.
    fn map(
        &mut self,
        name: &'static str,
        shape: Shape,
        bytes: &[u8],
        old: Option<Value>,
    ) -> Result<Value, ProtobufError> {
        let (mut key, mut value) = ("", None);
        let mut fields = Fields(bytes);
        while let Some((number, wire)) = fields.next()? {
            match number {
                1 => key = wire.text(name)?,
                2 => value = Some(self.map_value(name, shape, wire)?),
                _ => {}
            }
        }
        let mut members = match old {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        members.insert(key.to_owned(), value.unwrap_or_else(|| complete::zero(shape)));
        Ok(members.into())
    }

    /// A map's value. A list is a message there, with its entries under number 1.
    fn map_value(
        &mut self,
        name: &'static str,
        shape: Shape,
        wire: Wire<'_>,
    ) -> Result<Value, ProtobufError> {
        let Shape::List(item) = shape else { return self.value(name, shape, wire, None) };
        let mut list = None;
        let mut fields = Fields(wire.bytes(name)?);
        while let Some((number, wire)) = fields.next()? {
            if number == 1 {
                list = Some(self.list(name, *item, wire, list)?);
            }
        }
        Ok(list.unwrap_or_default())
    }
}

/// The path of the embedded message `number` of the message `within`, if the field is in it.
fn embedded(field: &Field, within: &[u32], number: u32) -> Option<&'static [u32]> {
    let path = field.within.get(..=within.len())?;
    path.split_last().filter(|(last, before)| **last == number && *before == within).map(|_| path)
}

/// Decodes JSON that is embedded in a message as bytes.
fn raw(name: &'static str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut raw: &[u8] = &[];
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        if number == 1 {
            raw = wire.bytes(name)?;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let invalid = |reason: String| ProtobufError::Value { field: name, reason };
    let json = json::parse(raw).map_err(|error| invalid(error.to_string()))?;
    json.into_value().ok_or_else(|| invalid("a number is too large".to_owned()))
}

/// Decodes a number or a string, depending on the first field.
fn int_or_string(name: &'static str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut kind, mut number, mut text) = (0, 0, "");
    let mut fields = Fields(bytes);
    while let Some((field, wire)) = fields.next()? {
        match field {
            1 => kind = wire.number(name)?,
            2 => number = wire.number(name)? as i32,
            3 => text = wire.text(name)?,
            _ => {}
        }
    }
    match kind {
        0 => Ok(number.into()),
        1 => Ok(text.into()),
        other => Err(ProtobufError::Value {
            field: name,
            reason: format!("{other} is neither the type of a number nor of a string"),
        }),
    }
}

fn quantity(name: &'static str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut quantity = complete::zero(Shape::Quantity);
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        if number == 1 {
            let text = wire.text(name)?;
            quantity =
                scalar::quantity(text).map_err(|reason| ProtobufError::Value { field: name, reason })?;
        }
    }
    Ok(quantity)
}

/// A time; an empty message is the zero time.
fn time(name: &'static str, bytes: &[u8]) -> Result<Instant, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Instant::ZERO);
    }
    let (mut seconds, mut nanoseconds) = (0, 0);
    let mut fields = Fields(bytes);
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => seconds = wire.number(name)?.cast_signed(),
            2 => nanoseconds = wire.number(name)? as i32,
            _ => {}
        }
    }
    let carried = i64::from(nanoseconds.div_euclid(1_000_000_000));
    let seconds = seconds.saturating_add(carried);
    if !YEARS.contains(&seconds) {
        let reason = format!("{seconds} seconds since 1970 lie outside the years 1 to 9999");
        return Err(ProtobufError::Value { field: name, reason });
    }
    Ok(Instant { seconds, nanoseconds: nanoseconds.rem_euclid(1_000_000_000).cast_unsigned() })
}

/// A value on the wire.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Bytes(&'a [u8]),
    /// Four or eight bytes, which no field here uses.
    Fixed,
    Number(u64),
}

impl<'a> Wire<'a> {
    fn bytes(self, name: &'static str) -> Result<&'a [u8], ProtobufError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtobufError::Type(name)),
        }
    }

    fn number(self, name: &'static str) -> Result<u64, ProtobufError> {
        match self {
            Self::Number(number) => Ok(number),
            _ => Err(ProtobufError::Type(name)),
        }
    }

    fn text(self, name: &'static str) -> Result<&'a str, ProtobufError> {
        std::str::from_utf8(self.bytes(name)?).map_err(|_| ProtobufError::Utf8(name))
    }
}

/// Iterates over the fields of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The number and value of the next field.
    fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0).ok_or(ProtobufError::Wire)?;
        let wire = match key & 7 {
            0 => Wire::Number(self.varint()?),
            1 => self.take(8).map(|_| Wire::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Fixed)?,
            _ => return Err(ProtobufError::Wire),
        };
        Ok(Some((number, wire)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(ProtobufError::Truncated)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(ProtobufError::Truncated)
    }
}
