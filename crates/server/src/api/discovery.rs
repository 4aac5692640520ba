//! What is served, for clients that ask before they use it (AP-100 to AP-105). Every document is written once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use kinds::discovery::{AGGREGATED, Discovery};
use kinds::openapi;
use portcullis_kinds as kinds;
use portcullis_pki as pki;
use serde_json::{Value, json};

use super::negotiate;
use super::route::Route;
use crate::authz::Permit;
use crate::config::RuntimeConfig;
use crate::service::App;
use crate::status::{Answer, Status, json_bytes};

/// The documents, written.
pub struct Documents {
    /// By path, without a trailing slash.
    plain: BTreeMap<String, Bytes>,
    aggregated: BTreeMap<&'static str, Bytes>,
    root: Bytes,
    runtime: RuntimeConfig,
    /// Written when somebody asks for them: few clients do, and it takes longer than a start.
    openapi: OnceLock<openapi::Documents>,
}

impl Documents {
    /// The documents of a server with these versions switched on.
    pub fn new(runtime: RuntimeConfig) -> Self {
        let write = |value: &Value| Bytes::from(value.to_string());
        let served = Discovery::of(runtime.resources(), runtime.authorization_v1beta1, pki::sha256);
        let plain = served.documents().into_iter().map(|(path, value)| (path, write(&value)));
        let aggregated = served.aggregated();
        let mut documents = Self {
            plain: plain.collect(),
            aggregated: aggregated.iter().map(|(path, value)| (*path, write(value))).collect(),
            root: Bytes::new(),
            runtime,
            openapi: OnceLock::new(),
        };
        documents.root = write(&json!({"paths": Route::paths(&documents)}));
        documents
    }

    /// Whether there is a document at a path, which has no trailing slash.
    pub fn has(&self, path: &str) -> bool {
        self.plain.contains_key(path)
    }

    /// Where the documents are.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.plain.keys().map(String::as_str)
    }

    /// The documents that describe the fields of all kinds.
    pub(crate) fn openapi(&self) -> &openapi::Documents {
        self.openapi.get_or_init(|| openapi::Documents::of(self.runtime.resources()))
    }
}

/// A discovery document. GET only (AP-100).
pub(crate) fn answer(_permit: Permit, app: &App, path: &str, head: &Parts) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let documents = app.documents();
    let stem = path.strip_suffix('/').unwrap_or(path);
    if let Some(aggregated) = documents.aggregated.get(stem)
        && negotiate::discovery(&head.headers)?
    {
        let mut answer = json_bytes(StatusCode::OK, aggregated.clone());
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
        return Ok(answer);
    }
    negotiate::document(&head.headers)?;
    let document = if stem.is_empty() { Some(&documents.root) } else { documents.plain.get(stem) };
    Ok(json_bytes(StatusCode::OK, document.ok_or_else(Status::not_found)?.clone()))
}
