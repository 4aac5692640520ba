//! `/openapi`: the schemas of all kinds, which kubectl uses to explain, validate and merge.
//!
//! DIVERGES: the document of `/openapi/v2` describes no kinds. It exists because kubectl fetches it before it creates
//! objects that cannot be patched, and leaves the validation of kinds that are missing from it to the server.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use kinds::resources::definitions::DEFINITIONS;
use serde_json::{Value, json};

use super::app::App;
use crate::authz::Permit;
use crate::http::negotiate::{self, Forms};
use crate::http::status::{Answer, Status, json, json_bytes, page_not_found};
use crate::registry::write;

/// The protobuf media type of `/openapi/v2` that clients request.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the response, which differs because a media type must not contain `@`.
const PROTOBUF_ANSWER: HeaderValue =
    HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");

const TITLE: &str = "Kubernetes";
const VERSION: &str = "v1.36.0";

/// Answers with an OpenAPI document. GET only.
pub(crate) async fn answer(_permit: Permit, app: &App, path: &str, head: &Parts) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    if path == "/openapi/v2" {
        return v2(head);
    }
    negotiate::document(&head.headers, Forms::TEXT)?;
    let documents = app.documents();
    let known = documents.openapi();
    let document = match path.strip_prefix("/openapi/v3/") {
        None => Some(known.index(custom_states(app)).into()),
        Some(root) => match known.document(root) {
            Some(text) if !has_custom(app, root) => Some(Bytes::copy_from_slice(text.as_bytes())),
            _ => custom(app, root).await?,
        },
    };
    Ok(document.map_or_else(page_not_found, |text| json_bytes(StatusCode::OK, text)))
}

/// The group and version of a path below `/openapi/v3/`.
fn group_version(root: &str) -> Option<(&str, &str)> {
    root.strip_prefix("apis/")?.split_once('/')
}

/// Whether a group and version has custom kinds.
fn has_custom(app: &App, root: &str) -> bool {
    group_version(root)
        .is_some_and(|at| app.kinds().custom().rows().iter().any(|row| (row.group, row.version) == at))
}

/// The documents of custom kinds, each with a text that changes with it.
fn custom_states(app: &App) -> BTreeMap<String, String> {
    let custom = app.kinds().custom();
    let mut states: BTreeMap<String, String> = BTreeMap::new();
    for row in custom.rows() {
        let name = format!("{}.{}", row.plural, row.group);
        let since = custom.definition(&name).map_or(0, |definition| definition.since());
        let state = states.entry(format!("apis/{}/{}", row.group, row.version)).or_default();
        state.push_str(&format!("{name}:{since};"));
    }
    states
}

/// The document of a group and version of custom kinds, made of their definitions; none if there are none.
async fn custom(app: &App, root: &str) -> Result<Option<Bytes>, Status> {
    let Some(at) = group_version(root) else { return Ok(None) };
    let mut kinds = Vec::new();
    for row in app.kinds().custom().rows().into_iter().filter(|row| (row.group, row.version) == at) {
        let name = format!("{}.{}", row.plural, row.group);
        let Some(stored) = write::find(app.backend(), &DEFINITIONS, "", &name).await? else { continue };
        let versions =
            stored.object.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
        let mut versions = versions.into_iter().flatten();
        let version =
            versions.find(|version| version.get("name").and_then(Value::as_str) == Some(row.version));
        let schema =
            version.and_then(|version| version.get("schema")?.get("openAPIV3Schema")?.as_object().cloned());
        kinds.push((row, schema.unwrap_or_default()));
    }
    if kinds.is_empty() {
        return Ok(None);
    }
    // Definitions can be large.
    let made = tokio::task::spawn_blocking(move || kinds::openapi::of_custom(kinds)).await;
    made.map(|text| Some(text.into())).map_err(Status::internal)
}

fn v2(head: &Parts) -> Result<Answer, Status> {
    if negotiate::prefers(&head.headers, PROTOBUF)? {
        let mut answer = json_bytes(StatusCode::OK, v2_protobuf().into());
        answer.headers_mut().insert(CONTENT_TYPE, PROTOBUF_ANSWER);
        return Ok(answer);
    }
    let info = json!({"title": TITLE, "version": VERSION});
    Ok(json(StatusCode::OK, &json!({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}})))
}

/// Encodes the message `openapi.v2.Document`: swagger 1, info 2 (title 1, version 2), paths 8, definitions 9.
fn v2_protobuf() -> Vec<u8> {
    let info = [field(1, TITLE.as_bytes()), field(2, VERSION.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info), field(8, &[]), field(9, &[])].concat()
}

/// Encodes a length-delimited field of fewer than 128 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap_or_default()];
    field.extend_from_slice(bytes);
    field
}
