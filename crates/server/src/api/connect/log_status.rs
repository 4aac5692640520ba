//! The status of a log that a kubelet refuses, in the words of Kubernetes.

use http::StatusCode;

use crate::http::status::{Details, Status};

/// The status for an answer of a kubelet with this code and text.
pub(super) fn of(code: StatusCode, text: &str, pod: &str) -> Status {
    match code {
        StatusCode::INTERNAL_SERVER_ERROR => Status::internal(text),
        StatusCode::BAD_REQUEST => Status::bad_request(text),
        code => {
            let (reason, message) = generic(code, text);
            let details = Details::of("", "pods/log", pod);
            Status::other(code, reason, format!("{message} ( pods/log {pod})"), Some(details))
        }
    }
}

fn generic(code: StatusCode, text: &str) -> (&'static str, String) {
    let said = |reason, message: &str| (reason, message.to_owned());
    match code {
        StatusCode::UNAUTHORIZED => {
            said("Unauthorized", "the server has asked for the client to provide credentials")
        }
        StatusCode::FORBIDDEN => said("Forbidden", text),
        StatusCode::NOT_FOUND => said("NotFound", "the server could not find the requested resource"),
        StatusCode::METHOD_NOT_ALLOWED => {
            said("MethodNotAllowed", "the server does not allow this method on the requested resource")
        }
        StatusCode::CONFLICT => said("Conflict", "the server reported a conflict"),
        StatusCode::UNPROCESSABLE_ENTITY => {
            said("Invalid", "the server rejected our request due to an error in our request")
        }
        StatusCode::TOO_MANY_REQUESTS => said(
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        StatusCode::SERVICE_UNAVAILABLE => {
            said("ServiceUnavailable", "the server is currently unable to handle the request")
        }
        StatusCode::GATEWAY_TIMEOUT => said(
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        code if code.is_server_error() => {
            let message =
                format!("an error on the server ({text:?}) has prevented the request from succeeding");
            ("InternalError", message)
        }
        code => {
            let number = code.as_u16();
            (
                "",
                format!(
                    "the server responded with the status code {number} but did not return more information"
                ),
            )
        }
    }
}
