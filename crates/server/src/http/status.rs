//! The one place where a failure becomes a response: the `Status` object, and the few plain-text responses.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::quote::{quoted, sanitized};
use serde::Serialize;

use super::body::Body;

/// The response of a handler.
pub type Answer = Response<Body>;

/// The media type of JSON responses.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// An error, serialized as `kind: Status`.
#[derive(Clone, Debug)]
pub struct Status(Box<Failure>);

#[derive(Clone, Debug)]
struct Failure {
    code: StatusCode,
    reason: Cow<'static, str>,
    message: String,
    details: Option<Details>,
    /// The continue token in the metadata; empty for none.
    token: String,
}

/// The details of an error.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Details {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource name, or the kind (AP-20).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The UID of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The individual errors, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// The number of seconds to wait before a retry.
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Details {
    /// Creates details that name an object of a resource or kind.
    pub fn of(group: &str, kind: &str, name: &str) -> Self {
        Self { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned(), ..Self::default() }
    }
}

/// One error of an object.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    /// The reason (AP-21); empty for none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Cow<'static, str>,
    /// A description of the error.
    pub message: String,
    /// The field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl From<&FieldError> for Cause {
    fn from(error: &FieldError) -> Self {
        Self { reason: error.reason.as_str().into(), message: error.message(), field: error.field.clone() }
    }
}

/// Returns `configmaps` or `roles.rbac.authorization.k8s.io`.
fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl Status {
    fn new(
        code: StatusCode,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        details: Option<Details>,
    ) -> Self {
        let reason = reason.into();
        Self(Box::new(Failure { code, reason, message: message.into(), details, token: String::new() }))
    }

    /// The body or the parameters are invalid (AP-11).
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message, None)
    }

    /// The caller is not authenticated (AN-20).
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
    }

    /// The caller is not allowed to do this (AC-56).
    pub fn forbidden(message: String, details: Details) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message, Some(details))
    }

    /// The resource does not exist (AP-1).
    pub fn not_found() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message, Some(Details::default()))
    }

    /// The resource does not support the method (AP-2).
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message, Some(Details::default()))
    }

    /// The client accepts no supported media type (AP-17).
    pub fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, Some(Details::default()))
    }

    /// The same, without details.
    pub(crate) fn without_details(mut self) -> Self {
        self.0.details = None;
        self
    }

    /// The media type of the body is not supported (AP-10).
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message, None)
    }

    /// The body is too large.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity is too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, None)
    }

    /// The object is larger than the storage takes.
    pub fn object_too_large(limit: usize) -> Self {
        Self::request_too_large(format!("the object has more than {limit} bytes"))
    }

    /// The store does not take a write of this size.
    pub fn request_too_large(why: String) -> Self {
        let message = format!("Request entity too large: {why}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message, None)
    }

    /// The caller makes the server hold too much already.
    pub fn holds_too_much(limit: usize) -> Self {
        let message = format!(
            "Too many requests, please try again later: requests without an answer and answers that were not read hold \
             more than {limit} bytes"
        );
        Self::too_many_requests(message)
    }

    /// The caller must wait.
    pub fn too_many_requests(message: impl Into<String>) -> Self {
        let details = Details { retry_after_seconds: 1, ..Details::default() };
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message, Some(details))
    }

    /// The body did not arrive in time.
    pub fn timeout() -> Self {
        let message = "the body of the request did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message, None)
    }

    /// The server cannot take the request now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message, None)
    }

    /// The server cannot take the request now; the client should try again after a second.
    pub fn try_again(message: impl Into<String>) -> Self {
        let details = Details { retry_after_seconds: 1, ..Details::default() };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message, Some(details))
    }

    /// Nobody knows whether the change was made (ET-4).
    pub fn outcome_unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(Details::default()))
    }

    /// The response was not ready in time.
    pub fn late() -> Self {
        let message = "request did not complete within the allotted timeout";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(Details::default()))
    }

    /// The store is full.
    pub fn insufficient_storage(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "InsufficientStorage", message, None)
    }

    /// The object is invalid.
    pub fn invalid(message: String, details: Details) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message, Some(details))
    }

    /// The object does not exist (AP-20).
    pub fn no_object(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {} not found", qualified(group, resource), quoted(name));
        Self::new(StatusCode::NOT_FOUND, "NotFound", message, Some(Details::of(group, resource, name)))
    }

    /// The object already exists.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} {} already exists", qualified(group, resource), quoted(name));
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message, Some(Details::of(group, resource, name)))
    }

    /// The object does not match the precondition of the client.
    pub fn conflict(group: &str, kind: &str, name: &str, why: &str) -> Self {
        let what = qualified(group, kind);
        let message = format!("Operation cannot be fulfilled on {what} {}: {why}", quoted(name));
        Self::new(StatusCode::CONFLICT, "Conflict", message, Some(Details::of(group, kind, name)))
    }

    /// Admission refused the request (AP-20).
    pub fn not_admitted(group: &str, resource: &str, name: &str, why: &str, causes: Vec<Cause>) -> Self {
        let message = format!("{} {} is forbidden: {why}", qualified(group, resource), quoted(name));
        let details = Details { causes, ..Details::of(group, resource, name) };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message, Some(details))
    }

    /// The object or the options are invalid; every error is a cause (AP-20, AP-21), up to the first 1,000.
    pub fn invalid_object(group: &str, kind: &str, name: &str, errors: impl Into<FieldErrors>) -> Self {
        let errors = errors.into();
        let (errors, has_more) = errors.told();
        let mut faults: Vec<String> = errors.iter().map(ToString::to_string).collect();
        if has_more {
            faults.push("more errors".to_owned());
        }
        let faults = policy::rules::aggregate(&faults).unwrap_or_default();
        let message = format!("{} {} is invalid: {faults}", qualified(group, kind), quoted(name));
        let causes = errors.iter().map(Cause::from).collect();
        Self::invalid(message, Details { causes, ..Details::of(group, kind, name) })
    }

    /// The patch cannot be applied, or its result cannot be decoded (AP-60, AP-61).
    pub fn invalid_patch(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        Self::invalid(message.into(), Details { causes, ..Details::default() })
    }

    /// The continue token or the revision is too old (AP-71, AP-81).
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message, None)
    }

    /// The revision of a continue token is no longer there. The list can go on with this token instead, at the newest revision
    /// (ET-23).
    pub fn expired_token(token: String) -> Self {
        let mut status = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
             results. Continuing with the provided token results in an inconsistent list - objects that were created, \
             modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        status.0.token = token;
        status
    }

    /// The requested revision has not been reached yet (AP-72).
    pub fn future(asked: u64, newest: u64) -> Self {
        let cause = Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        let details = Details { causes: vec![cause], retry_after_seconds: 1, ..Details::default() };
        let message = format!("Timeout: Too large resource version: {asked}, current: {newest}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message, Some(details))
    }

    /// An error without a reason in Kubernetes: 500.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message, None)
    }

    /// An internal error.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {message}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message, None)
    }

    /// Creates an error without details.
    pub fn other(
        code: StatusCode,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
        details: Option<Details>,
    ) -> Self {
        Self::new(code, reason, message, details)
    }

    /// The same error with another code and reason.
    #[must_use]
    pub fn with_reason(mut self, code: StatusCode, reason: &'static str) -> Self {
        (self.0.code, self.0.reason) = (code, reason.into());
        self
    }

    /// Returns the status code.
    pub fn code(&self) -> StatusCode {
        self.0.code
    }

    /// A description of the error.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the `Status` object.
    pub fn document(&self) -> serde_json::Value {
        #[derive(Serialize)]
        struct Document<'a> {
            kind: &'static str,
            #[serde(rename = "apiVersion")]
            api_version: &'static str,
            metadata: ListMeta<'a>,
            status: &'static str,
            #[serde(skip_serializing_if = "str::is_empty")]
            message: &'a str,
            #[serde(skip_serializing_if = "str::is_empty")]
            reason: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: &'a Option<Details>,
            code: u16,
        }
        #[derive(Serialize)]
        struct ListMeta<'a> {
            #[serde(rename = "continue", skip_serializing_if = "str::is_empty")]
            token: &'a str,
        }

        let failure = &self.0;
        let document = Document {
            kind: "Status",
            api_version: "v1",
            metadata: ListMeta { token: &failure.token },
            status: "Failure",
            message: &failure.message,
            reason: &failure.reason,
            details: &failure.details,
            code: failure.code.as_u16(),
        };
        serde_json::to_value(document).unwrap_or_default()
    }

    /// Creates the response in JSON.
    pub fn into_answer(self) -> Answer {
        let answer = json(self.0.code, &self.document());
        self.mark(answer)
    }

    /// Adds the status code and headers of this error to a response with another document.
    pub(crate) fn mark(&self, mut answer: Answer) -> Answer {
        let failure = &self.0;
        let headers = answer.headers_mut();
        if failure.code == StatusCode::FORBIDDEN {
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
        if let Some(details) = &failure.details
            && details.retry_after_seconds > 0
        {
            headers.insert(RETRY_AFTER, HeaderValue::from(details.retry_after_seconds));
        }
        answer
    }
}

/// Creates a JSON response.
pub fn json(code: StatusCode, document: &impl Serialize) -> Answer {
    match serde_json::to_vec(document) {
        Ok(bytes) => json_bytes(code, Bytes::from(bytes)),
        Err(error) => {
            text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write the response: {error}\n"))
        }
    }
}

/// Creates a response with serialized JSON.
pub fn json_bytes(code: StatusCode, bytes: Bytes) -> Answer {
    let mut answer = Response::new(Body::from(bytes));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// Creates a plain-text response.
pub fn text(code: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Body::from(body.into()));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, TEXT);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// The path does not exist, outside the API groups (AP-1).
pub fn page_not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// An internal error (AC-53): the target as it was sent, and the error.
pub fn internal_error(target: &str, error: &str) -> Answer {
    let body = format!("Internal Server Error: {}: {}\n", sanitized(&quoted(target)), sanitized(error));
    text(StatusCode::INTERNAL_SERVER_ERROR, body)
}
