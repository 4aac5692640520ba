//! The garbage collector: deletes objects whose owners are gone, and completes the deletion of owners that wait for their
//! dependents, or for their dependents to let go of them (AP-52).
//!
//! [`Graph`] says which objects an event concerns. What is done with an object follows from the object and its owners as
//! the store has them then: an owner is gone if no object of its name has its uid. Writes expect the object that was read,
//! so none that has taken its name since is hit.

mod decision;
mod graph;
mod links;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kinds::resource::Resource;
use kinds::{Kinds, Map};
use portcullis_store::{Entry, Event, Store as _};
use serde_json::Value;

use self::decision::{Fate, Itself, Owner, decide};
use self::graph::Graph;
use self::links::{Links, Reference};
use super::events::{self, Report};
use super::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::deletion::{FOREGROUND, ORPHAN};
use crate::registry::options::DeleteOptions;
use crate::registry::storage::{self, Stored};
use crate::registry::{meta, write};

/// The maximum number of objects that are changed in one commit.
const TOGETHER: usize = 100;

/// See the module.
pub(super) struct GarbageCollector {
    backend: Arc<Backend>,
    /// The kinds; those of definitions are looked up in it.
    kinds: Kinds,
    /// The other kinds that are stored, by the group and the plural name in their keys.
    rows: HashMap<(&'static str, &'static str), &'static Resource>,
    /// All other served kinds, by kind and `apiVersion`.
    documents: HashMap<&'static str, HashMap<Cow<'static, str>, &'static Resource>>,
    graph: Mutex<Graph>,
}

impl GarbageCollector {
    pub(super) fn new(backend: Arc<Backend>, kinds: Kinds) -> Self {
        // Objects that are stored in the form of another kind are found under that one.
        let rows = kinds.built_in_stored().filter(|row| row.stored_as.is_none());
        let rows = rows.map(|row| ((storage::group(row), row.plural), row)).collect();
        let mut documents: HashMap<_, HashMap<_, _>> = HashMap::new();
        for row in kinds.built_in_rows().filter(|row| row.action.is_none()) {
            documents.entry(row.kind).or_default().insert(row.api_version(), row);
        }
        Self { backend, kinds, rows, documents, graph: Mutex::default() }
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row(&self, key: &str) -> Option<&'static Resource> {
        let mut parts = key.split('/').skip(1);
        let (group, plural) = (parts.next()?, parts.next()?);
        let known = self.rows.get(&(group, plural)).copied();
        let row = known.or_else(|| self.kinds.custom().stored_in(group, plural));
        row.filter(|row| storage::is_in_place(row, key))
    }
}

impl Controller for GarbageCollector {
    const NAME: &'static str = "garbage-collector-controller";
    const LISTED: &'static str = "/";
    const WATCHED: &'static str = "/";
    const WORKERS: usize = 20;

    type Keys = Vec<String>;

    fn concerns(&self, event: &Event) -> Vec<String> {
        let matters = |entry: &&Arc<Entry>| Links::are_in(&entry.value);
        let is_gone = event.entry.is_none();
        let (old, new) = (event.previous.as_ref(), event.entry.as_ref());
        let mut graph = self.graph();
        // Nothing hangs together with most objects, which are not read. One that was removed may be an owner.
        let has_owned = is_gone && !graph.is_empty();
        if !has_owned && old.filter(matters).or(new.filter(matters)).is_none() {
            return Vec::new();
        }
        let [old, new] = [old, new].map(|entry| entry.and_then(|entry| Links::read(&entry.value)));
        graph.take_in(event.key(), old.as_ref(), new.as_ref())
    }

    fn forget(&self) {
        *self.graph() = Graph::default();
    }

    async fn reconcile(&self, key: &str) -> Result<Next, Status> {
        let Some(resource) = self.row(key) else { return Ok(Next::OnChange) };
        let Some(entry) = self.entry(key).await? else { return Ok(Next::OnChange) };
        let Some(links) = Links::read(&entry.value) else { return Ok(Next::OnChange) };
        let object = Item { resource, links, entry };
        let is_settled = if object.links.waits_for_dependents() {
            self.wait_for_dependents(&object).await?
        } else if object.links.waits_for_orphans() {
            self.orphan(&object).await?
        } else if object.links.is_terminating() || object.links.owners().is_empty() {
            true
        } else {
            self.collect(&object).await?
        };
        // A conflicting change need not be one that this controller is told of.
        Ok(if is_settled { Next::OnChange } else { Next::Later })
    }
}

/// An object that is looked at.
struct Item {
    resource: &'static Resource,
    links: Links,
    entry: Arc<Entry>,
}

impl Item {
    fn key(&self) -> &str {
        &self.entry.key
    }

    /// Reads the whole object, which is needed only to change it.
    fn stored(&self) -> Result<Stored, Status> {
        Stored::read(self.resource, Arc::clone(&self.entry))
    }
}

/// The functions return false if a write conflicted with another.
impl GarbageCollector {
    async fn entry(&self, key: &str) -> Result<Option<Arc<Entry>>, Status> {
        self.backend.get(key).await.map_err(|error| storage::failed(&error))
    }

    /// Deletes an object if none of its owners is left, or removes the references to those that are gone.
    async fn collect(&self, item: &Item) -> Result<bool, Status> {
        let mut owners = Vec::with_capacity(item.links.owners().len());
        for reference in item.links.owners() {
            match self.owner(item, reference).await? {
                Some(owner) => owners.push((reference.uid.as_str(), owner)),
                None => return Ok(true),
            }
        }
        let uid = item.links.uid.as_str();
        let itself = {
            let graph = self.graph();
            Itself {
                has_dependents: graph.has_dependents(uid, item.key()),
                may_be_in_a_circle: graph.is_any_waiting(uid, item.key()),
                orphans: item.links.has(ORPHAN),
                waits: item.links.has(FOREGROUND),
            }
        };
        match decide(&owners, itself) {
            Fate::Stays => Ok(true),
            Fate::LetsGo(uids) => {
                let stored = item.stored()?;
                let mut object = stored.object.clone();
                let_go(&mut object, &uids);
                let write = write::change(item.resource, &stored, object)?;
                write::commit(&self.backend, vec![write]).await
            }
            Fate::Goes { propagation, unblocks } => {
                let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
                let stored = item.stored()?;
                let mut object = stored.object.clone();
                if unblocks {
                    unblock(&mut object);
                }
                let deleted =
                    write::delete_as(&self.backend, item.resource, &stored, &object, &options).await?;
                if deleted {
                    tracing::debug!(object = item.key(), ?propagation, "deleted an object without owners");
                }
                Ok(deleted)
            }
        }
    }

    /// Looks an owner up. None if the reference is none that can be judged: its kind is not served, or it names an owner
    /// in a namespace for an object that is in none. Such an object is left alone.
    async fn owner(&self, item: &Item, reference: &Reference) -> Result<Option<Owner>, Status> {
        let documents = self.documents.get(reference.kind.as_str());
        let row = documents.and_then(|versions| versions.get(reference.api_version.as_str())).copied();
        let row = row.or_else(|| self.kinds.custom().of_document(&reference.api_version, &reference.kind));
        let Some(row) = row else {
            tracing::debug!(object = item.key(), kind = reference.kind, "the kind of an owner is not served");
            return Ok(None);
        };
        let namespace = match (row.is_namespaced, item.resource.is_namespaced) {
            (true, true) => storage::place(item.resource, item.key()).0,
            (true, false) => {
                self.report_namespace(item, reference).await?;
                return Ok(None);
            }
            (false, _) => "",
        };
        // Another namespace cannot be named: an owner that is there is not found here.
        let entry = self.entry(&storage::key(row, namespace, &reference.name)).await?;
        let owner = entry.and_then(|entry| Links::read(&entry.value));
        Ok(Some(match owner {
            Some(owner) if owner.uid != reference.uid => Owner::Gone,
            Some(owner) if owner.waits_for_dependents() => Owner::Waiting,
            Some(_) => Owner::Here,
            None => Owner::Gone,
        }))
    }

    /// Reports an owner that cannot be one, because it is in a namespace and the object is not.
    async fn report_namespace(&self, item: &Item, owner: &Reference) -> Result<(), Status> {
        let Reference { api_version, kind, name, uid, .. } = owner;
        let message = format!(
            "the owner {api_version} {kind} {name:?} with UID {uid} is namespaced, and cannot own an object without a namespace"
        );
        let report = Report {
            component: Self::NAME,
            severity: "Warning",
            reason: "OwnerRefInvalidNamespace",
            message: &message,
        };
        events::report(&self.backend, item.resource, &item.stored()?.object, &report).await
    }

    /// Completes the deletion of an owner in the foreground when no dependent blocks it any more.
    async fn wait_for_dependents(&self, item: &Item) -> Result<bool, Status> {
        let uid = item.links.uid.as_str();
        loop {
            let Some(key) = self.graph().blocking(uid, item.key()) else { break };
            if self.row(&key).is_none() {
                // An object of a kind that nobody defines. It can neither be seen nor deleted.
                self.graph().unlink(uid, &key);
                continue;
            }
            let entry = self.entry(&key).await?;
            let links = entry.and_then(|entry| Links::read(&entry.value));
            let owners = links.as_ref().map(Links::owners).unwrap_or_default();
            if owners.iter().any(|owner| owner.uid == uid && owner.blocks()) {
                // Its removal is an event that concerns this owner.
                return Ok(true);
            }
            // The graph has yet to take in that the dependent is gone.
            self.graph().unlink(uid, &key);
        }
        self.release(item, FOREGROUND).await
    }

    /// Completes the deletion of an owner whose dependents stay: they let go of it.
    async fn orphan(&self, item: &Item) -> Result<bool, Status> {
        let uid = item.links.uid.as_str();
        let uids = HashSet::from([uid]);
        let mut are_all = true;
        let dependents = self.graph().dependents(uid);
        for keys in dependents.chunks(TOGETHER) {
            let mut writes = Vec::new();
            for key in keys.iter().filter(|key| **key != *item.key()) {
                let Some(resource) = self.row(key) else { continue };
                let Some(entry) = self.entry(key).await? else { continue };
                let stored = Stored::read(resource, entry)?;
                let mut object = stored.object.clone();
                if let_go(&mut object, &uids) {
                    writes.push(write::change(resource, &stored, object)?);
                }
            }
            are_all &= write::commit_each(&self.backend, writes).await?;
        }
        if !are_all {
            return Ok(false);
        }
        self.release(item, ORPHAN).await
    }

    /// Removes a finalizer of an owner, which ends its deletion if it was the last one.
    async fn release(&self, item: &Item, finalizer: &str) -> Result<bool, Status> {
        let stored = item.stored()?;
        let mut object = stored.object.clone();
        meta::remove_finalizer(&mut object, finalizer);
        let write = write::change(item.resource, &stored, object)?;
        write::commit(&self.backend, vec![write]).await
    }
}

/// Removes the references to these owners. Returns whether there were any.
fn let_go(object: &mut Map, uids: &HashSet<&str>) -> bool {
    meta::change(object, |metadata| {
        let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else { return false };
        let count = owners.len();
        owners.retain(|owner| {
            let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
            !uids.contains(uid)
        });
        let are_fewer = owners.len() < count;
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
        are_fewer
    })
}

/// Lets no owner wait for this object.
fn unblock(object: &mut Map) {
    meta::change(object, |metadata| {
        let owners = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten().filter_map(Value::as_object_mut) {
            owner.insert("blockOwnerDeletion".to_owned(), false.into());
        }
    });
}
