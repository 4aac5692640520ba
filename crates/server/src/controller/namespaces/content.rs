//! Empties a namespace, as far as that is possible now.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::Arc;

use kinds::resource::Resource;
use kinds::resources::core::events::EVENTS;
use kinds::resources::pods::PODS;
use portcullis_kinds as kinds;
use portcullis_store::{Entry, Write};

use crate::api::rest::delete::{self, Step};
use crate::api::rest::meta;
use crate::api::rest::options::{DeleteOptions, Propagation};
use crate::api::rest::storage::Stored;
use crate::backend::Backend;
use crate::cluster::write;
use crate::status::Status;

/// How many objects are removed in one commit.
const TOGETHER: usize = 100;
/// How often a kind is gone through: to mark, to remove, and once more for what changed meanwhile.
const ROUNDS: usize = 4;

/// What is left in a namespace.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// How many objects there are of a kind, by group and plural name.
    pub(super) remaining: BTreeMap<(&'static str, &'static str), usize>,
    /// How many objects a finalizer holds.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// What could not be deleted, and why.
    pub(super) errors: Vec<String>,
}

impl Content {
    /// Deletes everything in a namespace, and says what is left.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn empty_out(backend: &Backend, namespace: &str) -> Result<Self, Status> {
        let mut content = Self::default();
        content.delete(backend, &PODS, namespace).await?;
        if !content.is_empty() {
            return Ok(content);
        }
        // Events are stored once, whichever of their two kinds asks.
        let is_other = |resource: &&&'static Resource| !ptr::eq(**resource, &raw const EVENTS);
        for resource in kinds::resources::ALL.iter().filter(|r| r.is_namespaced).filter(is_other) {
            content.delete(backend, resource, namespace).await?;
        }
        Ok(content)
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.remaining.is_empty()
    }

    /// What went wrong, if anything.
    pub(super) fn error(&self) -> Option<String> {
        (!self.errors.is_empty()).then(|| self.errors.join("; "))
    }

    async fn delete(
        &mut self,
        backend: &Backend,
        resource: &'static Resource,
        namespace: &str,
    ) -> Result<(), Status> {
        let mut failures = Vec::new();
        for _ in 0..ROUNDS {
            let entries = write::all(backend, resource, namespace).await?;
            let mut is_settled = true;
            failures.clear();
            for entries in entries.chunks(TOGETHER) {
                let mut writes = Vec::new();
                for entry in entries {
                    match step(resource, entry) {
                        Ok(step) => writes.extend(step),
                        Err(status) => failures.push(format!("{}: {}", entry.key, status.message())),
                    }
                }
                is_settled &= writes.is_empty();
                one_by_one_if_needed(backend, writes).await?;
            }
            if is_settled {
                break;
            }
        }
        self.errors.append(&mut failures);
        let left = write::all(backend, resource, namespace).await?;
        if !left.is_empty() {
            self.remaining.insert((resource.group, resource.plural), left.len());
        }
        for entry in left {
            let Ok(stored) = Stored::read(resource, entry) else { continue };
            for finalizer in meta::finalizers(&stored.object) {
                let count = self.finalizers.entry(finalizer.to_owned()).or_default();
                *count = count.saturating_add(1);
            }
        }
        Ok(())
    }
}

/// Makes writes at once, or if one of them meets a change, each for itself.
async fn one_by_one_if_needed(backend: &Backend, writes: Vec<Write>) -> Result<(), Status> {
    if write::commit(backend, writes.clone()).await? {
        return Ok(());
    }
    for write in writes {
        // One that meets a change is made in the next round.
        write::commit(backend, vec![write]).await?;
    }
    Ok(())
}

/// The next write of the deletion of an object; nothing if it has to wait.
fn step(resource: &'static Resource, entry: &Arc<Entry>) -> Result<Option<Write>, Status> {
    let stored = Stored::read(resource, Arc::clone(entry))?;
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    Ok(match delete::step(resource, &stored.object, &options) {
        Step::Nothing => None,
        Step::Remove => Some(write::remove(entry)),
        Step::Mark(marked) | Step::MarkAndRemove(marked) if marked != stored.object => {
            Some(write::replace(resource, entry, marked)?)
        }
        Step::Mark(_) => None,
        Step::MarkAndRemove(_) => Some(write::remove(entry)),
    })
}
