//! AdmissionReview lines: The answers of NodeRestriction.

use portcullis_policy::engine::Engine;
use portcullis_policy::restriction::review::{AdmissionReview, ReviewError, ReviewResponse};
use serde_json::Value;

use super::{Parsing, object, unless_equal};
use crate::lines::in_line;

/// The fields of a recorded response that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedResponse {
    allowed: bool,
    /// The status code; zero if the response has none.
    code: u64,
}

pub(super) fn parse(
    line: &str,
    parsing: Parsing,
) -> Result<(AdmissionReview<'_>, Option<RecordedResponse>), String> {
    let review = AdmissionReview::parse(line).map_err(|error| match error {
        ReviewError::Undecodable(error) => in_line(&error),
        ReviewError::Missing(field) => format!("{field}: is missing and required"),
        error @ ReviewError::WrongKind { .. } => error.to_string(),
    })?;
    if parsing == Parsing::Question {
        return Ok((review, None));
    }
    let document = object(line)?;
    let allowed = match document.pointer("/response/allowed") {
        Some(Value::Bool(allowed)) => *allowed,
        Some(_) => return Err("response.allowed: expected true or false".to_owned()),
        None => return Err("response.allowed: is missing: --check has nothing to compare with".to_owned()),
    };
    let code = match document.pointer("/response/status/code") {
        None | Some(Value::Null) => 0,
        Some(code) => code.as_u64().ok_or("response.status.code: expected a number")?,
    };
    Ok((review, Some(RecordedResponse { allowed, code })))
}

fn response(engine: &Engine, review: &AdmissionReview<'_>) -> ReviewResponse {
    review.response(engine.admit(&review.request()))
}

pub(super) fn answer(engine: &Engine, review: &AdmissionReview<'_>) -> String {
    // Serializing what was parsed from text cannot fail.
    review.completed(response(engine, review)).unwrap_or_default()
}

pub(super) fn difference(
    engine: &Engine,
    review: &AdmissionReview<'_>,
    recorded: &RecordedResponse,
) -> Option<String> {
    let response = response(engine, review);
    let code = response.status.as_ref().map_or(0, |status| u64::from(status.code));
    unless_equal("response.allowed", recorded.allowed, response.allowed)
        .or_else(|| unless_equal("response.status.code", recorded.code, code))
}
