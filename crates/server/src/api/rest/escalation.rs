//! Nobody hands on what they do not hold: what is asked of a role or a binding before it is written (RB-50 to RB-64).
//!
//! The rules are in `portcullis_policy::rbac::escalation`; here they are asked, on create, update and patch, dry runs
//! included, before anything is validated.

use http::StatusCode;
use kinds::Map;
use policy::engine::RbacWrite;
use policy::objects::rbac::RBAC_GROUP;
use policy::objects::{Kind, Object};
use policy::rbac::escalation::{Refusal, differ_only_for_garbage_collection};
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use serde_json::Value;

use super::{Call, meta};
use crate::status::{Details, Status};

/// Whether the caller may write this, in place of what is stored. Kinds that grant nothing may always be written.
///
/// # Errors
/// The refusal to answer with.
pub(crate) async fn check(call: &Call<'_>, new: &Map, old: Option<&Map>) -> Result<(), Status> {
    let resource = call.target.resource;
    if resource.group != RBAC_GROUP {
        return Ok(());
    }
    let Some(kind) = Kind::of(&resource.api_version(), resource.kind) else { return Ok(()) };
    let object = read(kind, new)?;
    let stored = old.map(|old| read(kind, old)).transpose()?;
    // RB-53
    let only_garbage_collection = old.is_some_and(|old| {
        differ_only_for_garbage_collection(&Value::Object(old.clone()), &Value::Object(new.clone()))
    });
    let write = RbacWrite {
        user: call.permit.user(),
        namespace: call.target.namespace,
        name: call.target.name,
        new: &object,
        old: stored.as_ref(),
        only_garbage_collection,
    };
    call.app.authorization().check_write(&write).await.map_err(|refusal| answer(call, new, refusal))
}

/// What decisions read of an object.
fn read(kind: Kind, object: &Map) -> Result<Object<'static>, Status> {
    let text = serde_json::to_string(object).map_err(Status::internal)?;
    let object = Object::parse(kind, &text).map_err(Status::internal)?;
    object.into_owned_rbac().ok_or_else(|| Status::internal("not a role and not a binding"))
}

fn answer(call: &Call<'_>, new: &Map, refusal: Refusal) -> Status {
    let resource = call.target.resource;
    let details = |name: &str| Details::of(resource.group, resource.plural, name);
    match refusal {
        Refusal::Forbidden(message) => Status::forbidden(message, details(meta::text(new, "name"))),
        // RB-59
        Refusal::NotFound { role, message } => {
            Status::other(StatusCode::NOT_FOUND, "NotFound", message, Some(details(&role)))
        }
        Refusal::UnsupportedKind(_) => Status::unknown(refusal.to_string()),
        Refusal::NamespaceRequired => Status::bad_request(refusal.to_string()),
    }
}
