//! Reviews in Kubernetes' protobuf envelope, which kubectl sends. They are turned into the JSON document that they
//! stand for; from there on there is one way only.
//!
//! Only the fields that a review has are known. What is not known is passed over, as a receiver of protobuf does.

use std::fmt;

use serde_json::{Map, Value};

use super::route::Kind;

/// What every document begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Bytes that are no review in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtobufError {
    /// The first four bytes are others.
    Magic,
    /// A message breaks off, or a number does not end.
    Truncated,
    /// A field is of another type than its number says.
    Type,
    /// A string that is no UTF-8.
    Utf8,
}

impl fmt::Display for ProtobufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Magic => "the body does not begin with the four bytes of a Kubernetes protobuf document",
            Self::Truncated => "the protobuf message breaks off",
            Self::Type => "a protobuf field has another type than its number says",
            Self::Utf8 => "a protobuf string is not valid UTF-8",
        })
    }
}

/// The fields of a message: number, name in JSON, type.
type Message = &'static [(u64, &'static str, Type)];

#[derive(Clone, Copy)]
enum Type {
    /// A message that is there also when it is empty.
    Message(Message),
    /// A map from strings to lists of strings.
    ListMap,
    /// A list of messages.
    List(Message),
    /// A number, as JSON has it.
    Number,
    String,
    /// A list of strings.
    Strings,
    /// A map from strings to strings.
    StringMap,
}

use Type::{List, ListMap, Number, String as Text, StringMap, Strings};

const OWNER: Message = &[(1, "kind", Text), (3, "name", Text), (4, "uid", Text), (5, "apiVersion", Text)];
/// What tells an empty metadata from one that is not (WH-72, WH-87). Times are always cleared (WH-71).
const METADATA: Message = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Number),
    (11, "labels", StringMap),
    (12, "annotations", StringMap),
    (13, "ownerReferences", List(OWNER)),
    (14, "finalizers", Strings),
];
const REQUIREMENT: Message = &[(1, "key", Text), (2, "operator", Text), (3, "values", Strings)];
const SELECTOR: Message = &[(1, "rawSelector", Text), (2, "requirements", List(REQUIREMENT))];
const RESOURCE: Message = &[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (4, "version", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
    (8, "fieldSelector", Type::Message(SELECTOR)),
    (9, "labelSelector", Type::Message(SELECTOR)),
];
const PATH: Message = &[(1, "path", Text), (2, "verb", Text)];
const SELF_SPEC: Message =
    &[(1, "resourceAttributes", Type::Message(RESOURCE)), (2, "nonResourceAttributes", Type::Message(PATH))];
/// Number 4 is the list of groups in both versions; only JSON names it differently (WH-13).
const SUBJECT_SPEC: Message = &[
    (1, "resourceAttributes", Type::Message(RESOURCE)),
    (2, "nonResourceAttributes", Type::Message(PATH)),
    (3, "user", Text),
    (4, "groups", Strings),
    (5, "extra", ListMap),
    (6, "uid", Text),
];
const SUBJECT_SPEC_V1BETA1: Message = &[
    (1, "resourceAttributes", Type::Message(RESOURCE)),
    (2, "nonResourceAttributes", Type::Message(PATH)),
    (3, "user", Text),
    (4, "group", Strings),
    (5, "extra", ListMap),
    (6, "uid", Text),
];
const RULES_SPEC: Message = &[(1, "namespace", Text)];
const SUBJECT: Message =
    &[(1, "metadata", Type::Message(METADATA)), (2, "spec", Type::Message(SUBJECT_SPEC))];
const SUBJECT_V1BETA1: Message =
    &[(1, "metadata", Type::Message(METADATA)), (2, "spec", Type::Message(SUBJECT_SPEC_V1BETA1))];
const SELF_ACCESS: Message =
    &[(1, "metadata", Type::Message(METADATA)), (2, "spec", Type::Message(SELF_SPEC))];
const SELF_RULES: Message =
    &[(1, "metadata", Type::Message(METADATA)), (2, "spec", Type::Message(RULES_SPEC))];

const TYPE_META: Message = &[(1, "apiVersion", Text), (2, "kind", Text)];

/// Reads a review.
///
/// # Errors
/// See [`ProtobufError`]. Whether it is the kind that was expected is the reader's of JSON to say.
pub(crate) fn decode(bytes: &[u8], kind: Kind, is_v1: bool) -> Result<Value, ProtobufError> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let mut document = Map::new();
    let mut raw: &[u8] = &[];
    let mut fields = Fields(envelope);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => message(value.bytes()?, TYPE_META, &mut document)?,
            2 => raw = value.bytes()?,
            _ => {}
        }
    }
    let shape = match kind {
        Kind::SelfAccess => SELF_ACCESS,
        Kind::SelfRules => SELF_RULES,
        Kind::Local | Kind::Subject if is_v1 => SUBJECT,
        Kind::Local | Kind::Subject => SUBJECT_V1BETA1,
    };
    message(raw, shape, &mut document)?;
    Ok(Value::Object(document))
}

/// Adds the fields of a message. The messages nest as deep as the tables above, whatever the bytes say.
fn message(bytes: &[u8], shape: Message, into: &mut Map<String, Value>) -> Result<(), ProtobufError> {
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        let Some((_, name, kind)) = shape.iter().find(|(n, _, _)| *n == number) else { continue };
        match kind {
            // One that comes in pieces is put together.
            Type::Message(shape) => {
                let mut inner = match into.remove(*name) {
                    Some(Value::Object(inner)) => inner,
                    _ => Map::new(),
                };
                message(value.bytes()?, shape, &mut inner)?;
                into.insert((*name).to_owned(), Value::Object(inner));
            }
            List(shape) => {
                let mut item = Map::new();
                message(value.bytes()?, shape, &mut item)?;
                push(into, name, Value::Object(item));
            }
            Number => {
                let number = value.number()?;
                if number != 0 {
                    into.insert((*name).to_owned(), number.into());
                }
            }
            Text => {
                let text = value.text()?;
                // Empty strings are sent, and mean what an absent one means. Of several the last counts.
                if text.is_empty() {
                    into.remove(*name);
                } else {
                    into.insert((*name).to_owned(), text.into());
                }
            }
            Strings => push(into, name, value.text()?.into()),
            StringMap => {
                let (key, value) = entry(value.bytes()?)?;
                let value = value.map_or(Ok(""), |v| v.text())?;
                put(into, name, key, value.into());
            }
            ListMap => {
                let (key, value) = entry(value.bytes()?)?;
                let mut items = Vec::new();
                if let Some(value) = value {
                    let mut fields = Fields(value.bytes()?);
                    while let Some((number, item)) = fields.next()? {
                        if number == 1 {
                            items.push(Value::from(item.text()?));
                        }
                    }
                }
                put(into, name, key, items.into());
            }
        }
    }
    Ok(())
}

fn push(into: &mut Map<String, Value>, name: &str, item: Value) {
    if let Some(Value::Array(items)) = into.get_mut(name) {
        items.push(item);
    } else {
        into.insert(name.to_owned(), Value::Array(vec![item]));
    }
}

fn put(into: &mut Map<String, Value>, name: &str, key: &str, value: Value) {
    if let Some(Value::Object(entries)) = into.get_mut(name) {
        entries.insert(key.to_owned(), value);
    } else {
        into.insert(name.to_owned(), Value::Object(Map::from_iter([(key.to_owned(), value)])));
    }
}

/// One entry of a map: key and value, whichever are there.
fn entry(bytes: &[u8]) -> Result<(&str, Option<Wire<'_>>), ProtobufError> {
    let (mut key, mut value) = ("", None);
    let mut fields = Fields(bytes);
    while let Some((number, field)) = fields.next()? {
        match number {
            1 => key = field.text()?,
            2 => value = Some(field),
            _ => {}
        }
    }
    Ok((key, value))
}

/// A value as it stands on the wire.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Bytes(&'a [u8]),
    /// Four or eight bytes that no field here uses.
    Fixed,
    Number(u64),
}

impl<'a> Wire<'a> {
    fn bytes(self) -> Result<&'a [u8], ProtobufError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtobufError::Type),
        }
    }

    fn number(self) -> Result<i64, ProtobufError> {
        match self {
            Self::Number(number) => Ok(number.cast_signed()),
            _ => Err(ProtobufError::Type),
        }
    }

    fn text(self) -> Result<&'a str, ProtobufError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| ProtobufError::Utf8)
    }
}

/// The fields of a message, one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The number and value of the next field.
    fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Wire::Number(self.varint()?),
            1 => self.take(8).map(|_| Wire::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Fixed)?,
            _ => return Err(ProtobufError::Type),
        };
        Ok(Some((key >> 3, value)))
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
