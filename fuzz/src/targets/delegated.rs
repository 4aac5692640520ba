//! The responses of an API server to a guard, and the parsing of access logs and audit logs.

use portcullis_client::review::answer;
use portcullis_policy::audit::kubelet_access::Evidence;
use portcullis_policy::kubelet_api::Settings;
use serde_json::Value;

pub(super) const ANSWER: &[&str] = &[
    "\"apiVersion\":\"authentication.k8s.io/v1\"",
    "\"apiVersion\":\"authorization.k8s.io/v1\"",
    "\"kind\":\"TokenReview\"",
    "\"kind\":\"SubjectAccessReview\"",
    "\"status\":",
    "\"allowed\":true",
    "\"denied\":true",
    "\"authenticated\":true",
    "\"user\":{\"username\":\"jane\",\"groups\":[\"a\"]}",
    "\"error\":\"",
    "null",
    "{",
    "}",
];

pub(super) const LOG: &[&str] = &[
    "\"user\":\"jane\"",
    "\"groups\":[\"a\"]",
    "\"method\":\"GET\"",
    "\"path\":\"/pods\"",
    "\"code\":200",
    "\"kind\":\"Event\"",
    "\"apiVersion\":\"audit.k8s.io/v1\"",
    "\"stage\":\"ResponseComplete\"",
    "\"objectRef\":{\"resource\":\"nodes\",\"subresource\":\"proxy\"}",
    "\"requestURI\":\"/api/v1/nodes/n/proxy/pods\"",
    "null",
    "{",
    "}",
];

pub(super) fn review_answer(input: &[u8]) -> bool {
    let says = |word: &[u8]| input.windows(word.len()).any(|found| found == word) || input.contains(&b'\\');
    let access = answer::access(input);
    if access.as_ref().is_ok_and(|access| access.allowed) {
        assert!(says(b"allowed") && says(b"true"), "a yes that nobody has said");
    }
    let token = answer::token(input, "sesame-sesame");
    if matches!(token, Ok(Some(_))) {
        assert!(says(b"authenticated") && says(b"true"), "somebody for whom nobody vouches");
    }
    if let Err(error) = &token {
        assert!(!error.to_string().contains("sesame-s"), "a part of the token is told on");
    }
    access.is_ok() || token.is_ok()
}

pub(super) fn evidence(input: &[u8]) -> bool {
    let Ok(line) = serde_json::from_slice::<Value>(input) else { return false };
    let mut evidence = Evidence::new(Settings::default());
    let of_guard = evidence.take_access(&line).is_ok();
    let of_server = evidence.take_audit(&line).is_ok();
    of_guard || of_server
}
