//! Kubernetes' own layout in etcd, so that this server can be pointed at the etcd of a cluster, and kube-apiserver at
//! that of this server (ET-10 to ET-14, ET-50).
//!
//! Keys lie where kube-apiserver puts them. Values are written as kube-apiserver does with
//! `--storage-media-type=application/json`, and read in JSON and in protobuf, encrypted or not. All values come from
//! outside: each is decoded as a whole, so that nothing is served that a client could not read. Of custom objects only the
//! metadata is: what their definitions say of the rest is applied when they are shown.
//!
//! Never does I/O, and never guesses: a value that is not an object of the kind and of the name of its key is an error,
//! and so grants nothing (ET-12).

mod custom;
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

use self::places::{Found, Places};
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

    /// What a key names.
    fn find<'l, 'k>(&'l self, key: &'k str, etcd_key: &str) -> Result<Found<'l, 'k>, TransformError> {
        let found = self.places.of_key(key);
        found.ok_or_else(|| {
            failed(etcd_key, format!("has no place in etcd: {key:?} is no key of a served kind"))
        })
    }

    /// The encryption in force now, with the group and the plural name by which it knows what a key names.
    fn encryption<'k>(&self, found: &Found<'_, 'k>) -> (Arc<Encryption>, (&'k str, &'k str)) {
        let resource = match found {
            Found::In(place, _) => place.resource,
            Found::Custom(key) => (key.group, key.plural),
        };
        (self.encryption.current(), resource)
    }

    /// Reads a value that is not encrypted.
    fn opened(&self, found: &Found<'_, '_>, plain: &[u8], modified: Revision) -> Result<Opened, String> {
        match found {
            Found::In(place, rest) => match &place.forms {
                Some(forms) => forms.read(plain, rest, modified),
                None => record(plain).map(|value| Opened { value, is_stale: false }),
            },
            Found::Custom(key) => {
                let custom::Read { value, version } = key.read(plain, modified)?;
                // As kube-apiserver, which stores it in the version of today when it is written next.
                let is_stale = self.places.custom_row(key).is_some_and(|row| row.version != version);
                Ok(Opened { value, is_stale })
            }
        }
    }
}

impl EtcdLayout {
    /// Reads a value that is not encrypted, of a key of the store. At revision 0 the object has no resourceVersion.
    ///
    /// # Errors
    /// The problem, as a sentence that begins with the key: it is of no kind that is served, or see [`Layout::open`].
    pub(crate) fn read(&self, key: &str, plain: &[u8], at: Revision) -> Result<Bytes, String> {
        let found = self.find(key, key).map_err(|_| "is of no kind that this version serves".to_owned())?;
        self.opened(&found, plain, at).map(|opened| opened.value)
    }

    /// The first field of a document that its kind does not have, or that is there twice.
    pub(crate) fn unknown_field(&self, key: &str, document: &[u8]) -> Option<String> {
        match self.places.of_key(key)? {
            Found::In(place, _) => place.forms.as_ref()?.unknown_field(document),
            Found::Custom(_) => custom::unknown_field(document),
        }
    }

    /// What to write for the JSON of [`EtcdLayout::read`] at revision 0.
    pub(crate) fn value(&self, key: &str, json: &Bytes) -> Value {
        let is_object = match self.places.of_key(key) {
            Some(Found::In(place, _)) => place.forms.is_some(),
            Some(Found::Custom(_)) => true,
            None => false,
        };
        let bytes = match is_object {
            // As kube-apiserver ends its documents.
            true => Bytes::from([json, &b"\n"[..]].concat()),
            false => json.clone(),
        };
        Value { bytes, revision_at: None, relies_on: None }
    }

    /// The row of the custom kind of a key; none if it is of another kind, or of one that nobody defines.
    pub(crate) fn custom_row(&self, key: &str) -> Option<&'static Resource> {
        match self.places.of_key(key)? {
            Found::In(..) => None,
            Found::Custom(key) => self.places.custom_row(&key),
        }
    }

    /// The path below which the objects of a kind lie in etcd: `services/specs`.
    pub(crate) fn folder(&self, row: &'static Resource) -> Option<String> {
        self.places.folder(&storage::prefix(row, "")).map(str::to_owned)
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
        let (encryption, (group, plural)) = self.encryption(&found);
        let sealed = match encryption.providers(group, plural).seal(etcd_key, &plain)? {
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
        let found = self.find(key, etcd_key)?;
        check_size(etcd_key, sealed)?;
        let (encryption, (group, plural)) = self.encryption(&found);
        let decrypted = encryption.providers(group, plural).open(etcd_key, sealed)?;
        let opened = self.opened(&found, &decrypted.value, modified);
        let opened = opened.map_err(|problem| failed(etcd_key, problem))?;
        Ok(Opened { is_stale: opened.is_stale || decrypted.is_stale, ..opened })
    }

    /// ET-12: of what can be a custom object, only that of a defined kind.
    fn is_served(&self, key: &str) -> bool {
        self.places.is_served(key)
    }

    /// ET-14.
    fn lifetime(&self, key: &str) -> Option<Duration> {
        match self.places.of_key(key)? {
            Found::In(place, _) => place.lifetime(self.event_ttl),
            Found::Custom(_) => None,
        }
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
