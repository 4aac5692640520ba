//! Completed reviews: the document with its status (WH-78, WH-79, WH-91, WH-92, WH-94). They serialize to the same JSON
//! fields as those of the API server.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    AccessReview, NonResourceAttributes, ResourceAttributes, ReviewAttributes, ReviewKind, ReviewVersion,
    RulesReview,
};
use crate::chain::{Answer, Outcome};
use crate::decision::{Decision, Reason};
use crate::rules::RuleListing;

/// The status of an access review (WH-78). `allowed` is always serialized, the other fields if they are not empty.
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
    /// The evaluation errors, or empty. They do not change the decision.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub evaluation_error: String,
}

impl AccessStatus {
    /// The answer that the decision of a chain gives. An authorizer's error does not make the review fail (WH-80).
    pub fn new(review: &ReviewAttributes<'_>, outcome: &Outcome) -> Self {
        Self {
            allowed: outcome.is_allow(),
            denied: outcome.is_deny(),
            reason: outcome.reason(&review.attributes()),
            evaluation_error: review.evaluation_error(outcome.error.as_deref()).unwrap_or_default(),
        }
    }

    /// The decision that an answer is (WH-42 to WH-45, KA-53): a denial whenever it denies.
    pub fn decision(&self) -> Decision<()> {
        match (self.denied, self.allowed) {
            (true, _) => Decision::Deny(()),
            (false, true) => Decision::Allow(()),
            (false, false) => Decision::NoOpinion(()),
        }
    }

    /// The meaning of an answer for a chain of authorizers (WH-42, WH-43).
    pub fn answer(&self) -> Answer {
        let reason = match self.reason.as_str() {
            "" => Reason::None,
            reason => Reason::Told(reason.into()),
        };
        let both = "webhook subject access review returned both allow and deny response";
        let error = (self.denied && self.allowed).then(|| both.to_owned());
        Answer { decision: self.decision().map(|()| reason), error }
    }
}

/// An access review with its status. Serializes as the document.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AnsweredReview<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata<'a>,
    spec: ReviewSpec<'a>,
    status: &'a AccessStatus,
}

#[derive(Clone, Debug, Serialize)]
struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
}

/// The spec of an access review as it is written. Empty fields are left out (WH-13).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewSpec<'a> {
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
    /// Returns the review with its status. The spec is returned as it was decoded: without unknown and empty fields,
    /// and without the status that was sent (WH-78).
    pub fn answered<'a>(&'a self, status: &'a AccessStatus) -> AnsweredReview<'a> {
        let is_local = self.kind == ReviewKind::LocalSubjectAccessReview;
        AnsweredReview {
            kind: self.kind.as_str(),
            api_version: self.version.api_version(),
            metadata: Metadata { namespace: if is_local { &self.metadata.namespace } else { "" } },
            spec: self.spec(),
            status,
        }
    }

    /// The spec as it is written in the review's version.
    pub fn spec(&self) -> ReviewSpec<'_> {
        let groups = self.user.groups.as_slice();
        let (groups, group): (&[String], &[String]) = match self.version {
            ReviewVersion::V1 => (groups, &[]),
            ReviewVersion::V1beta1 => (&[], groups),
        };
        ReviewSpec {
            resource_attributes: self.resource.as_ref(),
            non_resource_attributes: self.non_resource.as_ref(),
            user: &self.user.name,
            groups,
            group,
            extra: &self.user.extra,
            uid: &self.user.uid,
        }
    }
}

/// The response to a rules review: the status, with empty spec and metadata (WH-91, WH-94). Both lists are present even
/// if empty (WH-92).
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
