//! Writes that the server makes by itself. They are not admitted and not validated: who makes them answers for them.

use std::sync::Arc;

use kinds::Map;
use kinds::resource::Resource;
use portcullis_kinds as kinds;
use portcullis_store::{Entry, Expect, List, Store as _, StoreError, Write};

use crate::api::rest::storage::{self, Stored};
use crate::api::rest::{decode, meta, now};
use crate::backend::Backend;
use crate::status::Status;

/// The write that makes a new object, which has a name.
///
/// # Errors
/// It is no object of this kind, or the system has no randomness.
pub(crate) fn create(resource: &'static Resource, namespace: &str, object: Map) -> Result<Write, Status> {
    let mut object = whole(resource, object)?;
    if !namespace.is_empty() {
        meta::set(&mut object, "namespace", namespace);
    }
    meta::identify(&mut object, now())?;
    (resource.prepare_create)(&mut object);
    let key = storage::key(resource, namespace, meta::text(&object, "name"));
    Ok(Write { key, expect: Expect::Absent, value: Some(storage::encode(resource, &object)?) })
}

/// The write that puts an object in place of what was read.
///
/// # Errors
/// It is no object of this kind.
pub(crate) fn replace(resource: &'static Resource, entry: &Entry, object: Map) -> Result<Write, Status> {
    let object = whole(resource, object)?;
    let value = Some(storage::encode(resource, &object)?);
    Ok(Write { key: entry.key.clone(), expect: Expect::Modified(entry.modified), value })
}

/// The write that removes what was read.
pub(crate) fn remove(entry: &Entry) -> Write {
    Write { key: entry.key.clone(), expect: Expect::Modified(entry.modified), value: None }
}

/// Makes writes, all or none. False: somebody else was faster.
///
/// # Errors
/// The store failed.
pub(crate) async fn commit(backend: &Backend, writes: Vec<Write>) -> Result<bool, Status> {
    if writes.is_empty() {
        return Ok(true);
    }
    match backend.commit(writes).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict { .. }) => Ok(false),
        Err(error) => Err(storage::failed(&error)),
    }
}

/// The object of a key.
///
/// # Errors
/// The store failed, or what is there is no object.
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

/// What is stored of a kind, in one namespace or in all.
///
/// # Errors
/// The store failed.
pub(crate) async fn all(
    backend: &Backend,
    resource: &'static Resource,
    namespace: &str,
) -> Result<Vec<Arc<Entry>>, Status> {
    let list = List { prefix: storage::prefix(resource, namespace).into(), ..List::default() };
    Ok(backend.list(&list).await.map_err(|error| storage::failed(&error))?.entries)
}

/// The object as it is stored and printed.
fn whole(resource: &'static Resource, mut object: Map) -> Result<Map, Status> {
    object.insert("kind".to_owned(), resource.kind.into());
    object.insert("apiVersion".to_owned(), resource.api_version().into());
    let decoded = kinds::decode::value(object.into(), decode::shape(resource)).map_err(Status::internal)?;
    let mut object = decoded.object;
    (resource.default)(&mut object);
    Ok(object)
}
