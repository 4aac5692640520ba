//! Writes that the server makes by itself. They skip admission and validation: the calling code is responsible for
//! them.

use std::sync::Arc;

use kinds::Map;
use kinds::resource::Resource;
use portcullis_store::{Entry, Expect, List, Store as _, StoreError, Write};

use super::backend::Backend;
use super::delete::ends_with_update;
use super::deletion::{Step, step};
use super::managed;
use super::meta::{self, now};
use super::options::DeleteOptions;
use super::storage::{self, Stored};
use crate::http::status::Status;

/// The manager of the fields that the controllers of this server write, as in Kubernetes.
pub(crate) const CONTROLLERS: &str = "kube-controller-manager";
/// The manager of the fields of the objects that belong to the server itself, as in Kubernetes.
pub(crate) const SERVER: &str = "kube-apiserver";

/// Returns the write that creates an object, which must have a name, with the manager of its fields.
///
/// # Errors
/// The object is not of this kind, or the system has no random numbers.
pub(crate) fn create(
    resource: &'static Resource,
    namespace: &str,
    object: Map,
    manager: &str,
) -> Result<Write, Status> {
    let mut object = whole(resource, object)?;
    managed::record_own(resource, manager, None, &mut object);
    if !namespace.is_empty() {
        meta::set(&mut object, "namespace", namespace);
    }
    meta::identify(&mut object, now())?;
    resource.prepare_new(&mut object);
    let key = storage::key(resource, namespace, meta::text(&object, "name"));
    Ok(Write { key, expect: Expect::Absent, value: Some(storage::encode(resource, &object)?) })
}

/// Returns the write that replaces the object that was read, with the manager of what it changes.
///
/// # Errors
/// The object is not of this kind, or what was read cannot be read again.
pub(crate) fn replace(
    resource: &'static Resource,
    entry: &Entry,
    object: Map,
    manager: &str,
) -> Result<Write, Status> {
    let mut object = whole(resource, object)?;
    // Decoding what nobody manages would be in vain.
    if meta::of(&object).contains_key("managedFields") {
        let old = storage::decode(&storage::served(resource, &entry.value)?)?;
        managed::record_own(resource, manager, Some(&old), &mut object);
    }
    written(resource, entry, &object)
}

/// Returns the write that marks the object that was read as deleted. As in Kubernetes, nobody manages what that changes.
///
/// # Errors
/// The object is not of this kind.
pub(crate) fn mark(resource: &'static Resource, entry: &Entry, object: Map) -> Result<Write, Status> {
    written(resource, entry, &whole(resource, object)?)
}

fn written(resource: &'static Resource, entry: &Entry, object: &Map) -> Result<Write, Status> {
    let value = Some(storage::encode(resource, object)?);
    Ok(Write { key: entry.key.clone(), expect: Expect::Modified(entry.modified), value })
}

/// Returns the write that deletes the object that was read.
pub(crate) fn remove(entry: &Entry) -> Write {
    Write { key: entry.key.clone(), expect: Expect::Modified(entry.modified), value: None }
}

/// Commits writes, all or none. Returns false after a conflict. The quota of the store does not stop it: it is for the
/// server's own controllers, which keep nodes and deletions going.
///
/// # Errors
/// The store failed.
pub(crate) async fn commit(backend: &Backend, writes: Vec<Write>) -> Result<bool, Status> {
    if writes.is_empty() {
        return Ok(true);
    }
    match backend.commit_beyond_quota(writes).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict { .. }) => Ok(false),
        Err(error) => Err(storage::failed(&error)),
    }
}

/// Commits writes together if the store can, otherwise in parts, each of them whole or not at all. Returns false after a
/// conflict; the parts before it are there then.
///
/// # Errors
/// See [`commit`].
pub(crate) async fn commit_in_parts(backend: &Backend, writes: Vec<Write>) -> Result<bool, Status> {
    if writes.len() <= backend.most_writes() {
        return commit(backend, writes).await;
    }
    for part in writes.chunks(backend.most_writes()) {
        if !commit(backend, part.to_vec()).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Commits writes together, or one by one if there is a conflict. Returns false if a write conflicted, and so was not
/// made.
///
/// # Errors
/// The store failed.
pub(crate) async fn commit_each(backend: &Backend, writes: Vec<Write>) -> Result<bool, Status> {
    if commit(backend, writes.clone()).await? {
        return Ok(true);
    }
    let mut are_all = true;
    for write in writes {
        are_all &= commit(backend, vec![write]).await?;
    }
    Ok(are_all)
}

/// Returns the write that changes the object that was read to this: it is removed if this ends its deletion (AP-44).
///
/// # Errors
/// The object is not of this kind.
pub(crate) fn change(resource: &'static Resource, stored: &Stored, object: Map) -> Result<Write, Status> {
    match ends_with_update(resource, &object, &stored.object) {
        true => Ok(remove(&stored.entry)),
        false => replace(resource, &stored.entry, object, CONTROLLERS),
    }
}

/// Deletes the object that was read, as a client would without options. Returns false if there was nothing to do, or
/// after a conflict.
///
/// # Errors
/// The store failed.
pub(crate) async fn delete(
    backend: &Backend,
    resource: &'static Resource,
    stored: &Stored,
) -> Result<bool, Status> {
    delete_as(backend, resource, stored, &stored.object, &DeleteOptions::default()).await
}

/// Deletes the object that was read, as a client would with these options, and with the changes of `object` if it stays.
/// Returns false if there was nothing to do, or after a conflict. Preconditions are not checked: what is deleted is what
/// was read.
///
/// # Errors
/// The store failed.
pub(crate) async fn delete_as(
    backend: &Backend,
    resource: &'static Resource,
    stored: &Stored,
    object: &Map,
    options: &DeleteOptions,
) -> Result<bool, Status> {
    match step(resource, object, options) {
        Step::Nothing => Ok(false),
        Step::Mark(marked) if marked == stored.object => Ok(false),
        Step::Mark(marked) => commit(backend, vec![mark(resource, &stored.entry, marked)?]).await,
        Step::MarkAndRemove(_) | Step::Remove => {
            let mut writes = vec![remove(&stored.entry)];
            let (namespace, name) = storage::place(resource, &stored.entry.key);
            for companion in resource.removed_with {
                let Some(found) = find(backend, companion, namespace, name).await? else { continue };
                match step(companion, &found.object, &DeleteOptions::default()) {
                    Step::Nothing => {}
                    Step::Mark(marked) => writes.push(mark(companion, &found.entry, marked)?),
                    Step::MarkAndRemove(_) | Step::Remove => writes.push(remove(&found.entry)),
                }
            }
            commit(backend, writes).await
        }
    }
}

/// Reads the object of a key.
///
/// # Errors
/// The store failed, or the entry is not an object.
pub(crate) async fn find(
    backend: &Backend,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
) -> Result<Option<Stored>, Status> {
    let key = storage::key(resource, namespace, name);
    let entry = backend.get(&key).await.map_err(|error| storage::failed(&error))?;
    entry.map(|entry| Stored::read(resource, entry)).transpose()
}

/// Reads the stored objects of a kind, in one namespace or in all.
///
/// # Errors
/// The store failed.
pub(crate) async fn all(
    backend: &Backend,
    resource: &'static Resource,
    namespace: &str,
) -> Result<Vec<Arc<Entry>>, Status> {
    let list = List { prefix: storage::prefix(resource, namespace).into(), ..List::default() };
    let mut entries = backend.list(&list).await.map_err(|error| storage::failed(&error))?.entries;
    entries.retain(|entry| storage::is_in_place(resource, &entry.key));
    Ok(entries)
}

/// Completes an object for storage.
fn whole(resource: &'static Resource, mut object: Map) -> Result<Map, Status> {
    object.insert("kind".to_owned(), resource.kind.into());
    object.insert("apiVersion".to_owned(), resource.api_version().into());
    let decoded = kinds::decode::value(object.into(), resource.schema).map_err(Status::internal)?;
    let mut object = decoded.object;
    (resource.default)(&mut object);
    Ok(object)
}
