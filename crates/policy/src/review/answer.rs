//! Completed reviews: the document with its status (WH-78, WH-79, WH-91, WH-92, WH-94). They serialize as JSON, field
//! by field as the API server writes them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    AccessReview, NonResourceAttributes, ResourceAttributes, ReviewAttributes, ReviewKind, ReviewVersion,
    RulesReview,
};
use crate::decision::Decision;
use crate::rules::RuleListing;

/// The answer to an access review (WH-78). Serializes with `allowed` always, the rest where it is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessStatus {
    /// The decision is Allow.
    pub allowed: bool,
    /// The decision is Deny; never together with `allowed`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
    /// The authorizer's reason, or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What went wrong on the way, or empty. It changes no decision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub evaluation_error: String,
}

impl AccessStatus {
    /// The answer that a decision gives. An authorizer's error does not make the review fail (WH-80).
    pub fn new(review: &ReviewAttributes<'_>, decision: &Decision, authorizer_error: Option<&str>) -> Self {
        Self {
            allowed: decision.is_allow(),
            denied: matches!(decision, Decision::Deny(_)),
            reason: decision.reason().render(&review.attributes()).to_string(),
            evaluation_error: review.evaluation_error(authorizer_error).unwrap_or_default(),
        }
    }
}

/// An access review with its answer; serializes as the document.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnsweredReview<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    spec: Spec<'a>,
    status: &'a AccessStatus,
}

#[derive(Clone, Debug, Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<&'a ResourceAttributes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<&'a NonResourceAttributes>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user: &'a str,
    /// v1 (WH-13).
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    /// v1beta1.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    group: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

impl AccessReview {
    /// The review with its answer. The spec comes back as it was read: unknown and empty fields are gone, and so is
    /// whatever status was sent (WH-78).
    pub fn answered<'a>(&'a self, status: &'a AccessStatus) -> AnsweredReview<'a> {
        let groups = self.user.groups.as_slice();
        let (groups, group): (&[String], &[String]) = match self.version {
            ReviewVersion::V1 => (groups, &[]),
            ReviewVersion::V1beta1 => (&[], groups),
        };
        let is_local = self.kind == ReviewKind::LocalSubjectAccessReview;
        AnsweredReview {
            kind: self.kind.as_str(),
            api_version: self.version.api_version(),
            metadata: Metadata { namespace: if is_local { &self.metadata.namespace } else { "" } },
            spec: Spec {
                resource_attributes: self.resource.as_ref(),
                non_resource_attributes: self.non_resource.as_ref(),
                user: &self.user.name,
                groups,
                group,
                extra: &self.user.extra,
                uid: &self.user.uid,
            },
            status,
        }
    }
}

/// The answer to a rules review: the status only, spec and metadata empty (WH-91, WH-94). Both lists are there even
/// when they are empty (WH-92).
pub fn rules_answer(review: &RulesReview, listing: &RuleListing) -> Value {
    let mut status = json!({
        "resourceRules": listing.resource_rules,
        "nonResourceRules": listing.non_resource_rules,
        "incomplete": listing.incomplete,
    });
    if let (Some(error), Some(status)) = (listing.evaluation_error(), status.as_object_mut()) {
        status.insert("evaluationError".to_owned(), Value::String(error));
    }
    json!({
        "apiVersion": review.version.api_version(),
        "kind": ReviewKind::SelfSubjectRulesReview.as_str(),
        "metadata": {},
        "spec": {},
        "status": status,
    })
}
