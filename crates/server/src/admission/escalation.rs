//! The RBAC escalation check: nobody can grant permissions that they do not hold (RB-50 to RB-64), nor what deny rules deny them
//! (BC-31).
//!
//! The rules are in `portcullis_policy::rbac::escalation`. They are applied on create, update and patch, dry runs
//! included, before validation.

use http::StatusCode;
use kinds::Map;
use kinds::resource::Resource;
use policy::User;
use policy::objects::strict;
use policy::rbac::escalation::{RbacObject, RbacWrite, Refusal, differ_only_for_garbage_collection};
use serde::de::DeserializeOwned;

use crate::authz::Authorization;
use crate::http::status::{Details, Status};
use crate::registry::meta;
use crate::registry::target::Target;

/// Checks whether the caller may write this object, given the stored one. Kinds that grant no permissions pass.
///
/// # Errors
/// The refusal for the response.
pub(super) async fn check(
    authorization: &Authorization,
    user: &User,
    target: &Target<'_>,
    new: &Map,
    old: Option<&Map>,
) -> Result<(), Status> {
    let resource = target.resource;
    if !resource.grants_permissions {
        return Ok(());
    }
    let (new_role, old_role, binding);
    let object = match resource.kind {
        "Role" => {
            new_role = read(new)?;
            RbacObject::Role(&new_role)
        }
        "ClusterRole" => {
            (new_role, old_role) = (read(new)?, old.map(read).transpose()?);
            RbacObject::ClusterRole { new: &new_role, old: old_role.as_ref() }
        }
        "RoleBinding" => {
            binding = read(new)?;
            RbacObject::RoleBinding(&binding)
        }
        "ClusterRoleBinding" => {
            binding = read(new)?;
            RbacObject::ClusterRoleBinding(&binding)
        }
        _ => return Ok(()),
    };
    let write = RbacWrite {
        user,
        namespace: target.namespace,
        name: target.name,
        object,
        // RB-53
        only_garbage_collection: old.is_some_and(|old| differ_only_for_garbage_collection(old, new)),
    };
    authorization.check_write(&write).await.map_err(|refusal| answer(resource, new, refusal))
}

/// Decodes the parts of an object that decisions depend on.
fn read<T: DeserializeOwned>(object: &Map) -> Result<T, Status> {
    strict::from_map(object).map_err(Status::internal)
}

fn answer(resource: &Resource, new: &Map, refusal: Refusal) -> Status {
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
