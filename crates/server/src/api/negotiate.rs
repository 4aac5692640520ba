//! Media types: what comes in and what the client takes (AP-10, AP-17, AP-18). Answers are JSON
//! only.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::status::Status;

/// Checks that the client takes JSON (AP-17). Clauses that ask for another form (`as=...`) are passed over, as for a
/// form that is not served (AP-18).
///
/// # Errors
/// 406 when no clause can be met.
pub(crate) fn accepts_json(headers: &HeaderMap) -> Result<(), Status> {
    let Some(value) = headers.get(ACCEPT) else { return Ok(()) };
    let value = value.to_str().map_err(|_| Status::not_acceptable())?;
    if value.trim().is_empty() || value.split(',').any(is_plain_json) {
        return Ok(());
    }
    Err(Status::not_acceptable())
}

fn is_plain_json(clause: &str) -> bool {
    let mut parts = clause.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    (media == "*/*" || media.eq_ignore_ascii_case("application/json"))
        && !parts.any(|p| p.split('=').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("as")))
}

/// The forms of a body that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `application/json`
    Json,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// What the body is said to be (AP-10). A body without a media type is taken for JSON.
///
/// # Errors
/// 415 for anything else, YAML included.
pub(crate) fn form(headers: &HeaderMap) -> Result<Form, Status> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(Form::Json) };
    let media = value.to_str().unwrap_or("?").split(';').next().unwrap_or_default().trim();
    if media.is_empty() || media.eq_ignore_ascii_case("application/json") {
        return Ok(Form::Json);
    }
    if media.eq_ignore_ascii_case("application/vnd.kubernetes.protobuf") {
        return Ok(Form::Protobuf);
    }
    Err(Status::unsupported_media_type())
}
