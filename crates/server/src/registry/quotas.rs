//! ResourceQuotas in the store: what the objects of a namespace use of them is counted here, and written together with
//! the object that uses it.
//!
//! Whether an object fits is decided in [`kinds::quota`], and who asks is in the admission of writes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use kinds::quota::{Tally, is_measured, is_settled};
use kinds::resources::core::quotas::RESOURCE_QUOTAS;
use kinds::{Kinds, Map};
use portcullis_store::{Entry, List, Store as _, Write};
use tokio::sync::OwnedMutexGuard;
use tokio::task::spawn_blocking;

use super::backend::Backend;
use super::meta::now;
use super::storage::{self, Stored};
use super::write;
use crate::http::status::Status;

/// From so many unused turns on they are removed.
const UNUSED_TURNS: usize = 1024;

/// Lets one write after the other take from the quotas of a namespace: otherwise all but one of many would have to be made
/// again. Servers that share a store learn of each other by conflicts.
#[derive(Debug, Default)]
pub(crate) struct QuotaTurns {
    by_namespace: Mutex<HashMap<Box<str>, Weak<tokio::sync::Mutex<()>>>>,
}

impl QuotaTurns {
    /// Waits until nobody else takes from the quotas of this namespace.
    pub(crate) async fn wait(&self, namespace: &str) -> OwnedMutexGuard<()> {
        self.of(namespace).lock_owned().await
    }

    fn of(&self, namespace: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(namespace).and_then(Weak::upgrade) {
            return turn;
        }
        if turns.len() >= UNUSED_TURNS {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        turns.insert(namespace.into(), Arc::downgrade(&turn));
        turn
    }
}

/// What a write takes from the quotas of its namespace. It is stored together with the object, so that nothing is counted
/// that is not there, and nothing is there that was not counted.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    /// Held until the object is stored.
    _turn: Option<OwnedMutexGuard<()>>,
    writes: Vec<Write>,
}

impl Reservation {
    /// One that is written like this, by who has the turn.
    pub(crate) fn new(turn: OwnedMutexGuard<()>, writes: Vec<Write>) -> Self {
        Self { _turn: Some(turn), writes }
    }

    /// The writes of the quotas.
    pub(crate) fn writes(&self) -> impl Iterator<Item = Write> {
        self.writes.iter().cloned()
    }

    /// Whether a conflict about this key means that the quotas have changed since they were read.
    pub(crate) fn is_outrun(&self, key: &str) -> bool {
        self.writes.iter().any(|write| *write.key == *key)
    }
}

/// The quotas of a namespace, as they are stored.
///
/// # Errors
/// The store cannot be read.
pub(crate) async fn stored(backend: &Backend, namespace: &str) -> Result<Vec<Arc<Entry>>, Status> {
    let prefix = storage::prefix(&RESOURCE_QUOTAS, namespace).into();
    let list = List { prefix, ..List::default() };
    Ok(backend.list(&list).await.map_err(|error| storage::failed(&error))?.entries)
}

/// Reads the quotas of a namespace.
///
/// # Errors
/// One cannot be read.
pub(crate) fn read(entries: Vec<Arc<Entry>>) -> Result<Vec<Stored>, Status> {
    entries.into_iter().map(|entry| Stored::read(&RESOURCE_QUOTAS, entry)).collect()
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
            for entry in entries {
                match is_measured(resource) {
                    true => tally.add(resource, &storage::decode(&entry.value)?, now),
                    false => tally.add_one(resource),
                }
            }
        }
        Ok(tally.settled())
    });
    counted.await.map_err(Status::internal)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_after_the_other_has_the_turn_of_a_namespace() {
        let turns = QuotaTurns::default();
        let mine = turns.wait("a").await;
        let _other = turns.wait("b").await;
        assert!(turns.of("a").try_lock().is_err());
        drop(mine);
        assert!(turns.of("a").try_lock().is_ok());
    }

    #[tokio::test]
    async fn turns_that_nobody_uses_are_removed() {
        let turns = QuotaTurns::default();
        let _kept = turns.wait("kept").await;
        for i in 0..10 * UNUSED_TURNS {
            drop(turns.wait(&i.to_string()).await);
        }
        assert!(turns.by_namespace.lock().unwrap().len() <= UNUSED_TURNS);
        assert!(turns.of("kept").try_lock().is_err());
    }
}
