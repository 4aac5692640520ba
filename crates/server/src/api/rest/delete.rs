//! DELETE of one object: grace periods, finalizers, dependents, and at last the removal (AP-50 to AP-57).

use bytes::Bytes;
use http::StatusCode;
use hyper::body::Incoming;
use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::pods::{Deletion, PODS, terminate};
use portcullis_kinds as kinds;
use portcullis_store::{Expect, Revision, Store as _, StoreError, Write};
use serde_json::{Value, json};

use super::admission::{self, Operation};
use super::create::{entry, unstored};
use super::options::DeleteOptions;
use super::render::View;
use super::storage::Stored;
use super::{Call, context, meta, namespaces, now, storage};
use crate::api::negotiate;
use crate::service;
use crate::status::{Answer, Details, Status, json};

/// Set while dependents are to be left alone.
const ORPHAN: &str = "orphan";
/// Set while dependents are to go first.
const FOREGROUND: &str = "foregroundDeletion";
const ATTEMPTS: usize = 100;

/// What became of an object that was to be deleted.
pub(crate) enum Outcome {
    /// It is gone; this was its last state.
    Gone(Bytes),
    /// It is still there, like this: something has to happen first.
    Stays(Bytes),
}

/// Deletes an object.
pub(crate) async fn answer(call: &Call<'_>, view: &View, body: &mut Incoming) -> Result<Answer, Status> {
    view.allow(false)?;
    let options = options(call, body).await?;
    let resource = call.target.resource;
    match delete(call, &options).await? {
        Outcome::Stays(bytes) => {
            // As in Kubernetes: said only to those who ask for dependents to be deleted in the older form.
            let code = match options.orphan_dependents {
                Some(false) => StatusCode::ACCEPTED,
                _ => StatusCode::OK,
            };
            view.object(code, &bytes)
        }
        Outcome::Gone(bytes) if resource.deletes_to_object => view.object(StatusCode::OK, &bytes),
        Outcome::Gone(bytes) => {
            let last = storage::decode(&bytes)?;
            let details = Details {
                uid: meta::text(&last, "uid").to_owned(),
                ..Details::of(resource.group, resource.plural, call.target.name)
            };
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": details});
            Ok(json(StatusCode::OK, &status))
        }
    }
}

/// The options: those of the body, or without one those of the query (AP-51).
///
/// # Errors
/// 400, 415 or 422 for options that cannot be read or make no sense.
pub(crate) async fn options(call: &Call<'_>, body: &mut Incoming) -> Result<DeleteOptions, Status> {
    let bytes = service::read_body(call.head, body, call.app.limits()).await?;
    if bytes.is_empty() {
        return DeleteOptions::from_query(&call.query);
    }
    let form = negotiate::form(&call.head.headers)?;
    match super::decode::value(&bytes, form)? {
        Value::Object(body) => DeleteOptions::from_body(&body),
        Value::Null => DeleteOptions::from_body(&Map::new()),
        _ => Err(Status::bad_request("the body is no DeleteOptions")),
    }
}

/// Deletes the object of the call, as far as that is possible now.
///
/// # Errors
/// There is none, it is not the one that was meant, or admission refuses.
pub(crate) async fn delete(call: &Call<'_>, options: &DeleteOptions) -> Result<Outcome, Status> {
    delete_asking(call, options, true).await
}

/// As [`delete`], for what was admitted in another form.
///
/// # Errors
/// There is none, or it is not the one that was meant.
pub(crate) async fn delete_admitted(call: &Call<'_>, options: &DeleteOptions) -> Result<Outcome, Status> {
    delete_asking(call, options, false).await
}

async fn delete_asking(
    call: &Call<'_>,
    options: &DeleteOptions,
    asks_admission: bool,
) -> Result<Outcome, Status> {
    let resource = call.target.resource;
    let key = call.key();
    for _ in 0..ATTEMPTS {
        let entry = call.stored(&key).await?.ok_or_else(|| call.no_object())?;
        let stored = Stored::read(resource, entry)?;
        check_preconditions(call, options, &stored.object)?;
        let review = &mut call.review(Operation::Delete, call.target.name, None, Some(&stored.object));
        if asks_admission {
            admission::admit(review).await?;
            admission::validate(review).await?;
        }
        let step = match namespaces::is_one(resource) {
            true => namespaces::step(&stored.object, options),
            false => step(resource, &stored.object, options),
        };
        let outcome = match step {
            Step::Nothing => Some(Outcome::Stays(stored.bytes.clone())),
            Step::Remove => {
                remove(call, &key, &stored, &stored.object, options.is_dry_run).await?.map(Outcome::Gone)
            }
            Step::Mark(marked) => {
                mark(call, &key, &stored, &marked, options.is_dry_run).await?.map(Outcome::Stays)
            }
            // Watchers see the mark before the removal.
            Step::MarkAndRemove(marked) => {
                match mark(call, &key, &stored, &marked, options.is_dry_run).await? {
                    Some(bytes) if options.is_dry_run => Some(Outcome::Gone(bytes)),
                    Some(_) => match call.stored(&key).await? {
                        Some(entry) => {
                            let stored = Stored::read(resource, entry)?;
                            remove(call, &key, &stored, &stored.object, false).await?.map(Outcome::Gone)
                        }
                        None => return Err(call.no_object()),
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
    Err(Status::conflict(resource.group, resource.plural, call.target.name, why))
}

/// AP-53
///
/// # Errors
/// The object is not the one that was meant.
pub(crate) fn check_preconditions(
    call: &Call<'_>,
    options: &DeleteOptions,
    object: &Map,
) -> Result<(), Status> {
    let resource = call.target.resource;
    let conflict = |why: &str| Err(Status::conflict(resource.group, resource.kind, call.target.name, why));
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

/// What a delete does to an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// It is being deleted already, and this delete does not hurry it.
    Nothing,
    /// It becomes this, and stays until something else has happened.
    Mark(Map),
    /// It becomes this, and goes at once.
    MarkAndRemove(Map),
    /// It goes at once.
    Remove,
}

/// What a delete does to an object of any kind but a namespace.
pub(crate) fn step(resource: &Resource, object: &Map, options: &DeleteOptions) -> Step {
    let mut marked = object.clone();
    // Pods alone have a time to end in. Once that is over, or was none, they go like everything else.
    let is_pod = std::ptr::eq(resource, &raw const PODS);
    let is_over =
        meta::is_terminating(object) && meta::grace_period(object).is_none_or(|seconds| seconds == 0);
    let mut period = None;
    if is_pod && !is_over {
        match Deletion::of(object, options.grace_period) {
            Deletion::Pending => return Step::Nothing,
            Deletion::After(seconds) => {
                terminate(&mut marked, seconds, now());
                period = Some(seconds);
            }
        }
    }
    if let Some(finalizers) = finalizers(object, options) {
        meta::set_finalizers(&mut marked, finalizers);
    }
    match (period, meta::finalizers(&marked).is_empty()) {
        (Some(0), true) => Step::MarkAndRemove(marked),
        (Some(_), _) => Step::Mark(marked),
        (None, true) => Step::Remove,
        (None, false) => {
            mark_deleted(&mut marked);
            Step::Mark(marked)
        }
    }
}

/// AP-54: marks an object as deleted that has no grace period of its own.
fn mark_deleted(object: &mut Map) {
    if !meta::is_terminating(object) {
        meta::raise_generation(object);
    }
    let ends = meta::seconds(meta::text(object, "deletionTimestamp"));
    if ends.is_none_or(|ends| ends > now()) {
        meta::set(object, "deletionTimestamp", meta::time(now()));
    }
    meta::set(object, "deletionGracePeriodSeconds", 0);
}

/// AP-52: the finalizers that a delete leaves behind; nothing when they do not change.
pub(crate) fn finalizers(object: &Map, options: &DeleteOptions) -> Option<Vec<String>> {
    let old = meta::finalizers(object);
    let orphans = options.orphans().unwrap_or_else(|| old.contains(&ORPHAN));
    let is_foreground = options.is_foreground().unwrap_or_else(|| old.contains(&FOREGROUND));
    if old.contains(&ORPHAN) == orphans && old.contains(&FOREGROUND) == is_foreground {
        return None;
    }
    let mut new: Vec<&str> = old.into_iter().filter(|f| !matches!(*f, ORPHAN | FOREGROUND)).collect();
    new.extend(orphans.then_some(ORPHAN));
    new.extend(is_foreground.then_some(FOREGROUND));
    Some(new.into_iter().map(str::to_owned).collect())
}

/// Writes a marked object; nothing when somebody else wrote in between.
async fn mark(
    call: &Call<'_>,
    key: &str,
    stored: &Stored,
    marked: &Map,
    is_dry_run: bool,
) -> Result<Option<Bytes>, Status> {
    if *marked == stored.object {
        return Ok(Some(stored.bytes.clone()));
    }
    if is_dry_run {
        return unstored(call, marked).map(Some);
    }
    let resource = call.target.resource;
    let value = storage::encode(resource, marked)?;
    let expect = Expect::Modified(stored.entry.modified);
    match call.backend.commit(vec![Write { key: key.into(), expect, value: Some(value) }]).await {
        Ok(committed) => storage::served(resource, &entry(committed.entries)?.value).map(Some),
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(storage::failed(&error)),
    }
}

/// Removes an object. What is returned is its last state, as of the removal; nothing when somebody else wrote in
/// between.
async fn remove(
    call: &Call<'_>,
    key: &str,
    stored: &Stored,
    last: &Map,
    is_dry_run: bool,
) -> Result<Option<Bytes>, Status> {
    let resource = call.target.resource;
    let shown = |revision: Revision| storage::unstored(resource, last, revision).map(Some);
    if is_dry_run {
        return shown(stored.entry.modified);
    }
    let expect = Expect::Modified(stored.entry.modified);
    match call.backend.commit(vec![Write { key: key.into(), expect, value: None }]).await {
        Ok(committed) => {
            context::removed(call).await;
            shown(committed.revision)
        }
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(storage::failed(&error)),
    }
}

/// AP-44: whether an update takes away the last thing that a deletion waits for.
pub(crate) fn ends_with_update(resource: &Resource, object: &Map, old: &Map) -> bool {
    meta::is_terminating(old)
        && meta::finalizers(object).is_empty()
        && meta::grace_period(old).is_none_or(|seconds| seconds == 0)
        && (!namespaces::is_one(resource) || namespaces::is_empty(object))
}

/// Removes an object whose last finalizer an update has taken away. Nothing when somebody else wrote in between.
///
/// # Errors
/// The store failed.
pub(crate) async fn remove_after_update(
    call: &Call<'_>,
    key: &str,
    stored: &Stored,
    object: &Map,
    is_dry_run: bool,
) -> Result<Option<Bytes>, Status> {
    remove(call, key, stored, object, is_dry_run).await
}
