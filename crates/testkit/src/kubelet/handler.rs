//! Requests to handlers, and their answers.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use super::body::Answer;
use super::state::State;

const TEXT: &str = "text/plain; charset=utf-8";

/// A request that was authorized.
pub(super) struct Asked<'a> {
    pub(super) state: &'a Arc<State>,
    /// The path, decoded.
    pub(super) path: &'a str,
    /// The query as it was sent.
    pub(super) query: &'a str,
}

pub(super) fn answer(code: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(Some(body.into())));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

pub(super) fn text(code: StatusCode, body: impl Into<Bytes>) -> Response<Answer> {
    answer(code, TEXT, body)
}

/// The value of a parameter of the query, as it was sent.
pub(super) fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}
