//! Access reviews: the documents that ask "may this user do that" (WH-70 to WH-94, NA-22).
//!
//! A review is read ([`Review::read`]), checked ([`AccessReview::validate`]), turned into what authorizers are asked
//! ([`AccessReview::attributes`]) and answered ([`AccessReview::answered`]). Who may send a review, and how the answer
//! travels, is not decided here.

mod answer;
mod attributes;
mod read;
mod validate;

use serde::Serialize;

use crate::request::User;
use crate::rules::aggregate;
use crate::selector::SelectorRequirement;

pub use crate::field_error::{FieldError, FieldErrorReason};
pub use answer::{AccessStatus, AnsweredReview, rules_answer};
pub use attributes::ReviewAttributes;
pub use read::ReviewError;

/// The message of the 422 answer to an access review, which names neither kind nor object (WH-82).
pub fn invalid_message(errors: &[FieldError]) -> String {
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    format!(".{REVIEW_GROUP} \"\" is invalid: {}", aggregate(&messages).unwrap_or_default())
}

/// The API group of all reviews here.
pub const REVIEW_GROUP: &str = "authorization.k8s.io";

/// The versions of a review. They differ in one key: v1beta1 says `group` where v1 says `groups` (WH-13, WH-121).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `authorization.k8s.io/v1`
    V1,
    /// `authorization.k8s.io/v1beta1`
    V1beta1,
}

impl ReviewVersion {
    /// The version as it stands behind the group.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }

    /// The document's `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "authorization.k8s.io/v1",
            Self::V1beta1 => "authorization.k8s.io/v1beta1",
        }
    }

    /// The key of the list of groups.
    fn groups_key(self) -> &'static str {
        match self {
            Self::V1 => "groups",
            Self::V1beta1 => "group",
        }
    }
}

/// The kinds of review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewKind {
    /// About any user, in any namespace.
    SubjectAccessReview,
    /// About any user, in the review's own namespace (WH-73).
    LocalSubjectAccessReview,
    /// About the sender.
    SelfSubjectAccessReview,
    /// What the sender may do in a namespace (WH-90).
    SelfSubjectRulesReview,
}

impl ReviewKind {
    /// The document's `kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SubjectAccessReview => "SubjectAccessReview",
            Self::LocalSubjectAccessReview => "LocalSubjectAccessReview",
            Self::SelfSubjectAccessReview => "SelfSubjectAccessReview",
            Self::SelfSubjectRulesReview => "SelfSubjectRulesReview",
        }
    }

    /// Whether the review says itself whom it is about.
    pub fn names_subject(self) -> bool {
        matches!(self, Self::SubjectAccessReview | Self::LocalSubjectAccessReview)
    }
}

/// A review document.
#[expect(clippy::large_enum_variant, reason = "a review is taken apart where it is read, never stored")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Review {
    /// One of the three that ask about one request.
    Access(AccessReview),
    /// The one that asks for a list of rules.
    Rules(RulesReview),
}

/// A question about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessReview {
    /// The version of the document.
    pub version: ReviewVersion,
    /// Its kind. Never [`ReviewKind::SelfSubjectRulesReview`].
    pub kind: ReviewKind,
    /// What of its metadata counts.
    pub metadata: ReviewMetadata,
    /// Whom it is about; the empty user in a self review.
    pub user: User,
    /// The resource request that it asks about.
    pub resource: Option<ResourceAttributes>,
    /// The non-resource request that it asks about.
    pub non_resource: Option<NonResourceAttributes>,
}

/// A question for all rules of the sender in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesReview {
    /// The version of the document.
    pub version: ReviewVersion,
    /// The namespace. Empty is refused with 400 `no namespace on request` (WH-90).
    pub namespace: String,
}

/// What of a review's metadata counts, once the server has cleared what it always clears (WH-71).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewMetadata {
    /// The namespace.
    pub namespace: String,
    /// Everything else that is set, as JSON; nothing when nothing is (WH-72, WH-74, WH-87).
    pub rest: Option<String>,
}

/// `spec.resourceAttributes`, verbatim (WH-75).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAttributes {
    /// The namespace; empty for none or all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The verb.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verb: String,
    /// The API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The API version; empty stands for `*` (WH-75).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The field selector, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<SelectorAttributes>,
    /// The label selector, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<SelectorAttributes>,
}

/// A selector in a review: text or requirements, never both (WH-72).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectorAttributes {
    /// The text.
    #[serde(rename = "rawSelector", skip_serializing_if = "String::is_empty")]
    pub raw: String,
    /// The requirements.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<SelectorRequirement>,
}

/// `spec.nonResourceAttributes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NonResourceAttributes {
    /// The URL path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The verb.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verb: String,
}

#[cfg(test)]
mod tests;
