//! What a webhook answered: checked to the letter before it counts (WH-20 to WH-22).
//!
//! Whatever is not clearly an answer of the expected kind and version is an error, never an opinion.

use std::collections::BTreeMap;

use policy::json;
use portcullis_policy as policy;
use serde::Deserialize;
use serde_json::Value;

use super::review::{NonResourceAttributes, ResourceAttributes, ReviewVersion};

/// The status of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The service allows.
    pub allowed: bool,
    /// The service denies, whatever others say.
    pub denied: bool,
    /// Why.
    pub reason: String,
}

/// An answer that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No body.
    #[error("0-length response with status code: {0} and content type: {1}")]
    Empty(u16, String),
    /// Not JSON, or not of the right shape.
    #[error("the answer cannot be decoded: {0}")]
    Malformed(String),
    /// Something else than was asked for.
    #[error("the answer is {found}, and not {expected}")]
    Another {
        /// What it is.
        found: String,
        /// What it must be.
        expected: String,
    },
}

/// The fields as Kubernetes types them. What is known must fit, though it plays no part (WH-21).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "decoded to be checked")]
struct Document {
    kind: Option<String>,
    api_version: Option<String>,
    metadata: Option<BTreeMap<String, Value>>,
    spec: Option<AnswerSpec>,
    status: Option<AnswerStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "decoded to be checked")]
struct AnswerSpec {
    resource_attributes: Option<ResourceAttributes>,
    non_resource_attributes: Option<NonResourceAttributes>,
    user: Option<String>,
    groups: Option<Vec<String>>,
    group: Option<Vec<String>>,
    uid: Option<String>,
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerStatus {
    allowed: Option<bool>,
    denied: Option<bool>,
    reason: Option<String>,
    evaluation_error: Option<String>,
}

/// Reads the body of an answer.
///
/// # Errors
/// See [`AnswerError`].
pub fn read(body: &[u8], expected: ReviewVersion) -> Result<Status, AnswerError> {
    // DIVERGES: a key that is given twice makes the answer unreadable; Kubernetes takes the last.
    let text = json::check_bytes(body).map_err(|error| AnswerError::Malformed(error.to_string()))?;
    let meta = json::type_meta(text).map_err(|error| AnswerError::Malformed(error.to_string()))?;
    // WH-20: what is missing is taken as expected.
    let kind = meta.kind.as_deref().filter(|kind| !kind.is_empty()).unwrap_or("SubjectAccessReview");
    let version =
        meta.api_version.as_deref().filter(|version| !version.is_empty()).unwrap_or(expected.api_version());
    if (kind, version) != ("SubjectAccessReview", expected.api_version()) {
        return Err(AnswerError::Another {
            found: format!("{version} {kind}"),
            expected: format!("{} SubjectAccessReview", expected.api_version()),
        });
    }
    let document: Document = policy::objects::strict::from_str(text)
        .map_err(|error: serde_json::Error| AnswerError::Malformed(error.to_string()))?;
    let status = document.status.unwrap_or_default();
    if let Some(error) = status.evaluation_error.filter(|error| !error.is_empty()) {
        tracing::debug!(%error, "the webhook could not evaluate everything");
    }
    Ok(Status {
        allowed: status.allowed.unwrap_or_default(),
        denied: status.denied.unwrap_or_default(),
        reason: status.reason.unwrap_or_default(),
    })
}
