//! The objects that every cluster has: the system namespaces and the priority classes of system pods. They are created when
//! the server starts, and not created again when one that can be deleted is deleted.

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::core::namespaces::NAMESPACES;
use kinds::resources::pods::admission::built_in_priority;
use kinds::resources::priority_classes::PRIORITY_CLASSES;
use portcullis_store::{Expect, Store as _, StoreError, Write};
use serde_json::{Value, json};

use super::backend::Backend;
use super::meta::{self, now};
use super::write::SERVER;
use super::{managed, storage};
use crate::http::status::Status;

const NAMESPACE_NAMES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The priority classes, with what they are for.
const CLASSES: [(&str, &str); 2] = [
    ("system-cluster-critical", "For pods that the cluster cannot do without, on whichever node they run."),
    ("system-node-critical", "For pods that their node cannot do without."),
];

/// Creates what is missing.
///
/// # Errors
/// The store cannot be read or written.
pub async fn ensure(backend: &Backend) -> Result<(), Status> {
    for name in NAMESPACE_NAMES {
        create(backend, &NAMESPACES, name, json!({"spec": {}})).await?;
    }
    for (name, purpose) in CLASSES {
        let value = built_in_priority(name).map(|priority| priority.value);
        create(backend, &PRIORITY_CLASSES, name, json!({"value": value, "description": purpose})).await?;
    }
    Ok(())
}

async fn create(
    backend: &Backend,
    resource: &'static Resource,
    name: &str,
    content: Value,
) -> Result<(), Status> {
    let mut object: Map = serde_json::from_value(content).map_err(Status::internal)?;
    meta::set(&mut object, "name", name);
    (resource.default)(&mut object);
    managed::record_own(resource, SERVER, None, &mut object);
    meta::identify(&mut object, now())?;
    (resource.prepare_create)(&mut object);
    let value = Some(storage::encode(resource, &object)?);
    let key = storage::key(resource, "", name);
    match backend.commit(vec![Write { key, expect: Expect::Absent, value }]).await {
        Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
        Err(error) => Err(storage::failed(&error)),
    }
}
