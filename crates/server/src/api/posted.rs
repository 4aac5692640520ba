//! Reviews that are posted to be answered and are not stored: reading the document, and answering with one.
//!
//! DIVERGES: a review that is no UTF-8 is refused; Kubernetes puts U+FFFD in place of such bytes and answers for the
//! name that this makes.

use http::header::{HeaderValue, WARNING};
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;
use serde::Serialize;

use super::negotiate::{self, Form};
use super::rest::decode::{self, Body, Expected};
use super::rest::options::{self, FieldValidation, WriteKind};
use crate::audit::Trail;
use crate::query::Query;
use crate::service::{self, App};
use crate::status::{Answer, Status, json};

/// Reads a review, in the API server's order: what the client takes, what it sends, how much, with which parameters; then
/// the fields of its kind (AP-10 to AP-14). Notes it for the audit log.
///
/// # Errors
/// 405 for anything but POST, 406, 415, 413 and 408 for what is around the document, 400 for a document that cannot be
/// read.
pub(super) async fn read(
    app: &App,
    head: &Parts,
    body: &mut Incoming,
    expected: Expected<'_>,
) -> Result<Body, Status> {
    if head.method != Method::POST {
        return Err(Status::method_not_allowed());
    }
    negotiate::document(&head.headers)?;
    let form = negotiate::form(&head.headers)?;
    let bytes = service::read_body(head, body, app.limits()).await?;
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let options = options::write(&query, WriteKind::Create)?;
    let read = decode(&bytes, form, expected, options.validation)?;
    if let Some(trail) = Trail::of(head) {
        trail.request_object(|| read.object.clone().into());
    }
    Ok(read)
}

/// The object that a review stands for, by the fields of its kind.
///
/// # Errors
/// 400 for what is no such review.
pub(super) fn decode(
    bytes: &[u8],
    form: Form,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> Result<Body, Status> {
    if form == Form::Json
        && let Err(error) = std::str::from_utf8(bytes)
    {
        let kind = expected.kind;
        return Err(Status::bad_request(format!("the {kind} cannot be read: {error}; send it in UTF-8")));
    }
    decode::document(bytes, form, expected, validation)
}

/// 201 with a review, and what the client is to be told about the one that it sent.
pub(super) fn answer(review: &impl Serialize, warnings: Vec<HeaderValue>) -> Answer {
    let mut answer = json(StatusCode::CREATED, review);
    warn(&mut answer, warnings);
    answer
}

/// Adds what the client is to be told.
pub(super) fn warn(answer: &mut Answer, warnings: Vec<HeaderValue>) {
    for warning in warnings {
        answer.headers_mut().append(WARNING, warning);
    }
}
