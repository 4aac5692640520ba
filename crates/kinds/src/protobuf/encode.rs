//! Encodes objects in Kubernetes' protobuf format, byte for byte as kube-apiserver does: fields in the order of their
//! numbers, entries of maps in the order of their keys, and a field that is not a pointer in Go even if it is zero.

use base64::Engine as _;
use portcullis_apimachinery::time::Instant;
use serde_json::Value;

use super::MAGIC;
use super::wire::{self, BYTES, bytes, integer, tag, varint};
use crate::Map;
use crate::scalar;
use crate::schema::{self, Field, Presence, Shape, Type, meta};

/// A value does not have the type of its field. Objects that were decoded by the same schema have no such value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field {0} cannot be written in protobuf: its value has another type")]
pub struct EncodeError(&'static str);

/// Encodes a document of any kind, or a list of such documents; `None` if the kind has no protobuf form.
///
/// # Errors
/// The object is not of its kind.
pub fn encode_document(object: &Map) -> Result<Option<Vec<u8>>, EncodeError> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let with_form = |kind| schema::find(version, kind).filter(|ty| ty.has_protobuf());
    if let Some(ty) = with_form(kind) {
        return encode(object, ty).map(Some);
    }
    let item = kind.strip_suffix("List").and_then(with_form);
    item.map(|item| encode_list(object, item)).transpose()
}

/// Encodes a document: the envelope with the object's kind and version, and its message.
///
/// # Errors
/// The object is not of this type.
pub fn encode(object: &Map, ty: &Type) -> Result<Vec<u8>, EncodeError> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut out = Vec::with_capacity(512);
    begin(&mut out, text("apiVersion"), text("kind"));
    nested(&mut out, 2, |out| message(out, object, ty))?;
    end(&mut out);
    Ok(out)
}

/// Encodes a list document, of which the items have this type.
///
/// # Errors
/// An item is not of this type, or the document is no list.
pub fn encode_list(list: &Map, item: &Type) -> Result<Vec<u8>, EncodeError> {
    let text = |name: &str| list.get(name).and_then(Value::as_str).unwrap_or_default();
    let metadata = list.get("metadata").and_then(Value::as_object).ok_or(EncodeError("metadata"))?;
    let mut out = Vec::with_capacity(512);
    begin(&mut out, text("apiVersion"), text("kind"));
    nested(&mut out, 2, |out| {
        nested(out, 1, |out| message(out, metadata, &meta::LIST_META))?;
        for entry in list.get("items").and_then(Value::as_array).into_iter().flatten() {
            let entry = entry.as_object().ok_or(EncodeError("items"))?;
            nested(out, 2, |out| message(out, entry, item))?;
        }
        Ok(())
    })?;
    end(&mut out);
    Ok(out)
}

/// Encodes one item as it is in the message of a list.
///
/// # Errors
/// The object is not of this type.
pub fn encode_item(object: &Map, ty: &Type) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(512);
    nested(&mut out, 2, |out| message(out, object, ty))?;
    Ok(out)
}

/// Writes a long list piece by piece: its start, then the items of [`encode_item`], then its end.
#[derive(Clone, Debug)]
pub struct ListEncoder {
    /// Everything before the first item.
    pub start: Vec<u8>,
    /// Everything after the last item.
    pub end: Vec<u8>,
}

impl ListEncoder {
    /// Begins a list of this kind (`PodList`) and version with this metadata. `items_length` is the length of all
    /// encoded items together, in bytes.
    ///
    /// # Errors
    /// The metadata is not that of a list.
    pub fn new(
        api_version: &str,
        kind: &str,
        metadata: &Map,
        items_length: usize,
    ) -> Result<Self, EncodeError> {
        let mut head = Vec::new();
        nested(&mut head, 1, |out| message(out, metadata, &meta::LIST_META))?;
        let mut start = Vec::new();
        begin(&mut start, api_version, kind);
        tag(&mut start, 2, BYTES);
        varint(&mut start, head.len().saturating_add(items_length) as u64);
        start.extend(head);
        let mut after = Vec::new();
        end(&mut after);
        Ok(Self { start, end: after })
    }
}

/// Encodes an event of a watch as a frame: its length in four bytes, its type, and its document.
pub fn watch_event(kind: &str, document: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(document.len().saturating_add(32));
    out.extend([0; 4]);
    bytes(&mut out, 1, kind.as_bytes());
    wire::nested(&mut out, 2, |out| bytes(out, 1, document));
    let length = u32::try_from(out.len().saturating_sub(4)).unwrap_or(u32::MAX);
    if let Some(place) = out.first_chunk_mut::<4>() {
        *place = length.to_be_bytes();
    }
    out
}

fn begin(out: &mut Vec<u8>, api_version: &str, kind: &str) {
    out.extend(MAGIC);
    wire::nested(out, 1, |out| {
        bytes(out, 1, api_version.as_bytes());
        bytes(out, 2, kind.as_bytes());
    });
}

/// The encoding and the media type of the message, which are always empty.
fn end(out: &mut Vec<u8>) {
    bytes(out, 3, b"");
    bytes(out, 4, b"");
}

/// Writes the fields of a message.
fn message(out: &mut Vec<u8>, object: &Map, ty: &Type) -> Result<(), EncodeError> {
    fields(out, object, ty.numbered(), 0)
}

/// Writes the fields of a message that is embedded this deep. Those of one embedded message are next to each other.
fn fields(out: &mut Vec<u8>, object: &Map, mut rest: &[Field], depth: usize) -> Result<(), EncodeError> {
    while let Some((first, others)) = rest.split_first() {
        let Some(embedded) = first.within.get(depth) else {
            field(out, object, first)?;
            rest = others;
            continue;
        };
        let count = rest.partition_point(|field| field.within.get(depth) == Some(embedded));
        let (inner, after) = rest.split_at(count);
        nested(out, *embedded, |out| fields(out, object, inner, depth.saturating_add(1)))?;
        rest = after;
    }
    Ok(())
}

fn field(out: &mut Vec<u8>, object: &Map, field: &Field) -> Result<(), EncodeError> {
    let value = object.get(field.name).unwrap_or(&Value::Null);
    let wrong = EncodeError(field.name);
    match field.shape {
        Shape::List(shape) => list(out, field.number, *shape, value, wrong),
        Shape::Map(shape) => map(out, field.number, *shape, value, wrong),
        // A list without bytes is nil.
        Shape::Bytes if value.as_str().is_none_or(str::is_empty) => Ok(()),
        _ if value.is_null() && matches!(field.presence, Presence::WhenSet | Presence::OrNull) => Ok(()),
        shape => single(out, field.number, shape, value, wrong),
    }
}

fn list(
    out: &mut Vec<u8>,
    number: u32,
    shape: Shape,
    value: &Value,
    wrong: EncodeError,
) -> Result<(), EncodeError> {
    match value {
        Value::Null => Ok(()),
        Value::Array(items) => items.iter().try_for_each(|item| single(out, number, shape, item, wrong)),
        _ => Err(wrong),
    }
}

fn map(
    out: &mut Vec<u8>,
    number: u32,
    shape: Shape,
    value: &Value,
    wrong: EncodeError,
) -> Result<(), EncodeError> {
    let Value::Object(members) = value else {
        return if value.is_null() { Ok(()) } else { Err(wrong) };
    };
    let mut entries: Vec<(&String, &Value)> = members.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries.into_iter().try_for_each(|(key, value)| {
        nested(out, number, |out| {
            bytes(out, 1, key.as_bytes());
            match shape {
                // In a map, a list is a message of its own.
                Shape::List(item) => nested(out, 2, |out| list(out, 1, *item, value, wrong)),
                shape => single(out, 2, shape, value, wrong),
            }
        })
    })
}

/// Writes one value; `null` is the zero value.
fn single(
    out: &mut Vec<u8>,
    number: u32,
    shape: Shape,
    value: &Value,
    wrong: EncodeError,
) -> Result<(), EncodeError> {
    let text = || match value {
        Value::Null => Ok(""),
        value => value.as_str().ok_or(wrong),
    };
    match shape {
        Shape::Any => nested(out, number, |out| {
            if !value.is_null() {
                bytes(out, 1, &serde_json::to_vec(value).map_err(|_| wrong)?);
            }
            Ok(())
        }),
        Shape::Bool => {
            let is_true = if value.is_null() { false } else { value.as_bool().ok_or(wrong)? };
            integer(out, number, i64::from(is_true));
            Ok(())
        }
        Shape::Bytes => {
            bytes(out, number, &scalar::BASE64.decode(text()?).map_err(|_| wrong)?);
            Ok(())
        }
        Shape::Int32 | Shape::Int64 => {
            integer(out, number, if value.is_null() { 0 } else { value.as_i64().ok_or(wrong)? });
            Ok(())
        }
        Shape::IntOrString => nested(out, number, |out| {
            let (kind, port, name) = match value {
                Value::Null => (0, 0, ""),
                Value::String(name) => (1, 0, name.as_str()),
                value => (0, value.as_i64().ok_or(wrong)?, ""),
            };
            integer(out, 1, kind);
            integer(out, 2, port);
            bytes(out, 3, name.as_bytes());
            Ok(())
        }),
        Shape::MicroTime | Shape::Time => nested(out, number, |out| {
            if !value.is_null() {
                let time = value.as_str().and_then(|text| Instant::parse(text).ok()).ok_or(wrong)?;
                integer(out, 1, time.seconds);
                integer(out, 2, i64::from(time.nanoseconds));
            }
            Ok(())
        }),
        Shape::Object(ty) => nested(out, number, |out| match value {
            Value::Null => message(out, &Map::new(), ty),
            Value::Object(members) => message(out, members, ty),
            _ => Err(wrong),
        }),
        Shape::Quantity => nested(out, number, |out| {
            bytes(out, 1, if value.is_null() { b"0" } else { text()?.as_bytes() });
            Ok(())
        }),
        Shape::Text => {
            bytes(out, number, text()?.as_bytes());
            Ok(())
        }
        // No list directly contains a list or a map, and a map of lists is written by `map`.
        Shape::List(_) | Shape::Map(_) => Err(wrong),
    }
}

/// Writes a message of which the length is not known yet.
fn nested(
    out: &mut Vec<u8>,
    number: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    tag(out, number, BYTES);
    let at = out.len();
    // Most messages are short, and one byte holds their length.
    out.push(0);
    let start = out.len();
    write(out)?;
    let length = out.len().saturating_sub(start);
    match (u8::try_from(length), out.get_mut(at)) {
        (Ok(length), Some(place)) if length < 0x80 => *place = length,
        _ => {
            let mut prefix = Vec::with_capacity(5);
            varint(&mut prefix, length as u64);
            drop(out.splice(at..start, prefix));
        }
    }
    Ok(())
}
