//! The one place where a failure becomes an answer: the `Status` object and the few texts beside it.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

use crate::go::sanitized;

/// What handlers answer with.
pub type Answer = Response<Full<Bytes>>;

/// The media type of JSON answers.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// A failure, as `kind: Status` shows it.
#[derive(Clone, Debug)]
pub struct Status(Box<Failure>);

#[derive(Clone, Debug)]
struct Failure {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Option<Details>,
}

/// What a failure is about.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Details {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource, or the kind (AP-20).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Every fault, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
}

/// One fault of an object.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    /// What kind of fault (AP-21).
    pub reason: &'static str,
    /// What is wrong.
    pub message: String,
    /// Where.
    pub field: String,
}

impl Status {
    fn new(
        code: StatusCode,
        reason: &'static str,
        message: impl Into<String>,
        details: Option<Details>,
    ) -> Self {
        Self(Box::new(Failure { code, reason, message: message.into(), details }))
    }

    /// The body or the parameters make no sense (AP-11).
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message, None)
    }

    /// Nobody knows who asks (AN-20).
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
    }

    /// The caller may not (AC-56).
    pub fn forbidden(message: String, details: Details) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message, Some(details))
    }

    /// There is no such resource (AP-1).
    pub fn not_found() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message, Some(Details::default()))
    }

    /// The resource is there, but not for this method (AP-2).
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, Some(Details::default()))
    }

    /// No media type that the client takes (AP-17).
    pub fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, Some(Details::default()))
    }

    /// A media type that is not read (AP-10).
    pub fn unsupported_media_type() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types include: application/json, application/vnd.kubernetes.protobuf";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message, None)
    }

    /// The body is too large.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity is too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, None)
    }

    /// The body did not arrive in time.
    pub fn timeout() -> Self {
        let message = "the body of the request did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message, None)
    }

    /// The object is not valid.
    pub fn invalid(message: String, details: Details) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details))
    }

    /// The answer.
    pub fn into_answer(self) -> Answer {
        #[derive(Serialize)]
        struct Document<'a> {
            kind: &'static str,
            #[serde(rename = "apiVersion")]
            api_version: &'static str,
            metadata: Empty,
            status: &'static str,
            #[serde(skip_serializing_if = "str::is_empty")]
            message: &'a str,
            reason: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: &'a Option<Details>,
            code: u16,
        }
        #[derive(Serialize)]
        struct Empty {}

        let failure = self.0;
        let mut answer = json(
            failure.code,
            &Document {
                kind: "Status",
                api_version: "v1",
                metadata: Empty {},
                status: "Failure",
                message: &failure.message,
                reason: failure.reason,
                details: &failure.details,
                code: failure.code.as_u16(),
            },
        );
        if failure.code == StatusCode::FORBIDDEN {
            answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
        answer
    }
}

/// An answer in JSON.
pub fn json(code: StatusCode, document: &impl Serialize) -> Answer {
    match serde_json::to_vec(document) {
        Ok(bytes) => json_bytes(code, Bytes::from(bytes)),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the answer: {error}\n")),
    }
}

/// An answer in JSON that is already written.
pub fn json_bytes(code: StatusCode, bytes: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(bytes));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// An answer in plain text.
pub fn text(code: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, TEXT);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// No such path outside the API groups (AP-1).
pub fn page_not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Something failed on our side (AC-53): the target as it was sent, and the error.
pub fn internal_error(target: &str, error: &str) -> Answer {
    let body =
        format!("Internal Server Error: {}: {}\n", sanitized(&crate::go::quoted(target)), sanitized(error));
    text(StatusCode::INTERNAL_SERVER_ERROR, body)
}
