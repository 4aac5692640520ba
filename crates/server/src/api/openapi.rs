//! `/openapi`: the schemas of all kinds, which kubectl uses to explain, validate and merge.
//!
//! DIVERGES: the document of `/openapi/v2` describes no kinds. It exists because kubectl fetches it before it creates
//! objects that cannot be patched, and leaves the validation of kinds that are missing from it to the server.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use serde_json::json;

use super::app::App;
use crate::authz::Permit;
use crate::http::negotiate::{self, Forms};
use crate::http::status::{Answer, Status, json, json_bytes, page_not_found};

/// The protobuf media type of `/openapi/v2` that clients request.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the response, which differs because a media type must not contain `@`.
const PROTOBUF_ANSWER: HeaderValue =
    HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");

const TITLE: &str = "Kubernetes";
const VERSION: &str = "v1.36.0";

/// Answers with an OpenAPI document. GET only.
pub(crate) fn answer(_permit: Permit, app: &App, path: &str, head: &Parts) -> Result<Answer, Status> {
    if head.method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    if path == "/openapi/v2" {
        return v2(head);
    }
    negotiate::document(&head.headers, Forms::TEXT)?;
    let documents = app.documents().openapi();
    let document = match path.strip_prefix("/openapi/v3/") {
        None => Some(documents.index()),
        Some(root) => documents.document(root),
    };
    Ok(document.map_or_else(page_not_found, |text| {
        json_bytes(StatusCode::OK, Bytes::copy_from_slice(text.as_bytes()))
    }))
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
