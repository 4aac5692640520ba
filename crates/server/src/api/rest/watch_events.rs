//! The events of a watch as the client gets them: one JSON document a line, or one protobuf frame each (AP-80 to AP-85).

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use kinds::resource::Resource;
use portcullis_store::{Entry, Revision, StoreError};
use serde_json::json;

use super::render::View;
use crate::api::app::App;
use crate::api::event_cache::{EventCache, Key};
use crate::http::body::Body;
use crate::http::encode;
use crate::http::status::{Answer, Status, json_bytes};
use crate::registry::storage;

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
    resource: &'static Resource,
    /// What was written for other watches.
    cache: Arc<EventCache>,
    /// Whether no table has been sent yet: the first one includes the columns (AP-90).
    is_first: bool,
}

impl EventWriter {
    pub(super) fn new(app: &App, view: View, resource: &'static Resource) -> Self {
        Self { view, resource, cache: Arc::clone(app.event_cache()), is_first: true }
    }

    /// An event about an object that is there, in the state of an entry.
    pub(super) fn present(&mut self, kind: &'static str, entry: &Arc<Entry>) -> Result<Bytes, Status> {
        self.object(kind, entry, None)
    }

    /// An event about an object that is no longer there for this watch since a revision, in its last state.
    pub(super) fn removed(&mut self, entry: &Arc<Entry>, revision: Revision) -> Result<Bytes, Status> {
        self.object("DELETED", entry, Some(revision))
    }

    fn object(
        &mut self,
        kind: &'static str,
        entry: &Arc<Entry>,
        removed: Option<Revision>,
    ) -> Result<Bytes, Status> {
        let has_columns = mem::take(&mut self.is_first);
        let encode = || {
            let mut object = storage::served(self.resource, &entry.value)?;
            if let Some(revision) = removed {
                object = storage::at_revision(&object, revision);
            }
            self.event(kind, &self.view.document(&object, has_columns)?)
        };
        match self.view.form(has_columns) {
            Some(form) => self.cache.event(entry, Key { kind, removed, form }, encode),
            None => encode(),
        }
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

/// Events that are sent together. A single one is not copied.
#[derive(Default)]
pub(super) struct Piece {
    first: Option<Bytes>,
    /// All of them, if there are several.
    all: BytesMut,
}

impl Piece {
    /// Adds an event, which is never empty.
    pub(super) fn add(&mut self, event: Bytes) {
        if let Some(first) = self.first.take() {
            self.all.put(first);
        } else if self.all.is_empty() {
            self.first = Some(event);
            return;
        }
        self.all.put(event);
    }

    /// The length so far. In bytes.
    pub(super) fn len(&self) -> usize {
        self.first.as_ref().map_or(self.all.len(), Bytes::len)
    }

    /// All events, if there are any.
    pub(super) fn whole(self) -> Option<Bytes> {
        self.first.or_else(|| (!self.all.is_empty()).then(|| self.all.freeze()))
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
