//! Deletes one object, as far as that is possible now (AP-50 to AP-57).

use bytes::Bytes;
use kinds::Map;
use kinds::resource::Resource;
use portcullis_store::{Expect, Revision, Store as _, StoreError, Write};

use super::admission::Operation;
use super::create::{entry, unstored};
use super::deletion::{Step, step};
use super::options::{DeleteOptions, read_error_option};
use super::request_scope::RequestScope;
use super::storage::{self, Stored};
use super::{context, meta};
use crate::http::status::Status;

const ATTEMPTS: usize = 100;

/// The outcome of deleting an object.
pub(crate) enum Outcome {
    /// The object was removed; this is its last state.
    Gone(Bytes),
    /// The object still exists in this state: its deletion is pending.
    Stays(Bytes),
}

/// Deletes the object of the request, as far as that is possible now.
///
/// # Errors
/// The object does not exist, fails a precondition, or admission refuses.
pub(crate) async fn delete(scope: &RequestScope<'_>, options: &DeleteOptions) -> Result<Outcome, Status> {
    delete_asking(scope, options, Some(scope.target.name)).await
}

/// Like [`delete`], for one object of a collection that is deleted: admission is told no name, because the request has
/// none (NR-7).
///
/// # Errors
/// As [`delete`].
pub(super) async fn delete_of_collection(
    scope: &RequestScope<'_>,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    delete_asking(scope, options, Some("")).await
}

/// Like [`delete`], for a call that was already admitted in another form.
///
/// # Errors
/// The object does not exist, or fails a precondition.
pub(crate) async fn delete_admitted(
    scope: &RequestScope<'_>,
    options: &DeleteOptions,
) -> Result<Outcome, Status> {
    delete_asking(scope, options, None).await
}

/// Deletes an object. Admission is asked with the name that the request has, if there is one to ask with.
async fn delete_asking(
    scope: &RequestScope<'_>,
    options: &DeleteOptions,
    name: Option<&str>,
) -> Result<Outcome, Status> {
    let resource = scope.target.resource;
    let key = scope.key();
    for _ in 0..ATTEMPTS {
        let entry = scope.stored(&key).await?.ok_or_else(|| scope.no_object())?;
        let stored = Stored::read(resource, entry)?;
        check_preconditions(scope, options, &stored.object)?;
        if let Some(name) = name {
            scope.admit(Operation::Delete, name, options, None, Some(&stored.object)).await?;
            scope.validate(Operation::Delete, name, options, None, Some(&stored.object)).await?;
        }
        let outcome = match step(resource, &stored.object, options) {
            Step::Nothing => {
                let is_newest = scope.is_newest(&stored.entry).await?;
                is_newest.then(|| Outcome::Stays(stored.bytes.clone()))
            }
            Step::Remove => {
                remove(scope, &key, &stored, &stored.object, options.is_dry_run).await?.map(Outcome::Gone)
            }
            Step::Mark(marked) => {
                mark(scope, &key, &stored, &marked, options.is_dry_run).await?.map(Outcome::Stays)
            }
            // Watchers see the deletion timestamp before the removal.
            Step::MarkAndRemove(marked) => {
                match mark(scope, &key, &stored, &marked, options.is_dry_run).await? {
                    Some(bytes) if options.is_dry_run => Some(Outcome::Gone(bytes)),
                    Some(bytes) => match scope.stored(&key).await? {
                        Some(entry) if entry.created == stored.entry.created => {
                            let stored = Stored::read(resource, entry)?;
                            remove(scope, &key, &stored, &stored.object, false).await?.map(Outcome::Gone)
                        }
                        // Somebody else has removed what was marked.
                        _ => Some(Outcome::Gone(bytes)),
                    },
                    None => None,
                }
            }
        };
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
    }
    let why = "the object has been modified; please apply your changes to the latest version and try again";
    Err(Status::conflict(resource.group, resource.plural, scope.target.name, why))
}

/// Removes an object whose stored value cannot be read; its finalizers cannot be read either (ET-12). Needs a permission of its
/// own. Admission sees an object without contents.
///
/// # Errors
/// 403 without the permission, 422 if the object can be read, 404 if there is none.
pub(crate) async fn remove_unreadable(
    scope: &RequestScope<'_>,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let (resource, name) = (scope.target.resource, scope.target.name);
    scope.admission.allow_also("unsafe-delete-ignore-read-errors").await?;
    scope.admit(Operation::Delete, name, options, None, None).await?;
    scope.validate(Operation::Delete, name, options, None, None).await?;
    let key = scope.key();
    if scope.backend.remove_unreadable(&key).await.map_err(|error| storage::failed(&error))? {
        tracing::warn!(key = &*key, "an object whose stored value cannot be read was removed on request");
        return Ok(());
    }
    if scope.stored(&key).await?.is_none() {
        return Err(scope.no_object());
    }
    let why = "is exclusively used to delete corrupt object(s), try again by removing this option";
    Err(Status::invalid_object(resource.group, resource.kind, name, [read_error_option(why)]))
}

/// AP-53
///
/// # Errors
/// The object fails a precondition.
pub(crate) fn check_preconditions(
    scope: &RequestScope<'_>,
    options: &DeleteOptions,
    object: &Map,
) -> Result<(), Status> {
    let resource = scope.target.resource;
    let conflict = |why: &str| Err(Status::conflict(resource.group, resource.kind, scope.target.name, why));
    let (uid, version) = (meta::text(object, "uid"), meta::text(object, "resourceVersion"));
    match options {
        DeleteOptions { uid: Some(asked), .. } if asked != uid => conflict(&format!(
            "the UID in the precondition ({asked}) does not match the UID in record ({uid}). The object might have been \
             deleted and then recreated"
        )),
        DeleteOptions { resource_version: Some(asked), .. } if *asked != version => conflict(&format!(
            "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in record ({version}). \
             The object might have been modified"
        )),
        _ => Ok(()),
    }
}

/// Writes a marked object; returns none after a conflicting write.
async fn mark(
    scope: &RequestScope<'_>,
    key: &str,
    stored: &Stored,
    marked: &Map,
    is_dry_run: bool,
) -> Result<Option<Bytes>, Status> {
    if *marked == stored.object {
        return Ok(scope.is_newest(&stored.entry).await?.then(|| stored.bytes.clone()));
    }
    if is_dry_run {
        return unstored(scope, marked).map(Some);
    }
    let resource = scope.target.resource;
    let value = scope.encode(marked)?;
    let expect = Expect::Modified(stored.entry.modified);
    match scope.backend.commit_beyond_quota(vec![Write { key: key.into(), expect, value: Some(value) }]).await
    {
        Ok(committed) => storage::served(resource, &entry(committed.entries)?.value).map(Some),
        Err(StoreError::Conflict { key, .. }) => scope.outdated(&key).map_or(Ok(None), Err),
        Err(error) => Err(storage::failed(&error)),
    }
}

/// Removes an object. Returns its last state as of the removal; none after a conflicting write.
async fn remove(
    scope: &RequestScope<'_>,
    key: &str,
    stored: &Stored,
    last: &Map,
    is_dry_run: bool,
) -> Result<Option<Bytes>, Status> {
    let resource = scope.target.resource;
    let shown = |revision: Revision| storage::unstored(resource, last, revision).map(Some);
    if is_dry_run {
        return shown(stored.entry.modified);
    }
    let expect = Expect::Modified(stored.entry.modified);
    match scope.backend.commit_beyond_quota(vec![Write { key: key.into(), expect, value: None }]).await {
        Ok(committed) => {
            context::removed(scope).await;
            shown(committed.revision)
        }
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(storage::failed(&error)),
    }
}

/// AP-44: returns whether an update removes the last finalizer of an object that is being deleted.
pub(crate) fn ends_with_update(resource: &Resource, object: &Map, old: &Map) -> bool {
    meta::is_terminating(old)
        && meta::finalizers(object).is_empty()
        && meta::grace_period(old).is_none_or(|seconds| seconds == 0)
        && !(resource.is_held)(object)
}

/// Removes an object whose last finalizer was removed by an update. Returns none after a conflicting write.
///
/// # Errors
/// The store failed.
pub(crate) async fn remove_after_update(
    scope: &RequestScope<'_>,
    key: &str,
    stored: &Stored,
    object: &Map,
    is_dry_run: bool,
) -> Result<Option<Bytes>, Status> {
    remove(scope, key, stored, object, is_dry_run).await
}
