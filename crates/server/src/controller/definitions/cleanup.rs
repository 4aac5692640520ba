//! Deletes the objects of a definition that is being deleted, and then the definition.

use std::sync::Arc;
use std::time::Duration;

use kinds::resource::Resource;
use kinds::resources::definitions::status::{Condition, set};
use kinds::resources::definitions::{CLEANUP, DEFINITIONS};
use kinds::{Kinds, Map};
use portcullis_store::{Entry, List, Store as _, Write};
use serde_json::Value;

use crate::controller::runner::Next;
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::deletion::{self, Step};
use crate::registry::meta::{self, now};
use crate::registry::options::{DeleteOptions, Propagation};
use crate::registry::storage::{self, Stored};
use crate::registry::write;

/// How long to wait until the table of kinds has taken the deletion in.
const TAKES_IN: Duration = Duration::from_millis(10);
/// The most objects that are deleted in one commit.
const TOGETHER: usize = 100;
/// How long to wait for finalizers of objects.
const HELD: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Cleanup {
    backend: Arc<Backend>,
    kinds: Kinds,
}

impl Cleanup {
    pub(super) fn new(backend: Arc<Backend>, kinds: Kinds) -> Self {
        Self { backend, kinds }
    }

    /// Goes on with the deletion of a definition.
    pub(super) async fn step(&self, name: &str, stored: &Stored) -> Result<Next, Status> {
        if !meta::finalizers(&stored.object).contains(&CLEANUP) {
            return Ok(Next::OnChange);
        }
        let known = self.kinds.custom().definition(name);
        // Until then objects can be created.
        if known.as_ref().is_some_and(|known| !known.is_terminating) {
            return Ok(Next::After(TAKES_IN));
        }
        let mut definition = stored.object.clone();
        let condition = Condition {
            kind: "Terminating",
            holds: true,
            reason: "InstanceDeletionInProgress",
            message: "CustomResource deletion is in progress",
        };
        set(&mut definition, condition, now());
        if definition != stored.object {
            let write = write::replace(&DEFINITIONS, &stored.entry, definition, write::SERVER)?;
            let done = write::commit(&self.backend, vec![write]).await?;
            return Ok(if done { Next::OnChange } else { Next::Later });
        }
        let row = known.and_then(|known| self.kinds.custom().stored_row(&known));
        if row.is_none() && self.has_objects(&stored.object).await? {
            // The definition cannot be served here, so nobody can tell what its objects wait for.
            return Ok(Next::After(HELD));
        }
        if let Some(row) = row
            && !self.delete_all(row).await?
        {
            return Ok(Next::After(HELD));
        }
        // Nothing can come any more: each write relies on the definition as it was before it was deleted.
        meta::remove_finalizer(&mut definition, CLEANUP);
        let write = write::change(&DEFINITIONS, stored, definition)?;
        let done = write::commit(&self.backend, vec![write]).await?;
        Ok(if done { Next::OnChange } else { Next::Later })
    }

    /// Whether objects lie where those of a definition do, unless they are of a kind of this server.
    async fn has_objects(&self, definition: &Map) -> Result<bool, Status> {
        let spec = definition.get("spec");
        let text = |path: &str| spec.and_then(|spec| spec.pointer(path)).and_then(Value::as_str);
        let (Some(group), Some(plural)) = (text("/group"), text("/names/plural")) else { return Ok(false) };
        if self.kinds.is_reserved(group, plural) {
            return Ok(false);
        }
        let prefix = format!("/{group}/{plural}/");
        let list = List { prefix: prefix.as_str().into(), limit: 1, ..List::default() };
        let found = self.backend.list(&list).await.map_err(|error| storage::failed(&error))?;
        Ok(!found.entries.is_empty() || !self.backend.unreadable_below(&prefix).is_empty())
    }

    /// Deletes all objects of a kind, as far as possible now. Returns whether none is left.
    async fn delete_all(&self, row: &'static Resource) -> Result<bool, Status> {
        let entries = write::all(&self.backend, row, "").await?;
        for entries in entries.chunks(TOGETHER) {
            let writes = entries.iter().map(|entry| step(row, entry)).collect::<Result<Vec<_>, _>>()?;
            let writes: Vec<Write> = writes.into_iter().flatten().collect();
            write::commit_each(&self.backend, writes).await?;
        }
        Ok(entries.is_empty() || write::all(&self.backend, row, "").await?.is_empty())
    }
}

/// The next write of the deletion of an object; none if it must wait. One that cannot be read is removed.
fn step(row: &'static Resource, entry: &Arc<Entry>) -> Result<Option<Write>, Status> {
    let Ok(stored) = Stored::read(row, Arc::clone(entry)) else { return Ok(Some(write::remove(entry))) };
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    Ok(match deletion::step(row, &stored.object, &options) {
        Step::Remove | Step::MarkAndRemove(_) => Some(write::remove(entry)),
        Step::Mark(marked) if marked != stored.object => Some(write::mark(row, entry, marked)?),
        Step::Mark(_) | Step::Nothing => None,
    })
}
