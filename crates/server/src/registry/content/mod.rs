//! The content of a store without a server over it: read at one revision, written into an empty store, rewritten in place
//! (ET-60, ET-61).
//!
//! Works on the file of an embedded store that no process has open, and on etcd, which servers may use meanwhile. Objects pass
//! through in pages: never more than one page is in memory. Keys are those of the store (`/core/pods/default/web`), and
//! documents are JSON without a resourceVersion, whatever the form in which they lie there.
//!
//! Reading never writes. What is not served is counted and never touched: also custom objects without a definition. Nothing here prints or reads flags.

mod decided;
mod definitions;
mod follow;
mod path;
mod rewrite;
mod source;
mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kinds::Kinds;
use portcullis_store::encryption::LiveEncryption;
use portcullis_store::etcd::{Layout as _, Opened};
use portcullis_store::{Revision, StoreError, TransformError};

use super::backend::EtcdConfig;
use super::etcd_layout::EtcdLayout;
use super::storage;
use crate::encryption::EncryptionConfig;

/// The documents of objects.
pub use bytes::Bytes;

pub use self::decided::Decided;
pub use self::follow::{Etcd, EtcdSource};
pub use self::path::{key_of, path_of};
pub use self::rewrite::Rewritten;
pub use self::source::{Item, Source, resource};
pub use self::target::{Target, are_equal};

/// Where a store is.
#[derive(Clone, Debug)]
pub enum Location {
    /// The file of an embedded store.
    File(PathBuf),
    /// etcd.
    Etcd(Box<EtcdConfig>),
}

/// A store, and how its values are read and written. See the module.
#[derive(Debug)]
pub struct Content {
    location: Location,
    kinds: Kinds,
    encryption: Arc<LiveEncryption>,
    event_ttl: Duration,
    layout: EtcdLayout,
}

/// Something cannot be done with a store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ContentError {
    /// The configuration or the content does not allow it.
    #[error("{0}")]
    Invalid(String),
    /// The store cannot be reached, read or written.
    #[error("{0}")]
    Unavailable(String),
}

impl From<StoreError> for ContentError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(why) => Self::Invalid(why),
            error => Self::Unavailable(error.to_string()),
        }
    }
}

/// A value that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The key: in etcd with the prefix.
    pub key: String,
    /// What is wrong with the value: a sentence that begins with the key.
    pub why: String,
}

impl From<TransformError> for Unreadable {
    fn from(error: TransformError) -> Self {
        Self { key: error.key.into(), why: error.problem }
    }
}

impl Content {
    /// A store with objects of these kinds. Starts the KMS plug-ins of the encryption. `event_ttl` is how long events that are
    /// written to etcd live; zero for as long as nobody deletes them.
    ///
    /// # Errors
    /// A KMS plug-in is not healthy, or kinds would share keys in etcd.
    pub async fn new(
        location: Location,
        kinds: Kinds,
        encryption: &EncryptionConfig,
        event_ttl: Duration,
    ) -> Result<Self, ContentError> {
        let encryption = Arc::clone(encryption.rules());
        let started = encryption.current().start().await;
        started
            .map_err(|error| ContentError::Unavailable(format!("--encryption-provider-config: {error}")))?;
        let layout = EtcdLayout::new(&kinds, Arc::clone(&encryption), event_ttl)
            .map_err(|error| ContentError::Invalid(error.to_string()))?;
        Ok(Self { location, kinds, encryption, event_ttl, layout })
    }

    /// Whether nothing was ever stored there: the file does not exist.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(&self.location, Location::File(path) if !path.exists())
    }

    /// Whether new secrets are encrypted where they are written.
    #[must_use]
    pub fn encrypts_secrets(&self) -> bool {
        self.encryption.current().providers("", "secrets").encrypt()
    }

    /// Reads a document that belongs under a key, strictly: it has no fields that its kind does not have. Returns it in the
    /// form of [`Item::Object`].
    ///
    /// # Errors
    /// What is wrong with it, as a sentence that begins with its name.
    pub fn read(&self, key: &str, document: &str) -> Result<Bytes, String> {
        let read = self.layout.read(key, document.as_bytes(), Revision(0))?;
        if !self.layout.is_served(key) {
            return Err("is of a kind that no definition describes, so nobody could read it".to_owned());
        }
        if let Some(problem) = self.layout.unknown_field(key, document.as_bytes()) {
            return Err(format!("has an {problem}"));
        }
        self.current(key, read)
    }

    /// A document in the version in which its kind is stored today.
    ///
    /// # Errors
    /// It is of a version that its definition no longer has.
    fn current(&self, key: &str, json: Bytes) -> Result<Bytes, String> {
        let other = self.layout.custom_row(key).filter(|row| !storage::is_of_version(row, &json));
        let Some(row) = other else { return Ok(json) };
        storage::served(row, &json).map_err(|status| format!("cannot be served: {}", status.message()))
    }

    /// A second layout, for callers that take one by value.
    fn own_layout(&self) -> Result<EtcdLayout, ContentError> {
        EtcdLayout::new(&self.kinds, Arc::clone(&self.encryption), self.event_ttl)
            .map_err(|error| ContentError::Invalid(error.to_string()))
    }

    /// Reads a record of the file of an embedded store.
    fn open_record(&self, key: &str, sealed: &[u8]) -> Result<Opened, Unreadable> {
        use portcullis_store::Transformer as _;
        let opened = self.encryption.open(key, sealed)?;
        let unreadable = |why| Unreadable { key: key.to_owned(), why };
        let value = self.layout.read(key, &opened.value, Revision(0)).map_err(unreadable)?;
        Ok(Opened { value, is_stale: opened.is_stale })
    }
}
