//! Kubernetes' own layout in etcd, so that this server can be pointed at the etcd of a cluster, and kube-apiserver at
//! that of this server (ET-10 to ET-14, ET-50).
//!
//! Keys lie where kube-apiserver puts them. Values are written as kube-apiserver does with
//! `--storage-media-type=application/json`, and read in JSON and in protobuf, encrypted or not. All values come from
//! outside: each is decoded as a whole, so that nothing is served that a client could not read.
//!
//! Never does I/O, and never guesses: a value that is not an object of the kind and of the name of its key is an error,
//! and so grants nothing (ET-12).

mod form;
mod places;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kinds::resource::Resource;
use kinds::{Kinds, protobuf};
use portcullis_apimachinery::json;
use portcullis_store::encryption::{Encryption, LiveEncryption};
use portcullis_store::etcd::{GroupResource, Layout, Opened};
use portcullis_store::{Revision, TransformError, Value};

use self::places::{Place, Places};
use crate::registry::storage;

pub use self::places::SharedPlace;

/// The largest value in etcd that is written or read, in bytes. The limit of etcd for a request is 1.5 MiB by default
/// (`--max-request-bytes`), and 10 MiB is the most that its documentation advises.
const MAX_VALUE: usize = 10 << 20;

/// The layout of Kubernetes. See the module.
#[derive(Debug)]
pub struct EtcdLayout {
    places: Places,
    encryption: Arc<LiveEncryption>,
    event_ttl: Duration,
}

impl EtcdLayout {
    /// A layout for the kinds that are served. `event_ttl` is the lifetime of events (`--event-ttl`); zero for as
    /// long as nobody deletes them.
    ///
    /// # Errors
    /// Two kinds would lie under the same keys. This cannot happen for the kinds of [`Kinds::built_in`].
    pub fn new(
        kinds: &Kinds,
        encryption: Arc<LiveEncryption>,
        event_ttl: Duration,
    ) -> Result<Self, SharedPlace> {
        Ok(Self { places: Places::of(kinds)?, encryption, event_ttl })
    }

    /// The place of a key, the namespace and the name in it, and the encryption in force now.
    fn find<'l, 'k>(&'l self, key: &'k str, etcd_key: &str) -> Result<Found<'l, 'k>, TransformError> {
        let (place, rest) = self.places.of_key(key).ok_or_else(|| {
            failed(etcd_key, format!("has no place in etcd: {key:?} is no key of a served kind"))
        })?;
        Ok(Found { place, rest, encryption: self.encryption.current() })
    }
}

impl EtcdLayout {
    /// Reads a value that is not encrypted, of a key of the store. At revision 0 the object has no resourceVersion.
    ///
    /// # Errors
    /// The problem, as a sentence that begins with the key: it is of no kind that is served, or see [`Layout::open`].
    pub(crate) fn read(&self, key: &str, plain: &[u8], at: Revision) -> Result<Bytes, String> {
        let found = self.find(key, key).map_err(|_| "is of no kind that this version serves".to_owned())?;
        found.read(plain, at).map(|opened| opened.value)
    }

    /// The first field of a document that its kind does not have, or that is there twice.
    pub(crate) fn unknown_field(&self, key: &str, document: &[u8]) -> Option<String> {
        self.places.of_key(key)?.0.forms.as_ref()?.unknown_field(document)
    }

    /// What to write for the JSON of [`EtcdLayout::read`] at revision 0.
    pub(crate) fn value(&self, key: &str, json: &Bytes) -> Value {
        let is_object = self.places.of_key(key).is_some_and(|(place, _)| place.forms.is_some());
        let bytes = match is_object {
            // As kube-apiserver ends its documents.
            true => Bytes::from([json, &b"\n"[..]].concat()),
            false => json.clone(),
        };
        Value { bytes, revision_at: None }
    }

    /// The path below which the objects of a kind lie in etcd: `services/specs`.
    pub(crate) fn folder(&self, row: &'static Resource) -> Option<&str> {
        self.places.folder(&storage::prefix(row, ""))
    }
}

/// The place that a key names, and how its values are encrypted.
struct Found<'l, 'k> {
    place: &'l Place,
    rest: &'k str,
    encryption: Arc<Encryption>,
}

impl Found<'_, '_> {
    /// Reads a value of etcd.
    fn open(&self, etcd_key: &str, sealed: &[u8], modified: Revision) -> Result<Opened, TransformError> {
        check_size(etcd_key, sealed)?;
        let (group, plural) = self.place.resource;
        let decrypted = self.encryption.providers(group, plural).open(etcd_key, sealed)?;
        let opened = self.read(&decrypted.value, modified).map_err(|problem| failed(etcd_key, problem))?;
        Ok(Opened { is_stale: opened.is_stale || decrypted.is_stale, ..opened })
    }

    /// Reads a value that is not encrypted.
    fn read(&self, plain: &[u8], modified: Revision) -> Result<Opened, String> {
        match &self.place.forms {
            Some(forms) => forms.read(plain, self.rest, modified),
            None => record(plain).map(|value| Opened { value, is_stale: false }),
        }
    }
}

impl Layout for EtcdLayout {
    /// ET-10.
    fn path(&self, key: &str) -> Option<String> {
        self.places.path(key)
    }

    /// ET-10, ET-12: what has no key is left alone.
    fn key(&self, path: &str) -> Option<Box<str>> {
        self.places.key(path)
    }

    /// ET-10.
    fn prefix(&self, prefix: &str) -> Option<String> {
        self.places.prefix(prefix)
    }

    fn resource(&self, key: &str) -> GroupResource {
        self.places.resource(key)
    }

    /// ET-11, ET-13, ET-50: JSON without the resourceVersion, and encrypted if it is to be.
    fn seal(&self, key: &str, etcd_key: &str, value: &Value) -> Result<Vec<u8>, TransformError> {
        let found = self.find(key, etcd_key)?;
        let plain = match value.revision_at {
            None => Cow::Borrowed(&*value.bytes),
            Some(at) => {
                let mut cut = storage::without_revision(&value.bytes, at).ok_or_else(|| {
                    failed(
                        etcd_key,
                        format!("has no resourceVersion at byte {at}, where its revision belongs"),
                    )
                })?;
                // As kube-apiserver ends its documents.
                cut.extend_from_slice(b"\n");
                Cow::Owned(cut.to_vec())
            }
        };
        check_size(etcd_key, &plain)?;
        // The key in etcd is the additional data of aesgcm: kube-apiserver must find the same.
        let (group, plural) = found.place.resource;
        let sealed = match found.encryption.providers(group, plural).seal(etcd_key, &plain)? {
            Cow::Owned(sealed) => Some(sealed),
            Cow::Borrowed(_) => None,
        };
        Ok(sealed.unwrap_or_else(|| plain.into_owned()))
    }

    /// ET-11, ET-12, ET-13, ET-50.
    fn open(
        &self,
        key: &str,
        etcd_key: &str,
        sealed: &[u8],
        modified: Revision,
    ) -> Result<Opened, TransformError> {
        self.find(key, etcd_key)?.open(etcd_key, sealed, modified)
    }

    /// ET-14.
    fn lifetime(&self, key: &str) -> Option<Duration> {
        let (place, _) = self.places.of_key(key)?;
        place.lifetime(self.event_ttl)
    }
}

/// Reads a record, which is JSON of any form. Of what kube-apiserver keeps in protobuf, the key alone counts.
fn record(plain: &[u8]) -> Result<Bytes, String> {
    if plain.starts_with(protobuf::MAGIC) {
        return Ok(Bytes::from_static(b"{}"));
    }
    match json::check_bytes(plain) {
        Ok(text) => Ok(Bytes::copy_from_slice(text.as_bytes())),
        Err(error) => Err(format!("is not a record of this server: {error}")),
    }
}

/// Checks the size of a value before anything is done with it.
fn check_size(etcd_key: &str, value: &[u8]) -> Result<(), TransformError> {
    match value.len() {
        size if size > MAX_VALUE => {
            Err(failed(etcd_key, format!("has {size} bytes; at most {MAX_VALUE} are read and written")))
        }
        _ => Ok(()),
    }
}

fn failed(etcd_key: &str, problem: String) -> TransformError {
    TransformError { key: etcd_key.into(), problem }
}
