//! Reviews: documents that are posted, answered and not stored. Reads the request document and writes the answered one.
//!
//! DIVERGES: a review that is not valid UTF-8 is refused; Kubernetes replaces such bytes by U+FFFD and answers for the
//! resulting name.

use http::header::{HeaderValue, WARNING};
use http::request::Parts;
use http::{Method, StatusCode};
use policy::request_info::RequestInfo;
use serde::Serialize;

use super::app::App;
use crate::audit::Trail;
use crate::authz::Permit;
use crate::http::negotiate::{self, Form, Forms};
use crate::http::query::Query;
use crate::http::status::{Answer, Status, json};
use crate::registry::decode::{self, Body, Expected};
use crate::registry::options::{self, FieldValidation, WriteKind};

/// Reads a review, with the checks in the order of the API server: accepted media types, the media type of the body,
/// query parameters, then the fields of its kind (AP-10 to AP-14), then admission (NR-3). Records the review for
/// the audit log.
///
/// # Errors
/// 405 for methods other than POST; 406 or 415 for problems with headers; 400 if the document
/// cannot be decoded; 403 if it is not admitted.
pub(super) async fn read(
    app: &App,
    (permit, info): (&Permit, &RequestInfo),
    head: &Parts,
    body: &[u8],
    expected: Expected<'_>,
) -> Result<Body, Status> {
    if head.method != Method::POST {
        return Err(Status::method_not_allowed());
    }
    negotiate::document(&head.headers, Forms::DOCUMENT)?;
    let form = negotiate::form(&head.headers)?;
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let options = options::write(&query, WriteKind::Create)?;
    let read = decode(body, form, expected, options.validation)?;
    if let Some(trail) = Trail::of(head) {
        trail.request_object(|| read.object.clone().into());
    }
    app.gate(permit, info).admit_document(&read.object).await?;
    Ok(read)
}

/// Decodes a review by the schema of its kind.
///
/// # Errors
/// 400 if the document is not a review of this kind.
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

/// Creates the 201 response with a review, and the warnings about the review that was posted.
pub(super) fn answer(review: &impl Serialize, warnings: Vec<HeaderValue>) -> Answer {
    let mut answer = json(StatusCode::CREATED, review);
    warn(&mut answer, warnings);
    answer
}

/// Adds warnings to a response.
pub(super) fn warn(answer: &mut Answer, warnings: Vec<HeaderValue>) {
    for warning in warnings {
        answer.headers_mut().append(WARNING, warning);
    }
}
