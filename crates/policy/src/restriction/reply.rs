//! The answer of an admission webhook, as its caller reads it: an AdmissionReview with a response. What is not exactly the
//! answer to the question that was asked is an error, never a yes.
//!
//! DIVERGES: an answer in v1beta1 needs `uid`, `kind` and `apiVersion` as well; kube-apiserver does not look at them there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portcullis_apimachinery::json::JsonError;
use serde::Deserialize;

use super::review::KIND;
use crate::objects::decode::{List, Text};
use crate::objects::strict;

/// The question that an answer is for.
#[derive(Clone, Copy, Debug)]
pub struct AskedReview<'a> {
    /// Its `apiVersion`.
    pub api_version: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Whether the answer may change the object.
    pub may_patch: bool,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionReply {
    /// Whether the write is admitted.
    pub is_allowed: bool,
    /// What is said about a refusal.
    pub status: ReplyStatus,
    /// The JSON patch for the object; empty for none.
    pub patch: Vec<u8>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// The Status in an answer. Nothing in it is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyStatus {
    /// The status code; 0 for none.
    pub code: i64,
    /// The message for people.
    pub message: String,
    /// The reason in one word.
    pub reason: String,
    /// The details, if there are any.
    pub details: Option<ReplyDetails>,
}

/// The details in a Status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyDetails {
    /// The name of the object.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Its kind or resource.
    pub kind: String,
    /// Its uid.
    pub uid: String,
    /// The causes: reason, message and field.
    pub causes: Vec<[String; 3]>,
    /// The number of seconds to wait before a retry; 0 for none.
    pub retry_after_seconds: u32,
}

/// An error in an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// It cannot be read.
    #[error("the answer is no {KIND}: {0}")]
    Unreadable(String),
    /// It can be read, and is not an answer to the question.
    #[error("received invalid webhook response: {0}")]
    Invalid(String),
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Answer<'a> {
    kind: Text<'a>,
    api_version: Text<'a>,
    response: Option<Response<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Response<'a> {
    uid: Text<'a>,
    allowed: Option<bool>,
    status: Option<Status<'a>>,
    patch: Text<'a>,
    patch_type: Option<Text<'a>>,
    warnings: List<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Status<'a> {
    code: Option<i64>,
    message: Text<'a>,
    reason: Text<'a>,
    details: Option<Details<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Details<'a> {
    name: Text<'a>,
    group: Text<'a>,
    kind: Text<'a>,
    uid: Text<'a>,
    causes: List<Cause<'a>>,
    retry_after_seconds: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Cause<'a> {
    reason: Text<'a>,
    message: Text<'a>,
    field: Text<'a>,
}

impl AdmissionReply {
    /// Reads the answer to a question. Unknown members are ignored.
    ///
    /// # Errors
    /// See [`ReplyError`].
    pub fn read(bytes: &[u8], asked: AskedReview<'_>) -> Result<Self, ReplyError> {
        let text = std::str::from_utf8(bytes).map_err(|error| ReplyError::Unreadable(error.to_string()))?;
        let answer: Answer<'_> = strict::from_str(text)
            .map_err(|error| ReplyError::Unreadable(JsonError::of_decoding(text, &error).to_string()))?;
        let invalid = |why: String| Err(ReplyError::Invalid(why));
        let Some(response) = answer.response else {
            return invalid("webhook response was absent".to_owned());
        };
        if response.uid != *asked.uid {
            return invalid(format!("expected response.uid={:?}, got {:?}", asked.uid, &*response.uid));
        }
        if answer.api_version != *asked.api_version || answer.kind != *KIND {
            let (group, version) = answer.api_version.rsplit_once('/').unwrap_or(("", &answer.api_version));
            return invalid(format!(
                "expected webhook response of {}, Kind={KIND}, got {group}/{version}, Kind={}",
                asked.api_version, &*answer.kind
            ));
        }
        Ok(Self {
            is_allowed: response.allowed.unwrap_or_default(),
            patch: response.patch(asked.may_patch)?,
            warnings: response.warnings.iter().map(|warning| warning.to_string()).collect(),
            status: response.status.map(ReplyStatus::from).unwrap_or_default(),
        })
    }
}

impl Response<'_> {
    /// The patch. Its type must be said, and there is only one.
    fn patch(&self, is_allowed: bool) -> Result<Vec<u8>, ReplyError> {
        let why = match (&*self.patch, self.patch_type.as_deref()) {
            ("", None) => return Ok(Vec::new()),
            ("", Some(_)) if is_allowed => "webhook returned response.patchType but not response.patch",
            ("", Some(_)) => "validating webhook may not return response.patchType",
            _ if !is_allowed => "validating webhook may not return response.patch",
            (_, None) => "webhook returned response.patch but not response.patchType",
            (patch, Some("JSONPatch")) => {
                let decoded = STANDARD.decode(patch);
                return decoded.map_err(|error| ReplyError::Unreadable(format!("response.patch: {error}")));
            }
            (_, Some(_)) => "response.patchType must be JSONPatch",
        };
        Err(ReplyError::Invalid(why.to_owned()))
    }
}

impl From<Status<'_>> for ReplyStatus {
    fn from(status: Status<'_>) -> Self {
        Self {
            code: status.code.unwrap_or_default(),
            message: status.message.to_string(),
            reason: status.reason.to_string(),
            details: status.details.map(ReplyDetails::from),
        }
    }
}

impl From<Details<'_>> for ReplyDetails {
    fn from(details: Details<'_>) -> Self {
        let causes = details.causes.iter();
        Self {
            name: details.name.to_string(),
            group: details.group.to_string(),
            kind: details.kind.to_string(),
            uid: details.uid.to_string(),
            causes: causes
                .map(|cause| [&cause.reason, &cause.message, &cause.field].map(|text| text.to_string()))
                .collect(),
            retry_after_seconds: details.retry_after_seconds.unwrap_or_default(),
        }
    }
}
