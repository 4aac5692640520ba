//! Access reviews: SubjectAccessReview and its relatives (WH-70 to WH-94, NA-22).
//!
//! A review is decoded ([`Review::read`]), validated ([`AccessReview::validate`]), converted to attributes for the
//! authorizers ([`AccessReview::attributes`]) and completed ([`AccessReview::answered`]). Authorization of the review
//! itself and the transport of the response are the caller's.

mod answer;
mod attributes;
mod read;
mod validate;

use std::str::FromStr;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::selector::SelectorRequirement;
use serde::Serialize;

use crate::request::User;
use crate::rules::aggregate;

pub use answer::{AccessStatus, AnsweredReview, ReviewSpec, rules_answer};
pub use attributes::ReviewAttributes;
pub use read::ReviewError;

/// The message of the 422 response to an access review, which names neither kind nor object (WH-82).
pub fn invalid_message(errors: &[FieldError]) -> String {
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    format!(".{REVIEW_GROUP} \"\" is invalid: {}", aggregate(&messages).unwrap_or_default())
}

/// The API group of all access reviews.
pub const REVIEW_GROUP: &str = "authorization.k8s.io";

/// The versions of a review. They differ in one field name: `group` in v1beta1, `groups` in v1 (WH-13, WH-121).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `authorization.k8s.io/v1`
    V1,
    /// `authorization.k8s.io/v1beta1`
    V1beta1,
}

impl ReviewVersion {
    /// The version without the group.
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

    /// The field name of the list of groups.
    fn groups_key(self) -> &'static str {
        match self {
            Self::V1 => "groups",
            Self::V1beta1 => "group",
        }
    }
}

impl FromStr for ReviewVersion {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::V1, Self::V1beta1]
            .into_iter()
            .find(|version| version.as_str() == name)
            .ok_or_else(|| format!("unsupported SubjectAccessReview version {name:?}: use v1 or v1beta1"))
    }
}

/// The kinds of review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewKind {
    /// Checks any user, in any namespace.
    SubjectAccessReview,
    /// Checks any user, in the review's own namespace (WH-73).
    LocalSubjectAccessReview,
    /// Checks the caller.
    SelfSubjectAccessReview,
    /// Lists the caller's rules in a namespace (WH-90).
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

    /// Returns whether the review names its user, rather than being about the caller.
    pub fn names_subject(self) -> bool {
        matches!(self, Self::SubjectAccessReview | Self::LocalSubjectAccessReview)
    }
}

/// A review document.
#[expect(clippy::large_enum_variant, reason = "a review is taken apart where it is read, never stored")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Review {
    /// One of the three kinds that check one request.
    Access(AccessReview),
    /// The kind that lists rules.
    Rules(RulesReview),
}

/// An access review of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessReview {
    /// The version of the document.
    pub version: ReviewVersion,
    /// Its kind. Never [`ReviewKind::SelfSubjectRulesReview`].
    pub kind: ReviewKind,
    /// The relevant metadata.
    pub metadata: ReviewMetadata,
    /// The user to check; the empty user in a self review.
    pub user: User,
    /// The resource request to check.
    pub resource: Option<ResourceAttributes>,
    /// The non-resource request to check.
    pub non_resource: Option<NonResourceAttributes>,
}

/// A review that lists all rules of the caller in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesReview {
    /// The version of the document.
    pub version: ReviewVersion,
    /// The namespace. An empty one is refused with 400 `no namespace on request` (WH-90).
    pub namespace: String,
}

/// The metadata of a review, without the fields that the server always clears (WH-71).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewMetadata {
    /// The namespace.
    pub namespace: String,
    /// All other fields that are set, as JSON; `None` if there are none (WH-72, WH-74, WH-87).
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
    /// The API version; empty means `*` (WH-75).
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

/// A selector in a review: raw text or requirements, never both (WH-72).
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
