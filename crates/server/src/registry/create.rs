//! Creates an object (AP-30 to AP-35).

use std::sync::Arc;

use http::StatusCode;
use kinds::Map;
use portcullis_store::{Entry, Expect, Store as _, StoreError, Write};

use super::admission::Operation;
use super::context::Surroundings;
use super::meta::{self, now};
use super::request_scope::RequestScope;
use super::storage;
use crate::http::status::Status;

/// The number of attempts to generate a name that is not taken.
const NAME_ATTEMPTS: usize = 8;

/// Stores a decoded object: mutating admission, identity, validation, validating admission. Returns the bytes for the
/// response.
///
/// # Errors
/// The object is not admitted, invalid, or exists already.
pub(crate) async fn create(
    scope: &RequestScope<'_>,
    mut object: Map,
    is_dry_run: bool,
) -> Result<bytes::Bytes, Status> {
    let name = meta::text(&object, "name").to_owned();
    scope.admit(Operation::Create, &name, Some(&mut object), None).await?;
    scope.check_escalation(&object, None).await?;
    let surroundings = Surroundings::of(scope, &scope.target.resource.on_create, &object).await;
    // AP-32: another generated name is likely to be free.
    let further = if name.is_empty() { NAME_ATTEMPTS - 1 } else { 0 };
    for _ in 0..further {
        let mut object = object.clone();
        let is_generated = prepare(scope, &surroundings, &mut object).await?;
        match store(scope, &mut object, is_dry_run).await {
            Err(status) if is_generated && status.code() == StatusCode::CONFLICT => {}
            other => return other,
        }
    }
    // Most objects have a name, and large ones are not copied for nothing.
    prepare(scope, &surroundings, &mut object).await?;
    store(scope, &mut object, is_dry_run).await
}

/// Prepares an object for storage and validates it. Returns true if its name was generated.
///
/// # Errors
/// 422 with all validation errors.
async fn prepare(
    scope: &RequestScope<'_>,
    surroundings: &Surroundings<'_>,
    object: &mut Map,
) -> Result<bool, Status> {
    let resource = scope.target.resource;
    let is_generated = meta::identify(object, now())?;
    (resource.prepare_create)(object);
    let validate = resource.validate_create;
    let of_kind = surroundings.complete(scope, &resource.on_create, object, None, validate).await?;
    let mut errors = kinds::meta::validate(object, resource);
    errors.extend(of_kind);
    if !errors.is_empty() {
        let name = meta::text(object, "name");
        return Err(Status::invalid_object(resource.group, resource.kind, name, errors));
    }
    Ok(is_generated)
}

async fn store(scope: &RequestScope<'_>, object: &mut Map, is_dry_run: bool) -> Result<bytes::Bytes, Status> {
    let resource = scope.target.resource;
    let name = meta::text(object, "name").to_owned();
    scope.validate(Operation::Create, &name, Some(object), None).await?;
    if kinds::meta::has_revision(object) {
        return Err(Status::unknown("resourceVersion should not be set on objects to be created"));
    }
    let key = storage::key(resource, scope.target.namespace, &name);
    let exists = || Status::already_exists(resource.group, resource.plural, &name);
    if is_dry_run {
        return match scope.stored(&key).await? {
            Some(_) => Err(exists()),
            None => unstored(scope, object),
        };
    }
    let value = storage::encode(resource, object)?;
    let write = Write { key, expect: Expect::Absent, value: Some(value) };
    match scope.backend.commit(vec![write]).await {
        Ok(committed) => storage::served(resource, &entry(committed.entries)?.value),
        Err(StoreError::Conflict { .. }) => Err(exists()),
        Err(error) => Err(storage::failed(&error)),
    }
}

/// Returns the entry of a commit of one write.
///
/// # Errors
/// The store returned no entry.
pub(crate) fn entry(entries: Vec<Option<Arc<Entry>>>) -> Result<Arc<Entry>, Status> {
    entries.into_iter().flatten().next().ok_or_else(|| Status::internal("the store returned no entry"))
}

/// Returns the bytes of an object that is not stored, as for a dry run, without a revision (AP-15).
///
/// # Errors
/// See [`storage::encode`] and [`meta::revision`].
pub(crate) fn unstored(scope: &RequestScope<'_>, object: &Map) -> Result<bytes::Bytes, Status> {
    storage::unstored(scope.target.resource, object, meta::revision(object)?)
}
