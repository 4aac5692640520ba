//! `/openapi`: the schemas of all kinds, which kubectl uses to explain, validate and merge. Documents are made when
//! somebody asks for them, on threads of their own, and kept.

use std::collections::BTreeMap;

use http::header::HeaderValue;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use kinds::openapi;
use kinds::resource::Resource;

use super::app::App;
use super::custom_schemas::{self, definition_of};
use super::documents::{Documents, Swagger};
use super::tagged::Tagged;
use crate::authz::Permit;
use crate::http::negotiate::{self, Forms, Syntax};
use crate::http::status::{Answer, JSON, Status, json_bytes, page_not_found};

/// The media types of the protobuf form of `/openapi/v2` that clients request.
const PROTOBUF: &[&str] = &[
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
/// The media type of the response, which must not contain `@`.
const PROTOBUF_ANSWER: HeaderValue =
    HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
/// The version that `/openapi/v2` states.
const VERSION: &str = "v1.36.0";

/// Answers with an OpenAPI document. GET only.
pub(crate) async fn answer(_permit: Permit, app: &App, path: &str, head: &Parts) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let documents = app.documents();
    if path == "/openapi/v2" {
        return v2(app, &documents, &head.headers).await;
    }
    let syntax = negotiate::document(&head.headers, Forms::TEXT)?;
    let known = documents.openapi().await?;
    let found = match path.strip_prefix("/openapi/v3/") {
        None => Some(Tagged::new(known.index.index(custom_states(app)))),
        Some(root) => match known.documents.get(root) {
            Some(document) if custom_rows(&documents, root).is_empty() => Some(document.clone()),
            _ => custom(app, &documents, root).await?,
        },
    };
    Ok(found.map_or_else(page_not_found, |document| text(&document, syntax, &head.headers)))
}

/// The document in JSON, of which YAML is made later.
fn text(document: &Tagged, syntax: Syntax, headers: &HeaderMap) -> Answer {
    match syntax {
        // The tag is that of JSON.
        Syntax::Yaml => json_bytes(StatusCode::OK, document.text.clone()),
        _ => document.answer(JSON, headers),
    }
}

/// The group and version of a path below `/openapi/v3/`.
fn group_version(root: &str) -> Option<(&str, &str)> {
    root.strip_prefix("apis/")?.split_once('/')
}

/// The custom kinds of a group and version.
fn custom_rows(documents: &Documents, root: &str) -> Vec<&'static Resource> {
    let Some(at) = group_version(root) else { return Vec::new() };
    let rows = documents.kinds().custom().rows().into_iter();
    rows.filter(|row| (row.group, row.version) == at).collect()
}

/// The documents of custom kinds, each with a text that changes with it.
fn custom_states(app: &App) -> BTreeMap<String, String> {
    let custom = app.kinds().custom();
    let mut states: BTreeMap<String, String> = BTreeMap::new();
    for row in custom.rows() {
        let name = definition_of(row);
        let since = custom.definition(&name).map_or(0, |definition| definition.since());
        let state = states.entry(format!("apis/{}/{}", row.group, row.version)).or_default();
        state.push_str(&format!("{name}:{since};"));
    }
    states
}

/// The document of a group and version of custom kinds, made of their definitions; none if there are none. It is kept until
/// a definition changes.
async fn custom(app: &App, documents: &Documents, root: &str) -> Result<Option<Tagged>, Status> {
    let rows = custom_rows(documents, root);
    if rows.is_empty() {
        return Ok(None);
    }
    let mut kept = documents.custom.lock().await;
    if let Some(made) = kept.find(root) {
        return Ok(Some(made));
    }
    let definitions = custom_schemas::definitions_of(app, &rows).await?;
    let make = move || Tagged::new(openapi::of_custom(custom_schemas::read(rows, definitions)));
    let made = tokio::task::spawn_blocking(make).await.map_err(Status::internal)?;
    kept.keep(root, made.clone());
    Ok(Some(made))
}

/// The one document of `/openapi/v2`.
async fn v2(app: &App, documents: &Documents, headers: &HeaderMap) -> Result<Answer, Status> {
    let is_protobuf = negotiate::prefers(headers, PROTOBUF)?;
    let made = documents.swagger.get_or_try_init(|| swagger(app, documents)).await?;
    Ok(match is_protobuf {
        true => made.protobuf.answer(PROTOBUF_ANSWER, headers),
        false => text(&made.json, negotiate::document(headers, Forms::TEXT)?, headers),
    })
}

async fn swagger(app: &App, documents: &Documents) -> Result<Swagger, Status> {
    let kinds = documents.kinds().clone();
    let definitions = custom_schemas::definitions(app).await?;
    let make = move || {
        let custom = custom_schemas::read(kinds.custom().rows(), definitions);
        let made = openapi::Swagger::of(&kinds, custom, VERSION);
        Swagger { json: Tagged::new(made.json), protobuf: Tagged::new(made.protobuf) }
    };
    tokio::task::spawn_blocking(make).await.map_err(Status::internal)
}
