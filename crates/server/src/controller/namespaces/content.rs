//! Deletes the content of a namespace, as far as possible now.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinds::Kinds;
use kinds::resource::Resource;
use kinds::resources::pods::PODS;
use portcullis_store::{Entry, Write};

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::deletion::{self, Step};
use crate::registry::options::{DeleteOptions, Propagation};
use crate::registry::storage::Stored;
use crate::registry::{meta, write};

/// The maximum number of objects that are deleted in one commit.
const TOGETHER: usize = 100;
/// The maximum number of passes over a kind: to mark, to remove, and once more for concurrent changes.
const ROUNDS: usize = 4;

/// The remaining content of a namespace.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The number of objects of each kind, by group and plural name.
    pub(super) remaining: BTreeMap<(&'static str, &'static str), usize>,
    /// The number of objects with each finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// The kinds that could not be deleted, and why.
    pub(super) errors: Vec<String>,
}

impl Content {
    /// Deletes everything in a namespace, and returns what is left.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn empty_out(backend: &Backend, kinds: &Kinds, namespace: &str) -> Result<Self, Status> {
        let mut content = Self::default();
        content.delete(backend, &PODS, namespace).await?;
        if !content.is_empty() {
            return Ok(content);
        }
        // Objects that are stored in the form of another kind go with that one.
        for resource in kinds.stored().filter(|row| row.is_namespaced && row.stored_as.is_none()) {
            content.delete(backend, resource, namespace).await?;
        }
        Ok(content)
    }

    /// Returns whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Returns the errors as text, if any.
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
                // A conflicting write is repeated in the next round.
                write::commit_each(backend, writes).await?;
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

/// Returns the next write of the deletion of an object; none if it must wait.
fn step(resource: &'static Resource, entry: &Arc<Entry>) -> Result<Option<Write>, Status> {
    let stored = Stored::read(resource, Arc::clone(entry))?;
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    Ok(match deletion::step(resource, &stored.object, &options) {
        Step::Nothing => None,
        Step::Remove => Some(write::remove(entry)),
        Step::Mark(marked) | Step::MarkAndRemove(marked) if marked != stored.object => {
            Some(write::mark(resource, entry, marked)?)
        }
        Step::Mark(_) => None,
        Step::MarkAndRemove(_) => Some(write::remove(entry)),
    })
}
