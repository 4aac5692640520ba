//! Parses error responses of a server: a Kubernetes Status, as far as it is valid.
//!
//! Its contents are not trusted. They are used for messages and for deciding about retries.

use std::error::Error;
use std::io::{self, ErrorKind};

use http::StatusCode;
use serde::Deserialize;

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The message for people: from the server, or the name of the status code.
    pub message: String,
    /// The reason in one word, such as `Timeout`; empty if none was given.
    pub reason: String,
    /// The number of seconds to wait before a retry, if the Status contains it.
    pub retry_after: Option<u64>,
}

impl Refusal {
    /// Parses the body of a response with this status code. A body that is not a Status is ignored.
    pub fn read(code: StatusCode, body: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Status {
            message: String,
            reason: String,
            details: Details,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Details {
            retry_after_seconds: u64,
        }
        let Status { mut message, reason, details } = serde_json::from_slice(body).unwrap_or_default();
        if message.is_empty() {
            code.canonical_reason().unwrap_or("an unknown code").clone_into(&mut message);
        }
        let retry_after = Some(details.retry_after_seconds).filter(|seconds| *seconds > 0);
        Self { message, reason, retry_after }
    }
}

/// Returns whether a retry may succeed, by status code and reason (KA-50, WH-31). A server error without a name of its own
/// counts as an internal error; 503 has one.
pub fn is_passing(code: u16, reason: &str) -> bool {
    matches!(code, 429 | 500..=502 | 504..=599)
        || matches!(reason, "InternalError" | "Timeout" | "ServerTimeout" | "TooManyRequests")
}

/// Returns whether a connection was lost, by the causes of an error: the connection was closed, or one of these
/// conditions holds.
pub fn is_lost(
    error: &(dyn Error + 'static),
    io: impl Fn(ErrorKind) -> bool,
    hyper: impl Fn(&hyper::Error) -> bool,
) -> bool {
    std::iter::successors(Some(error), |&error| error.source()).any(|error| {
        error.downcast_ref::<io::Error>().is_some_and(|error| io(error.kind()))
            || error
                .downcast_ref::<hyper::Error>()
                .is_some_and(|error| error.is_canceled() || error.is_closed() || hyper(error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_understood_and_anything_else_is_its_code_wh_31() {
        let body =
            br#"{"kind":"Status","message":"wait","reason":"Timeout","details":{"retryAfterSeconds":3}}"#;
        let expected =
            Refusal { message: "wait".to_owned(), reason: "Timeout".to_owned(), retry_after: Some(3) };
        assert_eq!(Refusal::read(StatusCode::GATEWAY_TIMEOUT, body), expected);
        for body in ["", "<html>", "[]", "{\"message\":1}", "{\"details\":null}"] {
            let read = Refusal::read(StatusCode::FORBIDDEN, body.as_bytes());
            assert_eq!((&*read.message, &*read.reason, read.retry_after), ("Forbidden", "", None), "{body}");
        }
    }

    #[test]
    fn only_what_passes_is_worth_another_request_ka_50() {
        for code in [429, 500, 501, 502, 504] {
            assert!(is_passing(code, ""), "{code}");
        }
        for (code, reason) in [(401, "Unauthorized"), (403, "Forbidden"), (503, ""), (200, "")] {
            assert!(!is_passing(code, reason), "{code}");
        }
        for reason in ["InternalError", "Timeout", "ServerTimeout", "TooManyRequests"] {
            assert!(is_passing(400, reason), "{reason}");
        }
    }
}
