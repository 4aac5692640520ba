//! Documents that clients keep: each has a tag, by which a client learns that it has not changed.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::http::status::{Answer, json_bytes};

/// A document with its tag.
#[derive(Clone, Debug)]
pub(super) struct Tagged {
    /// The document.
    pub(super) text: Bytes,
    tag: HeaderValue,
}

impl Tagged {
    /// A document with its tag, which changes with it.
    pub(super) fn new(text: impl Into<Bytes>) -> Self {
        let text = text.into();
        let digest: String = pki::sha256(&text).iter().map(|byte| format!("{byte:02X}")).collect();
        let tag = HeaderValue::try_from(format!("\"{digest}\""));
        Self { text, tag: tag.unwrap_or_else(|_| HeaderValue::from_static("\"\"")) }
    }

    /// The document, of this media type, or 304 if the client has it.
    pub(super) fn answer(&self, media: HeaderValue, headers: &HeaderMap) -> Answer {
        let is_known = self.is_known(headers);
        let mut answer = match is_known {
            true => json_bytes(StatusCode::NOT_MODIFIED, Bytes::new()),
            false => json_bytes(StatusCode::OK, self.text.clone()),
        };
        let fields = answer.headers_mut();
        match is_known {
            true => fields.remove(CONTENT_TYPE),
            false => fields.insert(CONTENT_TYPE, media),
        };
        fields.insert(ETAG, self.tag.clone());
        fields.append(VARY, HeaderValue::from_static("Accept"));
        answer
    }

    /// Whether the client has the document.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let listed = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let mut tags = listed.flat_map(|value| value.split(',')).map(str::trim);
        tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == self.tag)
    }
}
