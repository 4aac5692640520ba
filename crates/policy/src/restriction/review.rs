//! AdmissionReview v1 and v1beta1 as JSON: the request as sent by an API server, and the response (NR-114).

use portcullis_apimachinery::json::JsonError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::rejection::RejectionDetails;
use super::semantic::Map;
use super::{AdmissionObject, AdmissionRequest, Operation, Rejection};
use crate::objects::decode::{List, Text};
use crate::objects::strict;
use crate::request::User;

/// The versions, which have the same fields. An answer is in the version of its question.
const API_VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];
pub(super) const KIND: &str = "AdmissionReview";

/// An AdmissionReview with a request.
#[derive(Clone, Debug)]
pub struct AdmissionReview<'a> {
    api_version: &'static str,
    raw: &'a RawValue,
    request: ReviewRequest<'a>,
    operation: Operation,
    user: User,
}

/// An error in an AdmissionReview.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not JSON, or not of this schema.
    #[error("not an AdmissionReview: {0}")]
    Undecodable(JsonError),
    /// Not an AdmissionReview of a version that is read.
    #[error("expected kind {KIND} of {}, found kind {kind:?} of {api_version:?}", API_VERSIONS.join(" or "))]
    WrongKind {
        /// The API version found.
        api_version: String,
        /// The kind found.
        kind: String,
    },
    /// A required field is missing.
    #[error("the AdmissionReview has no {0}: it cannot be answered")]
    Missing(&'static str),
}

/// The envelope of a request.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Question<'a> {
    kind: Text<'a>,
    api_version: Text<'a>,
    request: Option<&'a RawValue>,
}

/// The envelope of a response.
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
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ReviewRequest<'a> {
    uid: Text<'a>,
    resource: Option<GroupResource<'a>>,
    sub_resource: Text<'a>,
    name: Text<'a>,
    namespace: Text<'a>,
    operation: Option<Operation>,
    user_info: Option<UserInfo<'a>>,
    object: Option<&'a RawValue>,
    old_object: Option<&'a RawValue>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct GroupResource<'a> {
    group: Text<'a>,
    resource: Text<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct UserInfo<'a> {
    username: Text<'a>,
    uid: Text<'a>,
    groups: List<Text<'a>>,
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

/// The response in an AdmissionReview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReviewResponse {
    /// The uid of the question.
    pub uid: String,
    /// Whether the request is admitted.
    pub allowed: bool,
    /// The reason of a refusal; `None` if admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ReviewStatus>,
}

/// The failure Status in a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReviewStatus {
    metadata: EmptyObject,
    status: &'static str,
    /// The message for people.
    pub message: String,
    /// The machine-readable reason; absent when empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'static str,
    /// The resource that was refused or missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<RejectionDetails>,
    /// The HTTP status code.
    pub code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct EmptyObject {}

impl From<Rejection> for ReviewStatus {
    fn from(rejection: Rejection) -> Self {
        Self {
            metadata: EmptyObject {},
            status: "Failure",
            message: rejection.message,
            reason: rejection.reason,
            details: rejection.details,
            code: rejection.code,
        }
    }
}

impl<'a> AdmissionReview<'a> {
    /// Parses an AdmissionReview. A response that it may already contain is ignored.
    ///
    /// # Errors
    /// It cannot be parsed, or lacks a required field: operation, resource or user. Such a review cannot be answered,
    /// and is never allowed.
    pub fn parse(text: &'a str) -> Result<Self, ReviewError> {
        let question: Question<'a> = strict::from_str(text)
            .map_err(|error| ReviewError::Undecodable(JsonError::of_decoding(text, &error)))?;
        let api_version = API_VERSIONS.into_iter().find(|version| question.api_version == *version);
        let Some(api_version) = api_version.filter(|_| question.kind == KIND) else {
            return Err(ReviewError::WrongKind {
                api_version: question.api_version.to_string(),
                kind: question.kind.to_string(),
            });
        };
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
        Ok(Self { api_version, raw, request, operation, user })
    }

    /// The request as admission sees it, without defaulting (NR-114).
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
            object: request.object.map(|object| AdmissionObject::Json(object.get())),
            old_object: request.old_object.map(|object| AdmissionObject::Json(object.get())),
        }
    }

    /// Converts a decision on [`AdmissionReview::request`] to a response.
    pub fn response(&self, decision: Result<(), Rejection>) -> ReviewResponse {
        let uid = self.request.uid.to_string();
        match decision {
            Ok(()) => ReviewResponse { uid, allowed: true, status: None },
            Err(rejection) => ReviewResponse { uid, allowed: false, status: Some(rejection.into()) },
        }
    }

    /// Serializes the AdmissionReview with this response: the original request and the response.
    ///
    /// # Errors
    /// Only if serializing fails, which it does not for values parsed from text.
    pub fn completed(&self, response: ReviewResponse) -> Result<String, serde_json::Error> {
        self.answer(Some(self.raw), response)
    }

    /// Serializes the AdmissionReview for the API server, with the response only.
    ///
    /// # Errors
    /// As [`AdmissionReview::completed`].
    pub fn reply(&self, response: ReviewResponse) -> Result<String, serde_json::Error> {
        self.answer(None, response)
    }

    fn answer(
        &self,
        request: Option<&RawValue>,
        response: ReviewResponse,
    ) -> Result<String, serde_json::Error> {
        let Self { api_version, .. } = self;
        serde_json::to_string(&Answer { kind: KIND, api_version, request, response })
    }
}
