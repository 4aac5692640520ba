//! Creates an object (AP-30 to AP-35).

use std::sync::Arc;

use http::StatusCode;
use kinds::Map;
use portcullis_store::{Entry, Expect, Store as _, StoreError, Write};

use super::admission::Operation;
use super::context::Surroundings;
use super::meta::{self, now};
use super::options::WriteOptions;
use super::request_scope::RequestScope;
use super::{freshness, managed, storage};
use crate::http::status::{Details, Status};

/// The number of attempts while other servers allocate, or change quotas, at the same time.
const OUTRUN: usize = 100;
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
    options: &WriteOptions,
) -> Result<bytes::Bytes, Status> {
    if !options.is_apply {
        managed::record(scope, options.manager(), None, &mut object);
    }
    let name = meta::text(&object, "name").to_owned();
    if let Some(why) = scope.target.resource.custom.and_then(|custom| custom.creation_fault()) {
        let resource = scope.target.resource;
        return Err(Status::forbidden(why, Details::of(resource.group, resource.plural, &name)));
    }
    scope.admit(Operation::Create, &name, options, Some(&mut object), None).await?;
    scope.check_escalation(&object, None).await?;
    for _ in 0..OUTRUN {
        let surroundings = Surroundings::of(scope, &scope.target.resource.on_create, &object).await?;
        match named(scope, &surroundings, object, options).await {
            Err(Miss::Outrun(again)) => object = *again,
            Err(Miss::Refused(status)) => return Err(status),
            Ok(bytes) => return Ok(bytes),
        }
    }
    Err(Status::try_again("other servers allocate all the time; try again"))
}

/// Why an object was not stored.
enum Miss {
    /// It is refused.
    Refused(Status),
    /// Another server was allocating at the same time: all must be done again with the object as it was.
    Outrun(Box<Map>),
}

impl From<Status> for Miss {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// Stores an object; generates another name if the first one is taken.
async fn named(
    scope: &RequestScope<'_>,
    surroundings: &Surroundings<'_>,
    mut object: Map,
    options: &WriteOptions,
) -> Result<bytes::Bytes, Miss> {
    let name = meta::text(&object, "name").to_owned();
    // AP-32: another generated name is likely to be free.
    let further = if name.is_empty() { NAME_ATTEMPTS - 1 } else { 0 };
    for _ in 0..further {
        let mut attempt = object.clone();
        let is_generated = prepare(scope, surroundings, &mut attempt).await?;
        match store(scope, surroundings, &mut attempt, options).await {
            Ok(Some(bytes)) => return Ok(bytes),
            Ok(None) => return Err(Miss::Outrun(Box::new(object))),
            Err(status) if is_generated && status.code() == StatusCode::CONFLICT => {}
            Err(status) => return Err(status.into()),
        }
    }
    // Most objects have a name, and large ones are not copied for nothing.
    let before = surroundings.may_be_outrun().then(|| Box::new(object.clone()));
    prepare(scope, surroundings, &mut object).await?;
    match (store(scope, surroundings, &mut object, options).await?, before) {
        (Some(bytes), _) => Ok(bytes),
        (None, Some(before)) => Err(Miss::Outrun(before)),
        (None, None) => Err(Status::internal("a write without a claim was outrun").into()),
    }
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
    resource.prepare_new(object);
    let validate = |object: &Map| resource.validate_new(object);
    let of_kind = surroundings.complete(scope, &resource.on_create, object, None, validate).await?;
    let mut errors = kinds::meta::validate(object, resource);
    errors.extend(of_kind);
    if !errors.is_empty() {
        let name = meta::text(object, "name");
        return Err(Status::invalid_object(resource.group, resource.kind, name, errors));
    }
    Ok(is_generated)
}

/// Stores a prepared object; none if another server was allocating at the same time.
async fn store(
    scope: &RequestScope<'_>,
    surroundings: &Surroundings<'_>,
    object: &mut Map,
    options: &WriteOptions,
) -> Result<Option<bytes::Bytes>, Status> {
    let resource = scope.target.resource;
    let name = meta::text(object, "name").to_owned();
    scope.validate(Operation::Create, &name, options, Some(object), None).await?;
    if kinds::meta::has_revision(object) {
        return Err(Status::unknown("resourceVersion should not be set on objects to be created"));
    }
    let key = storage::key(resource, scope.target.namespace, &name);
    let exists = || Status::already_exists(resource.group, resource.plural, &name);
    if options.is_dry_run {
        scope.reserve(Operation::Create, &name, options, Some(object), None).await?;
        return match scope.stored(&key).await? {
            Some(_) => Err(exists()),
            None => unstored(scope, object).map(Some),
        };
    }
    let value = scope.encode(object)?;
    let write = Write { key, expect: Expect::Absent, value: Some(value) };
    for _ in 0..OUTRUN {
        let reservation = scope.reserve(Operation::Create, &name, options, Some(object), None).await?;
        let writes = surroundings.writes(write.clone()).into_iter().chain(reservation.writes()).collect();
        return match scope.backend.commit(writes).await {
            Ok(committed) => storage::served(resource, &entry(committed.entries)?.value).map(Some),
            Err(StoreError::Conflict { key, .. }) if surroundings.is_outrun(&key) => Ok(None),
            Err(StoreError::Conflict { key, .. }) if reservation.is_outrun(&key) => {
                freshness::fresh(scope.backend).await?;
                continue;
            }
            Err(StoreError::Conflict { key, .. }) => Err(scope.outdated(&key).unwrap_or_else(exists)),
            Err(error) => Err(storage::failed(&error)),
        };
    }
    Err(Status::try_again("the quotas of the namespace change all the time; try again"))
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
