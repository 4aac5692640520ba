//! The documents that say what is served. Every document is written once, when somebody asks for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kinds::discovery::{self, Discovery};
use kinds::{Kinds, openapi};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

use super::tagged::Tagged;
use crate::http::status::Status;
use crate::registry::runtime_config::RuntimeConfig;

/// The discovery documents, by path, without a trailing slash.
#[derive(Debug)]
pub(super) struct Discovered {
    pub(super) plain: BTreeMap<String, Bytes>,
    pub(super) aggregated: BTreeMap<&'static str, Bytes>,
}

/// The documents below `/openapi/v3` of the kinds that are not custom.
#[derive(Debug)]
pub(super) struct OpenApi {
    /// The document of `/openapi/v3`.
    pub(super) index: openapi::Documents,
    /// The others, by their path after `/openapi/v3/`.
    pub(super) documents: BTreeMap<String, Tagged>,
}

/// The document of `/openapi/v2`, in its two forms.
#[derive(Debug)]
pub(super) struct Swagger {
    pub(super) json: Tagged,
    pub(super) protobuf: Tagged,
}

/// The most that is kept of the documents of custom kinds below `/openapi/v3`, in bytes.
const MOST_KEPT: usize = 32 << 20;

/// The documents of custom kinds below `/openapi/v3` that were made, by their path after `/openapi/v3/`.
#[derive(Debug, Default)]
pub(super) struct CustomDocuments {
    made: BTreeMap<String, Tagged>,
    bytes: usize,
}

impl CustomDocuments {
    /// A document that was made.
    pub(super) fn find(&self, root: &str) -> Option<Tagged> {
        self.made.get(root).cloned()
    }

    /// Keeps a document, instead of the others if there is no room for all.
    pub(super) fn keep(&mut self, root: &str, document: Tagged) {
        if self.bytes.saturating_add(document.text.len()) > MOST_KEPT {
            *self = Self::default();
        }
        self.bytes = self.bytes.saturating_add(document.text.len());
        self.made.insert(root.to_owned(), document);
    }
}

/// The documents of a server, which know what is served. New ones are made for each change of a custom kind, so making them
/// takes little time.
pub struct Documents {
    /// The paths of the discovery documents, without a trailing slash.
    paths: BTreeSet<String>,
    discovered: OnceCell<Discovered>,
    root: OnceLock<Bytes>,
    /// The kinds that are served, in every version that is served.
    kinds: Kinds,
    /// Built on first use: few clients ask for them, and building them takes longer than the start of the server.
    openapi: Arc<OnceCell<OpenApi>>,
    /// Built on first use. It describes the custom kinds as well.
    pub(super) swagger: OnceCell<Swagger>,
    /// Built on first use, one at a time.
    pub(super) custom: Mutex<CustomDocuments>,
    runtime: RuntimeConfig,
    /// The state of the custom kinds that the documents describe.
    generation: u64,
}

impl Documents {
    /// The documents of a server with these kinds and these versions switched on.
    pub fn new(kinds: &Kinds, runtime: RuntimeConfig) -> Self {
        let kinds = kinds.only(|row| runtime.serves(row));
        let generation = kinds.custom().generation();
        Self {
            paths: discovery::paths(&kinds, runtime.authorization_v1beta1),
            discovered: OnceCell::new(),
            root: OnceLock::new(),
            kinds,
            openapi: Arc::default(),
            swagger: OnceCell::new(),
            custom: Mutex::default(),
            runtime,
            generation,
        }
    }

    /// The documents of today, if the custom kinds have changed.
    pub(super) fn renewed(&self) -> Option<Self> {
        (self.kinds.custom().generation() != self.generation).then(|| {
            let openapi = Arc::clone(&self.openapi);
            Self { openapi, ..Self::new(&self.kinds, self.runtime) }
        })
    }

    /// The kinds that are served, in every version that is served.
    pub(crate) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Returns whether there is a document at a path. The path has no trailing slash.
    pub fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Whether all kinds of a group are custom.
    pub(crate) fn is_custom(&self, group: &str) -> bool {
        let built_in = self.kinds.built_in_rows().any(|row| row.group == group);
        !built_in && self.kinds.custom().rows().iter().any(|row| row.group == group)
    }

    /// Returns the paths of all documents.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// The document of `/`, which is made of all paths.
    pub(crate) fn root(&self, paths: impl FnOnce() -> Vec<String>) -> &Bytes {
        self.root.get_or_init(|| json!({"paths": paths()}).to_string().into())
    }

    /// Returns the discovery documents, which a thread of its own makes.
    ///
    /// # Errors
    /// They cannot be made.
    pub(super) async fn discovered(&self) -> Result<&Discovered, Status> {
        let make = || async {
            let (kinds, with_old_reviews) = (self.kinds.clone(), self.runtime.authorization_v1beta1);
            let make = move || {
                let write = |value: Value| Bytes::from(value.to_string());
                let served = Discovery::of(&kinds, with_old_reviews, pki::sha256);
                let plain = served.documents().into_iter().map(|(path, value)| (path, write(value)));
                let aggregated = served.aggregated().into_iter().map(|(path, value)| (path, write(value)));
                Discovered { plain: plain.collect(), aggregated: aggregated.collect() }
            };
            tokio::task::spawn_blocking(make).await.map_err(Status::internal)
        };
        self.discovered.get_or_try_init(make).await
    }

    /// Returns the OpenAPI documents, which a thread of its own makes.
    ///
    /// # Errors
    /// They cannot be made.
    pub(super) async fn openapi(&self) -> Result<&OpenApi, Status> {
        let make = || async {
            let kinds = self.kinds.clone();
            let make = move || {
                let mut index = openapi::Documents::of(&kinds);
                let texts = index.take().into_iter();
                OpenApi { documents: texts.map(|(root, text)| (root, Tagged::new(text))).collect(), index }
            };
            tokio::task::spawn_blocking(make).await.map_err(Status::internal)
        };
        self.openapi.get_or_try_init(make).await
    }
}
