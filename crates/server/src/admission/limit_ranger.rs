//! LimitRanger: fills in the requests and limits of pods, and refuses pods and claims beyond the bounds of the LimitRanges
//! of their namespace. Mirror pods are treated like all others (MP-24).

use std::sync::Arc;

use kinds::Map;
use kinds::resources::core::limit_ranges::{claim_refusals, fill_in, pod_refusals};
use kinds::resources::core::persistent_volume_claims::PERSISTENT_VOLUME_CLAIMS;
use kinds::resources::core::quotas::LIMIT_RANGES;
use kinds::resources::pods::PODS;
use portcullis_store::{Entry, List, Store as _};
use tokio::task::spawn_blocking;

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};
use crate::registry::{meta, storage};

/// The size of all LimitRanges of a namespace from which they are applied on a thread of its own, in bytes.
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
    validate: |attributes, _| Box::pin(validate(attributes)),
    ..Plugin::NONE
};

async fn admit(attributes: &mut AdmissionAttributes<'_>) -> Result<(), Status> {
    if *attributes.resource != PODS || is_being_deleted(attributes) {
        return Ok(());
    }
    let ranges = ranges(attributes).await?;
    let Some(object) = attributes.object.as_deref_mut().filter(|_| !ranges.is_empty()) else { return Ok(()) };
    let mut pod = std::mem::take(object);
    let is_large = is_large(&ranges);
    let fill = move || {
        let filled = for_each(&ranges, |range| fill_in(&mut pod, range));
        (pod, filled)
    };
    let (pod, filled) = match is_large {
        true => spawn_blocking(fill).await.map_err(Status::internal)?,
        false => fill(),
    };
    *object = pod;
    filled?.map_err(|why| attributes.forbidden(&why, Vec::new()))
}

async fn validate(attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
    if is_being_deleted(attributes) {
        return Ok(());
    }
    let Some(object) = attributes.object.as_deref() else { return Ok(()) };
    let refusals = if *attributes.resource == PODS { pod_refusals } else { claim_refusals };
    let check = move |object: &Map, range: &Map| match &refusals(object, range)[..] {
        [] => Ok(()),
        [why] => Err(why.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    };
    let ranges = ranges(attributes).await?;
    let checked = match is_large(&ranges) {
        true => {
            let object = object.clone();
            let checked = spawn_blocking(move || for_each(&ranges, |range| check(&object, range)));
            checked.await.map_err(Status::internal)?
        }
        false => for_each(&ranges, |range| check(object, range)),
    };
    checked?.map_err(|why| attributes.forbidden(&why, Vec::new()))
}

/// Objects that are being deleted are not checked: their finalizers must be removable.
fn is_being_deleted(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.old.is_some_and(|old| !meta::text(old, "deletionTimestamp").is_empty())
}

/// The LimitRanges of the namespace, as they are stored: there can be many large ones.
async fn ranges(attributes: &AdmissionAttributes<'_>) -> Result<Vec<Arc<Entry>>, Status> {
    let prefix = storage::prefix(&LIMIT_RANGES, attributes.namespace).into();
    let list = List { prefix, ..List::default() };
    Ok(attributes.backend.list(&list).await.map_err(|error| storage::failed(&error))?.entries)
}

/// Whether decoding and applying the LimitRanges takes so long that it must not hold up other requests.
fn is_large(ranges: &[Arc<Entry>]) -> bool {
    ranges.iter().map(|entry| entry.value.len()).sum::<usize>() > LARGE
}

/// Calls a function for each LimitRange, until one refuses. One at a time is decoded.
///
/// # Errors
/// A LimitRange cannot be read. The inner error is the refusal.
fn for_each(
    ranges: &[Arc<Entry>],
    mut apply: impl FnMut(&Map) -> Result<(), String>,
) -> Result<Result<(), String>, Status> {
    for entry in ranges {
        let range = storage::decode(&entry.value)?;
        if let Err(why) = apply(&range) {
            return Ok(Err(why));
        }
    }
    Ok(Ok(()))
}
