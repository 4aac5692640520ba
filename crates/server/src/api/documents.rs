//! The documents that say what is served. Every document is written once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use kinds::discovery::Discovery;
use kinds::{Kinds, openapi};
use serde_json::{Value, json};

use crate::registry::runtime_config::RuntimeConfig;

/// The serialized discovery documents.
pub struct Documents {
    /// The documents by path, without a trailing slash.
    pub(super) plain: BTreeMap<String, Bytes>,
    pub(super) aggregated: BTreeMap<&'static str, Bytes>,
    /// Written when somebody asks for it.
    root: OnceLock<Bytes>,
    /// The kinds that are served, in every version that is served.
    kinds: Kinds,
    /// Built on first use: few clients ask for them, and building them takes longer than the start of the server.
    openapi: OnceLock<openapi::Documents>,
}

impl Documents {
    /// The documents of a server with these kinds and these versions switched on.
    pub fn new(kinds: &Kinds, runtime: RuntimeConfig) -> Self {
        let kinds = kinds.only(|row| runtime.serves(row));
        let write = |value: &Value| Bytes::from(value.to_string());
        let served = Discovery::of(&kinds, runtime.authorization_v1beta1, pki::sha256);
        let plain = served.documents().into_iter().map(|(path, value)| (path, write(&value)));
        let aggregated = served.aggregated();
        Self {
            plain: plain.collect(),
            aggregated: aggregated.iter().map(|(path, value)| (*path, write(value))).collect(),
            root: OnceLock::new(),
            kinds,
            openapi: OnceLock::new(),
        }
    }

    /// The kinds that are served, in every version that is served.
    pub(crate) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Returns whether there is a document at a path. The path has no trailing slash.
    pub fn has(&self, path: &str) -> bool {
        self.plain.contains_key(path)
    }

    /// Returns the paths of all documents.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.plain.keys().map(String::as_str)
    }

    /// The document of `/`, which is made of all paths.
    pub(crate) fn root(&self, paths: impl FnOnce() -> Vec<String>) -> &Bytes {
        self.root.get_or_init(|| json!({"paths": paths()}).to_string().into())
    }

    /// Returns the OpenAPI documents.
    pub(crate) fn openapi(&self) -> &openapi::Documents {
        self.openapi.get_or_init(|| openapi::Documents::of(&self.kinds))
    }
}
