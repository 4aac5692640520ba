//! NamespaceLifecycle: refuses to create objects in missing or terminating namespaces, and to delete system namespaces
//! (AP-35).

use std::sync::LazyLock;

use kinds::resources::core::namespaces::{NAMESPACES, TERMINATING, UNDELETABLE};
use memchr::memmem::Finder;
use portcullis_store::Store as _;

use super::plugin::Plugin;
use crate::http::status::{Cause, Status};
use crate::registry::admission::{AdmissionAttributes, Operation};
use crate::registry::storage;

/// Finds the phase of a namespace that is being terminated.
static IS_TERMINATING: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(TERMINATING));

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "NamespaceLifecycle",
    handles,
    admit: |attributes, _| Box::pin(admit(attributes)),
    ..Plugin::NONE
};

fn handles(attributes: &AdmissionAttributes<'_>) -> bool {
    match attributes.operation {
        Operation::Delete => attributes.resource.is_namespace && attributes.subresource.is_empty(),
        Operation::Create | Operation::Update => !attributes.namespace.is_empty(),
        Operation::Connect => false,
    }
}

async fn admit(attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    if attributes.operation == Operation::Delete {
        return match UNDELETABLE.contains(&attributes.name) {
            true => Err(attributes.forbidden("this namespace may not be deleted", Vec::new())),
            false => Ok(()),
        };
    }
    let namespace = attributes.namespace;
    let key = storage::key(&NAMESPACES, "", namespace);
    let found = attributes.backend.get(&key).await.map_err(|error| storage::failed(&error))?;
    let entry = found.ok_or_else(|| Status::no_object("", "namespaces", namespace))?;
    if attributes.operation != Operation::Create {
        return Ok(());
    }
    // Most namespaces are not, and need not be read.
    if IS_TERMINATING.find(&entry.value).is_none() {
        return Ok(());
    }
    let stored = storage::decode(&entry.value)?;
    let phase = stored.get("status").and_then(|status| status.get("phase"));
    if phase.and_then(|phase| phase.as_str()) != Some(TERMINATING) {
        return Ok(());
    }
    let cause = Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    };
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    Err(attributes.forbidden(&why, vec![cause]))
}
