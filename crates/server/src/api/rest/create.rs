//! POST on a collection (AP-30 to AP-35).

use std::sync::Arc;

use http::StatusCode;
use http::header::WARNING;
use hyper::body::Incoming;
use kinds::Map;
use portcullis_kinds as kinds;
use portcullis_store::{Entry, Expect, Store as _, StoreError, Write};

use super::admission::{self, Operation};
use super::decode;
use super::options::{self, WriteKind};
use super::render::View;
use super::{Call, context, escalation, meta, now, storage};
use crate::api::negotiate;
use crate::service;
use crate::status::{Answer, Status};

/// How often another name is made when the one that was made is taken.
const NAME_ATTEMPTS: usize = 8;

/// Creates an object.
pub(crate) async fn answer(call: &Call<'_>, view: &View, body: &mut Incoming) -> Result<Answer, Status> {
    view.allow(false)?;
    let form = negotiate::form(&call.head.headers)?;
    let bytes = service::read_body(call.head, body, call.app.limits()).await?;
    let options = options::write(&call.query, WriteKind::Create)?;
    let mut body = decode::object(&bytes, form, &call.target, options.validation)?;
    meta::place(&mut body.object, &call.target)?;
    let created = create(call, body.object, options.is_dry_run).await?;
    let mut answer = view.object(StatusCode::CREATED, &created)?;
    for warning in body.warnings {
        answer.headers_mut().append(WARNING, warning);
    }
    Ok(answer)
}

/// Brings a decoded object into the store: admission, identity, validation, admission. The answer's bytes.
///
/// # Errors
/// It is not admitted, not valid, or there already.
pub(crate) async fn create(
    call: &Call<'_>,
    mut object: Map,
    is_dry_run: bool,
) -> Result<bytes::Bytes, Status> {
    let name = meta::text(&object, "name").to_owned();
    let mut review = call.review(Operation::Create, &name, Some(&mut object), None);
    admission::admit(&mut review).await?;
    escalation::check(call, &object, None).await?;
    let _shared = context::share(call).await;
    let mut attempt = 1;
    loop {
        let mut object = object.clone();
        let is_generated = prepare(call, &mut object).await?;
        let entry = store(call, &mut object, is_dry_run).await;
        attempt += 1;
        match entry {
            // AP-32: another name is likely to be free.
            Err(status)
                if is_generated && status.code() == StatusCode::CONFLICT && attempt <= NAME_ATTEMPTS => {}
            other => return other,
        }
    }
}

/// Makes an object fit to be stored, and validates it. True: its name was made here.
///
/// # Errors
/// 422 with everything that is wrong.
async fn prepare(call: &Call<'_>, object: &mut Map) -> Result<bool, Status> {
    let resource = call.target.resource;
    let is_generated = meta::identify(object, now())?;
    context::prepare_create(call, object).await?;
    let mut errors = kinds::meta::validate(object, resource);
    errors.extend(context::validate_create(call, object).await?);
    if !errors.is_empty() {
        let name = meta::text(object, "name");
        return Err(Status::invalid_object(resource.group, resource.kind, name, &errors));
    }
    Ok(is_generated)
}

async fn store(call: &Call<'_>, object: &mut Map, is_dry_run: bool) -> Result<bytes::Bytes, Status> {
    let resource = call.target.resource;
    let name = meta::text(object, "name").to_owned();
    let review = call.review(Operation::Create, &name, Some(object), None);
    admission::validate(&review).await?;
    if kinds::meta::has_revision(object) {
        return Err(Status::unknown("resourceVersion should not be set on objects to be created"));
    }
    let key = storage::key(resource, call.target.namespace, &name);
    let exists = || Status::already_exists(resource.group, resource.plural, &name);
    if is_dry_run {
        return match call.stored(&key).await? {
            Some(_) => Err(exists()),
            None => unstored(call, object),
        };
    }
    let value = storage::encode(resource, object)?;
    let write = Write { key, expect: Expect::Absent, value: Some(value) };
    match call.backend.commit(vec![write]).await {
        Ok(committed) => storage::served(resource, &entry(committed.entries)?.value),
        Err(StoreError::Conflict { .. }) => Err(exists()),
        Err(error) => Err(storage::failed(&error)),
    }
}

/// The entry of a commit of one write.
///
/// # Errors
/// There is none: the store is wrong.
pub(crate) fn entry(entries: Vec<Option<Arc<Entry>>>) -> Result<Arc<Entry>, Status> {
    entries.into_iter().flatten().next().ok_or_else(|| Status::internal("the store returned no entry"))
}

/// The bytes of an object that is not stored: as they would be, without a revision (AP-15).
///
/// # Errors
/// As [`storage::encode`] and [`meta::revision`].
pub(crate) fn unstored(call: &Call<'_>, object: &Map) -> Result<bytes::Bytes, Status> {
    storage::unstored(call.target.resource, object, meta::revision(object)?)
}
