//! ResourceQuota: refuses what does not fit into the quotas of its namespace, and what the configuration of the plugin allows only
//! where a quota limits it. Mirror pods are counted like all others (MP-24).
//!
//! DIVERGES: what is used is stored in one step with the object. kube-apiserver counts first, so that a write that fails
//! afterwards is counted until its controller counts again.
//! DIVERGES: a quota is in force as soon as it is stored. In Kubernetes it limits nothing until a controller has written
//! its status.
//! DIVERGES: an object in a scope that needs a quota is refused with 403. kube-apiserver answers 500, which tells clients to try
//! again.

use std::sync::Arc;

use kinds::Map;
use kinds::quota::{Demand, LimitedResource};
use kinds::resource::Resource;
use kinds::resources::core::quotas::RESOURCE_QUOTAS;
use portcullis_store::Write;
use tokio::task::spawn_blocking;

use super::plugin::{Plugin, Rule};
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};
use crate::registry::meta::now;
use crate::registry::quotas;
use crate::registry::reservation::{QuotaTurns, Reservation};
use crate::registry::storage::Stored;
use crate::registry::write::{self, SERVER};

/// The most quotas of a namespace: each write changes all that are about its object. DIVERGES: Kubernetes has no limit.
const MOST_QUOTAS: usize = 50;

/// See the module. That objects fit is checked by [`reserve`], right before they are stored.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "ResourceQuota",
    rules: &[Rule { operations: &[Operation::Create], resource: &RESOURCE_QUOTAS, subresource: "" }],
    validate: |attributes, _| Box::pin(limit_quotas(attributes)),
    ..Plugin::NONE
};

async fn limit_quotas(attributes: &AdmissionAttributes<'_>) -> Result<(), Status> {
    if quotas::stored(attributes.backend, attributes.namespace).await?.len() < MOST_QUOTAS {
        return Ok(());
    }
    let why = format!(
        "the namespace has {MOST_QUOTAS} quotas, and can have no more: put several limits into one quota"
    );
    Err(attributes.forbidden(&why, Vec::new()))
}

/// Takes what a write needs from the quotas of its namespace.
///
/// # Errors
/// The refusal.
pub(super) async fn reserve(
    attributes: &AdmissionAttributes<'_>,
    turns: &QuotaTurns,
    limited: &Arc<[LimitedResource]>,
) -> Result<Reservation, Status> {
    let (backend, namespace) = (attributes.backend, attributes.namespace);
    let is_about_objects = matches!(attributes.subresource, "" | "resize");
    let Some(object) = attributes.object.as_deref().filter(|_| is_about_objects && !namespace.is_empty())
    else {
        return Ok(Reservation::default());
    };
    // Most writes are not counted, and most namespaces have no quotas.
    let is_counted = Demand::may_be(attributes.resource, attributes.old.is_some());
    let is_limited = || limited.iter().any(|limited| limited.is_about(attributes.resource));
    if !is_counted || (quotas::stored(backend, namespace).await?.is_empty() && !is_limited()) {
        return Ok(Reservation::default());
    }
    let turn = turns.wait(namespace).await;
    let entries = quotas::stored(backend, namespace).await?;
    let is_large = quotas::are_large(entries.iter().map(|entry| &**entry));
    let stored = quotas::read(entries).await?;
    let settled = settle(attributes, &stored).await?;
    let writes = match is_large {
        false => take(attributes.resource, object, attributes.old, (&stored, settled), limited)?,
        true => {
            let (resource, object, old) = (attributes.resource, object.clone(), attributes.old.cloned());
            let limited = Arc::clone(limited);
            let taken =
                spawn_blocking(move || take(resource, &object, old.as_ref(), (&stored, settled), &limited));
            taken.await.map_err(Status::internal)??
        }
    };
    let writes = writes.map_err(|why| attributes.forbidden(&why, Vec::new()))?;
    Ok(Reservation::new(turn, writes))
}

async fn settle(attributes: &AdmissionAttributes<'_>, stored: &[Stored]) -> Result<Vec<Map>, Status> {
    let quotas = stored.iter().map(|stored| stored.object.clone()).collect();
    quotas::settled(attributes.backend, attributes.kinds, attributes.namespace, quotas).await
}

/// The writes of the quotas that an object takes from; the inner error is the refusal.
fn take(
    resource: &'static Resource,
    object: &Map,
    old: Option<&Map>,
    (stored, settled): (&[Stored], Vec<Map>),
    limited: &[LimitedResource],
) -> Result<Result<Vec<Write>, String>, Status> {
    let Some(demand) = Demand::of(resource, object, old, now()) else { return Ok(Ok(Vec::new())) };
    if let Err(why) = demand.is_covered(limited, settled.iter()) {
        return Ok(Err(why));
    }
    let mut writes = Vec::new();
    for (stored, quota) in stored.iter().zip(settled) {
        match demand.take_from(&quota) {
            Ok(None) => {}
            Ok(Some(taken)) => writes.push(write::replace(&RESOURCE_QUOTAS, &stored.entry, taken, SERVER)?),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(writes))
}
