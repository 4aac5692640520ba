//! Parses the response to a review strictly (WH-20 to WH-22, KA-44, KA-53).
//!
//! A response that is not clearly of the expected kind and version is an error, and never allows.

use std::collections::{BTreeMap, HashSet};

use portcullis_apimachinery::json;
use portcullis_policy::review::{self, AccessStatus, ReviewVersion};
use portcullis_policy::{User, objects};
use serde::Deserialize;

use super::error::ReviewError;
use crate::call::without_content;

/// The maximum length of a quoted message of the API server.
const TOLD: usize = 1024;
/// The number of consecutive bytes that count as a part of a token.
const PART: usize = 8;

/// The group of all authenticated users (KA-46).
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// Parses the response to a SubjectAccessReview (KA-53). What could not be evaluated plays no part, and nobody is told
/// the reason.
///
/// # Errors
/// It is none.
pub fn access(body: &[u8]) -> Result<AccessStatus, ReviewError> {
    let status = AccessStatus::read(body, ReviewVersion::V1).map_err(|error| {
        let why = match error {
            review::ReviewError::NotJson(_) => "it is not JSON, or a key in it is given twice",
            review::ReviewError::WrongKind { .. } => {
                "it is not a SubjectAccessReview of authorization.k8s.io/v1"
            }
            review::ReviewError::WrongType { .. } | review::ReviewError::WrongNamespace => {
                "it does not have the expected fields"
            }
        };
        ReviewError::Answer { kind: "SubjectAccessReview".to_owned(), why: why.to_owned() }
    })?;
    Ok(AccessStatus { reason: String::new(), evaluation_error: String::new(), ..status })
}

/// Parses the response to a TokenReview: the user, or none if the token was rejected without a reason (KA-44).
///
/// # Errors
/// The response is invalid, or contains the reason for the rejection.
pub fn token(body: &[u8], token: &str) -> Result<Option<User>, ReviewError> {
    let mut status = TokenStatus::read(body, ReviewVersion::V1)?;
    if !status.authenticated {
        return match status.error.as_str() {
            "" => Ok(None),
            error => Err(ReviewError::Token(told(error, Some(token)))),
        };
    }
    add_group(&mut status.user);
    Ok(Some(status.user))
}

/// The status of a TokenReview.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenStatus {
    /// Whether the token is somebody's.
    pub authenticated: bool,
    /// Whose, as it is written. Means nothing without `authenticated`.
    pub user: User,
    /// The audiences that the token is for. Empty: those of whoever asks.
    pub audiences: Vec<String>,
    /// Why the token is nobody's.
    pub error: String,
}

impl TokenStatus {
    /// Parses a TokenReview of a version. A missing kind or version is treated as the expected one (WH-20).
    ///
    /// # Errors
    /// It is not clearly a TokenReview of this version, with the fields of one.
    pub fn read(body: &[u8], version: ReviewVersion) -> Result<Self, ReviewError> {
        #[derive(Deserialize)]
        struct Document {
            status: Option<Status>,
        }
        #[derive(Default, Deserialize)]
        struct Status {
            authenticated: Option<bool>,
            error: Option<String>,
            user: Option<UserInfo>,
            audiences: Option<Vec<String>>,
        }
        #[derive(Default, Deserialize)]
        struct UserInfo {
            username: Option<String>,
            uid: Option<String>,
            groups: Option<Vec<String>>,
            extra: Option<BTreeMap<String, Option<Vec<String>>>>,
        }
        let unreadable = |why: String| ReviewError::Answer { kind: "TokenReview".to_owned(), why };
        if body.is_empty() {
            return Err(unreadable("it is empty".to_owned()));
        }
        let malformed = |error: json::JsonError| {
            let (line, column) = (error.line, error.column);
            unreadable(format!("it is not JSON, or has a duplicate key, at line {line} column {column}"))
        };
        let text = json::utf8(body).map_err(malformed)?;
        let meta = json::type_meta(text).map_err(malformed)?;
        let expected = format!("authentication.k8s.io/{}", version.as_str());
        let is =
            |said: Option<&str>, expected: &str| said.is_none_or(|said| said.is_empty() || said == expected);
        if !is(meta.kind.as_deref(), "TokenReview") || !is(meta.api_version.as_deref(), &expected) {
            return Err(unreadable(format!("it is not a TokenReview of {expected}")));
        }
        let document: Document = objects::strict::from_str(text)
            .map_err(|error: serde_json::Error| unreadable(without_content(&error)))?;
        let Status { authenticated, error, user, audiences } = document.status.unwrap_or_default();
        let UserInfo { username, uid, groups, extra } = user.unwrap_or_default();
        let extra = extra.unwrap_or_default().into_iter();
        Ok(Self {
            authenticated: authenticated.unwrap_or_default(),
            user: User {
                name: username.unwrap_or_default(),
                uid: uid.unwrap_or_default(),
                groups: groups.unwrap_or_default(),
                extra: extra.map(|(key, values)| (key, values.unwrap_or_default())).collect(),
            },
            audiences: audiences.unwrap_or_default(),
            error: error.unwrap_or_default(),
        })
    }
}

/// KA-46
fn add_group(user: &mut User) {
    if user.name == ANONYMOUS || user.in_group(AUTHENTICATED) || user.in_group(UNAUTHENTICATED) {
        return;
    }
    user.groups.push(AUTHENTICATED.to_owned());
}

/// Returns what may be quoted of a message of whoever was asked: truncated, and without any part of the token.
pub fn told(said: &str, token: Option<&str>) -> String {
    let text: String = said.chars().take(TOLD).map(|c| if c.is_control() { ' ' } else { c }).collect();
    match token {
        Some(token) if quotes(&text, token) => "the reason quotes the token, and is not shown".to_owned(),
        _ => text,
    }
}

/// Returns whether a text contains a part of the token.
fn quotes(text: &str, token: &str) -> bool {
    if token.len() <= PART {
        return text.contains(token);
    }
    let parts: HashSet<&[u8]> = text.as_bytes().windows(PART).collect();
    token.as_bytes().windows(PART).any(|part| parts.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_but_the_anonymous_is_authenticated_ka_46() {
        for (name, before, after) in [
            ("jane", vec!["a"], vec!["a", AUTHENTICATED]),
            ("jane", vec![AUTHENTICATED, "a"], vec![AUTHENTICATED, "a"]),
            ("jane", vec![UNAUTHENTICATED], vec![UNAUTHENTICATED]),
            (ANONYMOUS, vec![], vec![]),
        ] {
            let mut user = User::new(name, before);
            add_group(&mut user);
            assert_eq!(user.groups, after);
        }
    }

    #[test]
    fn no_part_of_a_token_is_told_on() {
        let token = "header.payload-of-a-token.signature";
        for said in [token, "bad token: payload-of", "signature of it", "x\nheader.p"] {
            let told = told(said, Some(token));
            assert!(told.contains("not shown"), "{told}");
        }
        assert_eq!(told("invalid bearer token\n", Some(token)), "invalid bearer token ");
        assert!(told("no abc here", Some("abc")).contains("not shown"));
        assert_eq!(told(&"é".repeat(5000), None).chars().count(), TOLD);
    }

    #[test]
    fn what_is_no_answer_is_an_error_wh_20() {
        for body in [
            "",
            "{",
            "[]",
            "null x",
            r#"{"status":{"allowed":true,"allowed":true}}"#,
            r#"{"status":{"allowed":1}}"#,
            r#"{"status":[true]}"#,
            r#"{"kind":"Status","apiVersion":"v1","status":{"allowed":true}}"#,
            r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1","status":{"allowed":true}}"#,
            r#"{"kind":"LocalSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}"#,
        ] {
            assert!(matches!(access(body.as_bytes()), Err(ReviewError::Answer { .. })), "{body}");
        }
        assert!(matches!(access(b"\xff"), Err(ReviewError::Answer { .. })));
        assert_eq!(access(b"{}"), Ok(AccessStatus::default()));
        let body = br#"{"status":{"allowed":true,"evaluationError":"x","other":1}}"#;
        assert_eq!(access(body), Ok(AccessStatus { allowed: true, ..AccessStatus::default() }));
        assert_eq!(token(b"{}", "t"), Ok(None));
        assert_eq!(token(br#"{"status":{"user":{"username":"jane"}}}"#, "t"), Ok(None));
    }
}
