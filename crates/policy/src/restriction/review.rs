//! AdmissionReview, version 1, as JSON: the question as an API server sends it, and the answer (NR-114).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::semantic::Map;
use super::{AdmissionRequest, NodeRestriction, Operation, Rejection};
use crate::json::JsonError;
use crate::objects::decode::{List, Text};
use crate::objects::strict;
use crate::request::User;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// An AdmissionReview that asks.
#[derive(Clone, Debug)]
pub struct AdmissionReview<'a> {
    raw: &'a RawValue,
    request: ReviewRequest<'a>,
    operation: Operation,
    user: User,
}

/// Why a text is no AdmissionReview that can be answered.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON, or not of this shape.
    #[error("not an AdmissionReview: {0}")]
    Undecodable(JsonError),
    /// Something else than an AdmissionReview of version 1.
    #[error("expected kind {KIND} of {API_VERSION}, found kind {kind:?} of {api_version:?}")]
    WrongKind {
        /// The API version found.
        api_version: String,
        /// The kind found.
        kind: String,
    },
    /// A part without which nothing can be decided is not there.
    #[error("the AdmissionReview has no {0}: it cannot be answered")]
    Missing(&'static str),
}

/// The outer shape of what is asked.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Question<'a> {
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    api_version: Text<'a>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
}

/// The outer shape of what is answered.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    kind: &'static str,
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a RawValue>,
    response: ReviewResponse,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReviewRequest<'a> {
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow)]
    resource: Option<GroupResource<'a>>,
    #[serde(borrow)]
    sub_resource: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
    operation: Option<Operation>,
    #[serde(borrow)]
    user_info: Option<UserInfo<'a>>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct GroupResource<'a> {
    #[serde(borrow)]
    group: Text<'a>,
    #[serde(borrow)]
    resource: Text<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct UserInfo<'a> {
    #[serde(borrow)]
    username: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow)]
    groups: List<Text<'a>>,
    #[serde(borrow)]
    extra: Map<'a, List<Text<'a>>>,
}

impl UserInfo<'_> {
    fn user(&self) -> User {
        let owned = |texts: &List<Text<'_>>| texts.iter().map(|text| text.to_string()).collect();
        User {
            name: self.username.to_string(),
            uid: self.uid.to_string(),
            groups: owned(&self.groups),
            extra: self.extra.iter().map(|(key, values)| (key.to_string(), owned(values))).collect(),
        }
    }
}

/// The answer in an AdmissionReview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReviewResponse {
    /// The uid of the question.
    pub uid: String,
    /// Whether the request passes.
    pub allowed: bool,
    /// Why not; nothing when it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ReviewStatus>,
}

/// A Status of failure, as it stands in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReviewStatus {
    metadata: EmptyObject,
    status: &'static str,
    /// The reason for people.
    pub message: String,
    /// The machine-readable reason; absent when empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'static str,
    /// What was refused or missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<ReviewDetails>,
    /// The HTTP status code.
    pub code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct EmptyObject {}

/// What a status speaks of. Empty parts are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReviewDetails {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource or kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

impl From<Rejection> for ReviewStatus {
    fn from(rejection: Rejection) -> Self {
        Self {
            metadata: EmptyObject {},
            status: "Failure",
            message: rejection.message,
            reason: rejection.reason,
            details: rejection.details.map(|d| ReviewDetails { name: d.name, group: d.group, kind: d.kind }),
            code: rejection.code,
        }
    }
}

impl<'a> AdmissionReview<'a> {
    /// Reads an AdmissionReview. An answer that it may already hold is passed over.
    ///
    /// # Errors
    /// It cannot be read, or lacks what a decision needs: operation, resource or user. Such a question has no
    /// answer; least of all yes.
    pub fn parse(text: &'a str) -> Result<Self, ReviewError> {
        let question: Question<'a> = strict::from_str(text)
            .map_err(|error| ReviewError::Undecodable(JsonError::of_decoding(text, &error)))?;
        if question.kind != KIND || question.api_version != API_VERSION {
            return Err(ReviewError::WrongKind {
                api_version: question.api_version.to_string(),
                kind: question.kind.to_string(),
            });
        }
        let raw = question.request.ok_or(ReviewError::Missing("request"))?;
        let request: ReviewRequest<'a> = strict::from_str(raw.get()).map_err(|error| {
            let start = raw.get().as_ptr().addr().saturating_sub(text.as_ptr().addr());
            let error = JsonError::of_decoding(raw.get(), &error);
            ReviewError::Undecodable(error.within(text, start, "request"))
        })?;
        let operation = request.operation.ok_or(ReviewError::Missing("request.operation"))?;
        let user = request.user_info.as_ref().ok_or(ReviewError::Missing("request.userInfo"))?.user();
        if request.resource.as_ref().is_none_or(|r| r.resource.is_empty()) {
            return Err(ReviewError::Missing("request.resource"));
        }
        Ok(Self { raw, request, operation, user })
    }

    /// The question as admission sees it: nothing is filled in, nothing removed (NR-114).
    pub fn request(&self) -> AdmissionRequest<'_> {
        let request = &self.request;
        let (group, resource) =
            request.resource.as_ref().map_or(("", ""), |r| (r.group.as_ref(), r.resource.as_ref()));
        AdmissionRequest {
            operation: self.operation,
            group,
            resource,
            subresource: &request.sub_resource,
            namespace: &request.namespace,
            name: &request.name,
            user: &self.user,
            object: request.object.map(RawValue::get),
            old_object: request.old_object.map(RawValue::get),
        }
    }

    /// The answer to a decision about [`AdmissionReview::request`].
    pub fn response(&self, decision: Result<(), Rejection>) -> ReviewResponse {
        let uid = self.request.uid.to_string();
        match decision {
            Ok(()) => ReviewResponse { uid, allowed: true, status: None },
            Err(rejection) => ReviewResponse { uid, allowed: false, status: Some(rejection.into()) },
        }
    }

    /// The AdmissionReview with this answer, as JSON: the question verbatim beside the answer.
    ///
    /// # Errors
    /// Only if serializing fails, which it does not for what was read from text.
    pub fn completed(&self, response: ReviewResponse) -> Result<String, serde_json::Error> {
        answer(Some(self.raw), response)
    }

    /// The AdmissionReview that goes back to an API server: the answer alone, as JSON.
    ///
    /// # Errors
    /// As [`AdmissionReview::completed`].
    pub fn reply(&self, response: ReviewResponse) -> Result<String, serde_json::Error> {
        answer(None, response)
    }
}

fn answer(request: Option<&RawValue>, response: ReviewResponse) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Answer { kind: KIND, api_version: API_VERSION, request, response })
}

/// Answers one AdmissionReview by NodeRestriction: the completed review, as JSON.
///
/// # Errors
/// The text is no AdmissionReview that can be answered.
pub fn complete(text: &str, restriction: &NodeRestriction<'_>) -> Result<String, ReviewError> {
    let review = AdmissionReview::parse(text)?;
    let decision = restriction.admit(&review.request());
    review
        .completed(review.response(decision))
        .map_err(|error| ReviewError::Undecodable(JsonError::of_decoding(text, &error)))
}
