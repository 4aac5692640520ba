//! ResourceQuotas in the store: what the objects of a namespace use of them is counted here, and written together with
//! the object that uses it.
//!
//! Whether an object fits is decided in [`kinds::quota`], and who asks is in the admission of writes.

use std::sync::Arc;

use kinds::quota::{Tally, is_measured, is_settled};
use kinds::resources::core::quotas::RESOURCE_QUOTAS;
use kinds::{Kinds, Map};
use portcullis_store::Entry;
use tokio::task::spawn_blocking;

use super::backend::Backend;
use super::meta::now;
use super::storage::{self, Stored};
use super::write;
use crate::http::status::Status;

/// The quotas of a namespace, as they are stored.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn stored(backend: &Backend, namespace: &str) -> Result<Vec<Arc<Entry>>, Status> {
    write::all(backend, &RESOURCE_QUOTAS, namespace).await
}

/// The size of stored quotas, in bytes, from which reading and applying them takes so long that it must not hold up other
/// requests.
const LARGE: usize = 16 * 1024;

/// Whether quotas must be read and applied apart from the threads that serve requests.
pub(crate) fn are_large<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> bool {
    entries.into_iter().map(|entry| entry.value.len()).sum::<usize>() > LARGE
}

/// Reads the quotas of a namespace.
///
/// # Errors
/// One cannot be read.
pub(crate) async fn read(entries: Vec<Arc<Entry>>) -> Result<Vec<Stored>, Status> {
    let is_large = are_large(entries.iter().map(|entry| &**entry));
    let read = move || entries.into_iter().map(|entry| Stored::read(&RESOURCE_QUOTAS, entry)).collect();
    match is_large {
        true => spawn_blocking(read).await.map_err(Status::internal)?,
        false => read(),
    }
}

/// The quotas with what the objects of the namespace use in their status. Those that say so already are left as they are.
///
/// # Errors
/// See [`count`].
pub(crate) async fn settled(
    backend: &Backend,
    kinds: &Kinds,
    namespace: &str,
    quotas: Vec<Map>,
) -> Result<Vec<Map>, Status> {
    match quotas.iter().all(is_settled) {
        true => Ok(quotas),
        false => count(backend, kinds, namespace, quotas).await,
    }
}

/// Counts what the objects of a namespace use, and returns the quotas with that in their status. The quotas must have been
/// read before: then nothing is missed, because what is written since changes the quotas as well.
///
/// # Errors
/// An object cannot be read.
pub(crate) async fn count(
    backend: &Backend,
    kinds: &Kinds,
    namespace: &str,
    quotas: Vec<Map>,
) -> Result<Vec<Map>, Status> {
    let mut objects = Vec::new();
    for resource in Tally::new(&quotas).kinds(kinds) {
        objects.push((resource, write::all(backend, resource, namespace).await?));
    }
    // There may be many.
    let counted = spawn_blocking(move || {
        let mut tally = Tally::new(&quotas);
        let now = now();
        for (resource, entries) in objects {
            if !is_measured(resource) {
                tally.add_number(resource, entries.len());
                continue;
            }
            for entry in entries {
                tally.add(resource, &storage::decode(&entry.value)?, now);
            }
        }
        Ok(tally.settled())
    });
    counted.await.map_err(Status::internal)?
}
