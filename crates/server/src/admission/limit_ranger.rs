//! LimitRanger: fills in the requests and limits of pods, and refuses pods and claims beyond the bounds of the LimitRanges
//! of their namespace.

use std::sync::Arc;

use kinds::Map;
use kinds::resources::core::limit_ranges::{claim_refusals, fill_in, pod_refusals};
use kinds::resources::core::persistent_volume_claims::PERSISTENT_VOLUME_CLAIMS;
use kinds::resources::core::quotas::LIMIT_RANGES;
use kinds::resources::pods::PODS;
use portcullis_store::{Entry, List, Store as _};

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};
use crate::registry::{meta, storage};

/// The size of a large LimitRange, in bytes.
const LARGE: usize = 16 * 1024;

/// See the module. Containers of a pod change by `resize` alone.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "LimitRanger",
    rules: &[
        Rule { operations: &[Operation::Create], resource: &PODS, subresource: "" },
        Rule { operations: &[Operation::Update], resource: &PODS, subresource: "resize" },
        Rule {
            operations: &[Operation::Create, Operation::Update],
            resource: &PERSISTENT_VOLUME_CLAIMS,
            subresource: "",
        },
    ],
    admit: |attributes, _| Box::pin(admit(attributes)),
    validate: |attributes, _, _| Box::pin(validate(attributes)),
    ..Plugin::NONE
};

async fn admit(attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    if *attributes.resource != PODS || is_being_deleted(attributes) {
        return Ok(());
    }
    for entry in ranges(attributes).await? {
        let range = decode(&entry).await?;
        let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
        fill_in(pod, &range).map_err(|why| attributes.forbidden(&why, Vec::new()))?;
    }
    Ok(())
}

async fn validate(attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
    if is_being_deleted(attributes) {
        return Ok(());
    }
    let Some(object) = attributes.object.as_deref() else { return Ok(()) };
    let refusals = if *attributes.resource == PODS { pod_refusals } else { claim_refusals };
    for entry in ranges(attributes).await? {
        let refusals = refusals(object, &decode(&entry).await?);
        match &refusals[..] {
            [] => {}
            [why] => return Err(attributes.forbidden(why, Vec::new())),
            several => return Err(attributes.forbidden(&format!("[{}]", several.join(", ")), Vec::new())),
        }
    }
    Ok(())
}

/// What is being deleted must be able to lose its finalizers.
fn is_being_deleted(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.old.is_some_and(|old| !meta::text(old, "deletionTimestamp").is_empty())
}

/// The LimitRanges of the namespace, as they are stored: there can be many large ones.
async fn ranges(attributes: &AdmissionAttributes<'_>) -> Result<Vec<Arc<Entry>>, Status> {
    let prefix = storage::prefix(&LIMIT_RANGES, attributes.namespace).into();
    let list = List { prefix, ..List::default() };
    Ok(attributes.backend.list(&list).await.map_err(|error| storage::failed(&error))?.entries)
}

/// Decodes a LimitRange. Other requests get a turn before a large one.
async fn decode(entry: &Entry) -> Result<Map, Status> {
    if entry.value.len() > LARGE {
        tokio::task::yield_now().await;
    }
    storage::decode(&entry.value)
}
