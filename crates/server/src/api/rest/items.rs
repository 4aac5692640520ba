//! The body of a list: complete if it is short, in chunks if it is long, so that a long list is never built at once.

use std::mem;

use bytes::{BufMut, Bytes, BytesMut};
use kinds::protobuf::{self, ListEncoder};
use kinds::resource::Resource;
use kinds::schema::Type;
use serde_json::{Map, Value};

use crate::http::body::{Body, Parts};
use crate::http::status::Status;
use crate::registry::storage;

/// Lists of at least this size are streamed in chunks. In bytes of objects.
const LONG: usize = 1 << 20;
/// The approximate size of a chunk in bytes.
const PIECE: usize = 64 << 10;

/// The objects of a list, as they are served in JSON.
pub(super) struct Items {
    /// Their kind in the version of the path.
    pub(super) kind: &'static Resource,
    /// The metadata of the list.
    pub(super) meta: Value,
    /// The objects.
    pub(super) objects: Vec<Bytes>,
}

impl Items {
    /// Returns whether the list is streamed in chunks.
    pub(super) fn is_long(&self) -> bool {
        self.objects.iter().map(Bytes::len).sum::<usize>() >= LONG
    }

    /// The list in JSON.
    pub(super) fn json(self) -> Body {
        let is_long = self.is_long();
        let (kind, version, meta) = (self.kind.kind, self.kind.api_version(), self.meta);
        let list = self.kind.list_kind();
        let start = format!(r#"{{"kind":"{list}","apiVersion":"{version}","metadata":{meta},"items":["#);
        let mut pieces = JsonPieces {
            piece: BytesMut::from(start.as_bytes()),
            // Items have neither kind nor version (AP-70): both are cut from the start of the bytes.
            type_length: match self.kind.custom {
                None => format!(r#"{{"kind":"{kind}","apiVersion":"{version}","#).len(),
                // Custom objects have both in lists as well.
                Some(_) => 1,
            },
            objects: self.objects.into_iter(),
            has_begun: false,
            has_ended: false,
            most: if is_long { PIECE } else { usize::MAX },
        };
        match is_long {
            true => Body::Parts(Parts::new(pieces)),
            false => pieces.next().unwrap_or_default().into(),
        }
    }

    /// The list in protobuf, in chunks. Its length stands before its items, so every item is encoded twice: first for
    /// the length, then when it is sent.
    ///
    /// # Errors
    /// An item is not of its kind, which does not happen for stored objects.
    pub(super) fn protobuf(self) -> Result<Body, Status> {
        let Self { kind, meta, objects } = self;
        let mut length = 0_usize;
        for object in &objects {
            length = length.saturating_add(item(object, kind.schema)?.len());
        }
        let list = format!("{}List", kind.kind);
        let none = Map::new();
        let meta = meta.as_object().unwrap_or(&none);
        let encoder = ListEncoder::new(&kind.api_version(), &list, meta, length).map_err(Status::internal)?;
        Ok(Body::Parts(Parts::costly(ProtobufPieces {
            piece: encoder.start.into(),
            end: Some(encoder.end.into()),
            objects: objects.into_iter(),
            schema: kind.schema,
        })))
    }
}

fn item(object: &[u8], schema: &Type) -> Result<Vec<u8>, Status> {
    protobuf::encode_item(&storage::decode(object)?, schema).map_err(Status::internal)
}

/// Writes a list in JSON.
struct JsonPieces {
    /// The start of the next chunk.
    piece: BytesMut,
    objects: std::vec::IntoIter<Bytes>,
    /// The length of kind and version at the start of an object.
    type_length: usize,
    has_begun: bool,
    has_ended: bool,
    /// The approximate size of a chunk in bytes.
    most: usize,
}

impl Iterator for JsonPieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut piece = mem::take(&mut self.piece);
        while piece.len() < self.most {
            let Some(object) = self.objects.next() else {
                if mem::replace(&mut self.has_ended, true) {
                    return None;
                }
                piece.put_slice(b"]}");
                break;
            };
            if mem::replace(&mut self.has_begun, true) {
                piece.put_u8(b',');
            }
            piece.put_u8(b'{');
            piece.put_slice(object.get(self.type_length..).unwrap_or_default());
        }
        Some(piece.freeze())
    }
}

/// Writes a list in protobuf.
struct ProtobufPieces {
    /// The start of the next chunk.
    piece: Bytes,
    /// The text behind the last item; none once it was written.
    end: Option<Bytes>,
    objects: std::vec::IntoIter<Bytes>,
    schema: &'static Type,
}

impl Iterator for ProtobufPieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut piece = BytesMut::from(mem::take(&mut self.piece));
        while piece.len() < PIECE {
            let Some(object) = self.objects.next() else {
                piece.put(self.end.take()?);
                break;
            };
            // It was encoded before, for the length. If it failed now, the client would see that the list is too short.
            piece.put_slice(&item(&object, self.schema).unwrap_or_default());
        }
        Some(piece.freeze())
    }
}
