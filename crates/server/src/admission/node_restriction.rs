//! NodeRestriction. The rules are in `portcullis_policy::restriction`; this module calls them.

use http::StatusCode;
use kinds::Map;
use policy::User;
use policy::identity::NodeIdentity;
use policy::request_info::RequestInfo;
use policy::restriction::{AdmissionObject, AdmissionRequest, Operation, Rejection};

use super::plugin::Plugin;
use crate::authz::Authorization;
use crate::http::status::{Details, Status};
use crate::registry::admission::AdmissionAttributes;

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "NodeRestriction",
    handles,
    admit: |attributes, authorization| Box::pin(decide(attributes, authorization)),
    ..Plugin::NONE
};

fn handles(attributes: &AdmissionAttributes<'_>) -> bool {
    NodeIdentity::of(attributes.user).is_some()
}

async fn decide(attributes: &AdmissionAttributes<'_>, authorization: &Authorization) -> Result<(), Status> {
    let request = AdmissionRequest {
        operation: attributes.operation,
        group: attributes.resource.group,
        resource: attributes.resource.plural,
        subresource: attributes.subresource,
        namespace: attributes.namespace,
        name: attributes.name,
        user: attributes.user,
        object: attributes.object.as_deref().map(AdmissionObject::Decoded),
        old_object: attributes.old.map(AdmissionObject::Decoded),
    };
    authorization.admit_write(&request).await.map_err(refusal)
}

/// Decides about a document that is posted and answered, and not stored (NR-3).
///
/// # Errors
/// The refusal.
pub(super) async fn decide_on_document(
    info: &RequestInfo,
    user: &User,
    document: &Map,
    authorization: &Authorization,
) -> Result<(), Status> {
    let target = info.attributes(user).resource.unwrap_or_default();
    let request = AdmissionRequest {
        operation: Operation::Create,
        group: target.group,
        resource: target.resource,
        subresource: target.subresource,
        namespace: target.namespace,
        name: target.name,
        user,
        object: Some(AdmissionObject::Decoded(document)),
        old_object: None,
    };
    authorization.admit_write(&request).await.map_err(refusal)
}

fn refusal(rejection: Rejection) -> Status {
    let code = StatusCode::from_u16(rejection.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let details = rejection.details.map(|d| Details::of(&d.group, &d.kind, &d.name));
    Status::other(code, rejection.reason, rejection.message, details)
}
