//! The envelope of a value: Kubernetes' protobuf message `v2.EncryptedObject`.
//!
//! Reading checks the same bounds as kube-apiserver. Nothing here decrypts.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use prost::Message as _;

/// The most bytes of a key ID, and of an encrypted seed.
const MOST: usize = 1 << 10;
/// The most bytes of the names and values of all annotations.
const MOST_ANNOTATIONS: usize = 32 << 10;

/// An encrypted value with everything that is needed to decrypt it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// How the value is decrypted.
    pub source: SeedSource,
    /// The encrypted value.
    pub data: Vec<u8>,
}

/// A seed or key of values, encrypted by the plug-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedSource {
    /// How values are encrypted with it.
    pub kind: SeedKind,
    /// The seed, encrypted by the plug-in.
    pub encrypted: Vec<u8>,
    /// The name of the key of the plug-in.
    pub key_id: String,
    /// What the plug-in wants to see again when it decrypts.
    pub annotations: BTreeMap<String, Vec<u8>>,
}

/// How values are encrypted with what the plug-in encrypts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum SeedKind {
    /// As the key of AES-GCM. Kubernetes 1.28 and earlier wrote this.
    Key = 0,
    /// As a seed, from which the key of each value is derived.
    Seed = 1,
}

/// A message that is not an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not protobuf.
    #[error("not a message of type EncryptedObject")]
    Protobuf,
    /// A kind of a later version.
    #[error("the type {0} of its encrypted DEK source is not known")]
    Kind(i32),
    /// A field is empty.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// A field is too large.
    #[error("{0} is larger than {1} bytes")]
    TooLarge(&'static str, usize),
    /// The name of an annotation is not a domain name.
    #[error("the name of an annotation is not a domain name with at least two parts")]
    Annotation,
}

/// The message on the wire.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    encrypted_data: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    encrypted_dek_source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    encrypted_dek_source_type: i32,
}

impl Envelope {
    /// Reads a message.
    ///
    /// # Errors
    /// It is not protobuf, or not within the bounds of Kubernetes.
    pub fn read(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let object = EncryptedObject::decode(bytes).map_err(|_| EnvelopeError::Protobuf)?;
        let kind = object.encrypted_dek_source_type;
        let source = SeedSource {
            kind: SeedKind::try_from(kind).map_err(|_| EnvelopeError::Kind(kind))?,
            encrypted: object.encrypted_dek_source,
            key_id: object.key_id,
            annotations: object.annotations,
        };
        if object.encrypted_data.is_empty() {
            return Err(EnvelopeError::Empty("the encrypted data"));
        }
        source.check()?;
        Ok(Self { source, data: object.encrypted_data })
    }

    /// The message, after a prefix.
    #[must_use]
    pub fn write(self, prefix: &[u8]) -> Vec<u8> {
        [prefix, &self.source.object(self.data).encode_to_vec()].concat()
    }
}

impl SeedSource {
    /// Checks what a plug-in or an envelope says.
    pub(super) fn check(&self) -> Result<(), EnvelopeError> {
        bounded("the encrypted DEK source", self.encrypted.len())?;
        check_key_id(&self.key_id)?;
        let sizes = self.annotations.iter().map(|(name, value)| name.len().saturating_add(value.len()));
        if sizes.fold(0_usize, usize::saturating_add) > MOST_ANNOTATIONS {
            return Err(EnvelopeError::TooLarge("the annotations together", MOST_ANNOTATIONS));
        }
        match self.annotations.keys().all(|name| is_domain_name(name)) {
            true => Ok(()),
            false => Err(EnvelopeError::Annotation),
        }
    }

    /// A short name for the source: no other source has it.
    pub(super) fn digest(&self) -> Vec<u8> {
        let bytes = self.clone().object(Vec::new()).encode_to_vec();
        digest::digest(&digest::SHA256, &bytes).as_ref().to_vec()
    }

    fn object(self, data: Vec<u8>) -> EncryptedObject {
        EncryptedObject {
            encrypted_data: data,
            key_id: self.key_id,
            encrypted_dek_source: self.encrypted,
            annotations: self.annotations,
            encrypted_dek_source_type: self.kind.into(),
        }
    }
}

/// Checks the name of a key.
pub(super) fn check_key_id(key_id: &str) -> Result<(), EnvelopeError> {
    bounded("the key ID", key_id.len())
}

fn bounded(what: &'static str, length: usize) -> Result<(), EnvelopeError> {
    match length {
        0 => Err(EnvelopeError::Empty(what)),
        length if length > MOST => Err(EnvelopeError::TooLarge(what, MOST)),
        _ => Ok(()),
    }
}

/// Whether a name is a fully qualified domain name, as Kubernetes checks them. It may end with a dot.
fn is_domain_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let ends = [label.bytes().next(), label.bytes().last()];
        label.len() <= 63
            && ends.into_iter().all(|end| end.is_some_and(is_outer))
            && label.bytes().all(|byte| is_outer(byte) || byte == b'-')
    };
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}
