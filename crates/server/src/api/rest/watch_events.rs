//! The events of a watch as the client gets them: one JSON document a line, or one protobuf frame each (AP-80 to AP-85).

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use portcullis_store::{Revision, StoreError};
use serde_json::json;

use super::render::View;
use crate::http::body::Body;
use crate::http::encode;
use crate::http::status::{Answer, Status, json_bytes};

const PROTOBUF_STREAM: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
/// The default timeout of a watch. A random part of up to the same length is added, so that watches do not all end
/// together.
const SHORTEST: Duration = Duration::from_secs(1800);
/// Pending events are sent together in chunks of about this many bytes.
pub(super) const PIECE: usize = 64 * 1024;

/// Returns the randomized default timeout of a watch.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn spread() -> Result<Duration, Status> {
    let mut random = [0_u8; 2];
    getrandom::fill(&mut random).map_err(Status::internal)?;
    Ok(SHORTEST + SHORTEST * u32::from(u16::from_ne_bytes(random)) / u32::from(u16::MAX))
}

/// 410 for a revision whose changes are no longer known.
pub(super) fn too_old(error: &StoreError) -> Status {
    Status::expired(format!("too old resource version: {error}"))
}

/// The answer to a watch, with a body of events.
pub(super) fn answer(view: &View, body: Body) -> Answer {
    let mut answer = json_bytes(StatusCode::OK, Bytes::new());
    if view.is_protobuf() {
        answer.headers_mut().insert(CONTENT_TYPE, PROTOBUF_STREAM);
    }
    *answer.body_mut() = body;
    answer
}

/// Writes the events of one watch.
pub(super) struct EventWriter {
    view: View,
    /// Whether no table has been sent yet: the first one includes the columns (AP-90).
    is_first: bool,
}

impl EventWriter {
    pub(super) fn new(view: View) -> Self {
        Self { view, is_first: true }
    }

    /// An event about an object.
    pub(super) fn object(&mut self, kind: &str, object: &Bytes) -> Result<Bytes, Status> {
        let document = self.view.document(object, self.is_first)?;
        self.is_first = false;
        self.event(kind, &document)
    }

    /// A bookmark. `is_initial_end`: the objects that were there at the start have been sent.
    pub(super) fn bookmark(&self, revision: Revision, is_initial_end: bool) -> Result<Bytes, Status> {
        let version = revision.0.to_string();
        let metadata = match is_initial_end {
            false => json!({ "resourceVersion": version }),
            true => json!({"resourceVersion": version,
                "annotations": {"k8s.io/initial-events-end": "true"}}),
        };
        self.event("BOOKMARK", &self.view.bookmark(metadata)?)
    }

    /// The last event of a watch that fails.
    pub(super) fn error(&self, status: &Status) -> Result<Bytes, Status> {
        self.event("ERROR", status.document().to_string().as_bytes())
    }

    fn event(&self, kind: &str, document: &[u8]) -> Result<Bytes, Status> {
        match self.view.is_protobuf() {
            true => encode::protobuf_event(kind, document),
            false => Ok(line(kind, document)),
        }
    }
}

/// Renders a watch event in JSON.
fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + 32);
    line.put_slice(br#"{"type":""#);
    line.put_slice(kind.as_bytes());
    line.put_slice(br#"","object":"#);
    line.put_slice(object);
    line.put_slice(b"}\n");
    line.freeze()
}
