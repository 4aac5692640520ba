//! What a server says when it refuses: a Status of Kubernetes, as far as it can be understood.
//!
//! Nothing in it is trusted: it is for people, and for the question whether to ask again.

use http::StatusCode;
use serde::Deserialize;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why, for people: what the server says, or the name of the code.
    pub message: String,
    /// The reason in one word, such as `Timeout`; empty if none was given.
    pub reason: String,
    /// Seconds after which to ask again, if the Status has them.
    pub retry_after: Option<u64>,
}

impl Refusal {
    /// Reads the body of an answer with this code. What is no Status says nothing.
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

/// Whether another request may go well, by code and reason (KA-50, WH-31).
pub fn is_passing(code: u16, reason: &str) -> bool {
    matches!(code, 429 | 500 | 504)
        || matches!(reason, "InternalError" | "Timeout" | "ServerTimeout" | "TooManyRequests")
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
        for code in [429, 500, 504] {
            assert!(is_passing(code, ""), "{code}");
        }
        for (code, reason) in [(401, "Unauthorized"), (403, "Forbidden"), (502, ""), (503, ""), (200, "")] {
            assert!(!is_passing(code, reason), "{code}");
        }
        for reason in ["InternalError", "Timeout", "ServerTimeout", "TooManyRequests"] {
            assert!(is_passing(400, reason), "{reason}");
        }
    }
}
