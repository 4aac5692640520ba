//! Reads writes of roles and bindings, for the escalation check over deny rules (BC-31). It decides nothing.

use serde_json::{Map, Value};

use super::body::GroupKind;
use super::rejection::Rejection;
use super::request::{AdmissionRequest, Operation};
use crate::objects::rbac::{Binding, RBAC_GROUP, Role};
use crate::rbac::escalation::{RbacObject, RbacWrite, differ_only_for_garbage_collection};

/// The role or the binding of a write.
#[derive(Clone, Debug)]
enum Written {
    Role(Role),
    ClusterRole { new: Role, old: Option<Role> },
    RoleBinding(Binding),
    ClusterRoleBinding(Binding),
}

/// A write that may grant permissions.
#[derive(Clone, Debug)]
pub struct RoleWrite<'a> {
    request: AdmissionRequest<'a>,
    written: Written,
    only_garbage_collection: bool,
}

impl<'a> AdmissionRequest<'a> {
    /// The write of a role or a binding. None: this is another write, or a deletion.
    ///
    /// # Errors
    /// An object cannot be read. Such a write is refused.
    pub fn role_write(&self) -> Result<Option<RoleWrite<'a>>, Rejection> {
        let is_of_role =
            matches!(self.resource, "roles" | "clusterroles" | "rolebindings" | "clusterrolebindings");
        let is_write = matches!(self.operation, Operation::Create | Operation::Update);
        if self.group != RBAC_GROUP || !is_of_role || !is_write || !self.subresource.is_empty() {
            return Ok(None);
        }
        let kind = |name| GroupKind(RBAC_GROUP, name);
        let is_update = self.operation == Operation::Update;
        let written = match self.resource {
            "roles" => Written::Role(self.body(kind("Role"))?),
            "clusterroles" => {
                let old = is_update.then(|| self.stored(kind("ClusterRole"))).transpose()?;
                Written::ClusterRole { new: self.body(kind("ClusterRole"))?, old }
            }
            "rolebindings" => Written::RoleBinding(self.body(kind("RoleBinding"))?),
            _ => Written::ClusterRoleBinding(self.body(kind("ClusterRoleBinding"))?),
        };
        let only_garbage_collection = is_update && self.changes_only_garbage_collection();
        Ok(Some(RoleWrite { request: *self, written, only_garbage_collection }))
    }

    fn changes_only_garbage_collection(&self) -> bool {
        let read = |object: super::AdmissionObject<'a>| object.read::<Map<String, Value>>().ok();
        let (old, new) = (self.old_object.and_then(read), self.object.and_then(read));
        old.zip(new).is_some_and(|(old, new)| differ_only_for_garbage_collection(&old, &new))
    }
}

impl RoleWrite<'_> {
    /// The write as escalation checks see it.
    pub fn as_rbac(&self) -> RbacWrite<'_> {
        RbacWrite {
            user: self.request.user,
            namespace: self.request.namespace,
            name: self.request.name,
            object: match &self.written {
                Written::Role(new) => RbacObject::Role(new),
                Written::ClusterRole { new, old } => RbacObject::ClusterRole { new, old: old.as_ref() },
                Written::RoleBinding(new) => RbacObject::RoleBinding(new),
                Written::ClusterRoleBinding(new) => RbacObject::ClusterRoleBinding(new),
            },
            only_garbage_collection: self.only_garbage_collection,
        }
    }

    /// The refusal of this write.
    pub fn refused(&self, why: &str) -> Rejection {
        self.request.forbidden(why)
    }
}
