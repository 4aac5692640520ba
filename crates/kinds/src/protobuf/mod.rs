//! Kubernetes' protobuf format: documents are read and written by the schemas of [`crate::schema`], so that every kind
//! has the same object in JSON and in protobuf.
//!
//! A document is the prefix [`MAGIC`] and an envelope with its kind, its version and its message.

mod decode;
mod encode;
pub(crate) mod wire;

pub use decode::{Envelope, ProtobufError, decode, envelope, message};
pub use encode::{EncodeError, ListEncoder, encode, encode_document, encode_item, encode_list, watch_event};

/// The prefix of every document.
pub const MAGIC: &[u8] = b"k8s\0";
