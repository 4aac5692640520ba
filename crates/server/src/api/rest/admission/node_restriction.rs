//! NodeRestriction: the rules are in `portcullis_policy::restriction`; here they are asked.

use http::StatusCode;
use kinds::Map;
use policy::identity::NodeIdentity;
use policy::restriction::{AdmissionRequest, Rejection};
use portcullis_kinds as kinds;
use portcullis_policy as policy;

use super::{Plugin, Review, Verdict};
use crate::status::{Details, Status};

/// See the module.
pub(super) struct NodeRestriction;

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn handles(&self, review: &Review<'_>) -> bool {
        NodeIdentity::of(review.user).is_some()
    }

    fn admit<'r>(&'r self, review: &'r mut Review<'_>) -> Verdict<'r> {
        Box::pin(async move { decide(review).await })
    }
}

async fn decide(review: &Review<'_>) -> Result<(), Status> {
    let text = |object: &Map| serde_json::to_string(object).map_err(Status::internal);
    let object = review.object.as_deref().map(text).transpose()?;
    let old_object = review.old.map(text).transpose()?;
    let request = AdmissionRequest {
        operation: review.operation,
        group: review.resource.group,
        resource: review.resource.plural,
        subresource: review.subresource,
        namespace: review.namespace,
        name: review.name,
        user: review.user,
        object: object.as_deref(),
        old_object: old_object.as_deref(),
    };
    review.app.authorization().admit_write(&request).await.map_err(refusal)
}

fn refusal(rejection: Rejection) -> Status {
    let code = StatusCode::from_u16(rejection.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let details = rejection.details.map(|d| Details::of(&d.group, &d.kind, &d.name));
    Status::other(code, rejection.reason, rejection.message, details)
}
