//! PUT, and what PUT and PATCH share: reading what is stored, changing it, writing it back (AP-40 to AP-45).

use http::StatusCode;
use http::header::WARNING;
use hyper::body::Incoming;
use kinds::Map;
use kinds::resources::pods::PODS;
use policy::field_error::NO_FIELD;
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use portcullis_store::{Expect, Revision, Store as _, StoreError, Write};

use super::admission::{self, Operation};
use super::create::{self, entry, unstored};
use super::options::{self, WriteKind};
use super::render::View;
use super::storage::Stored;
use super::{Call, context, decode, delete, escalation, list_options, meta, storage};
use crate::api::negotiate;
use crate::go::quoted;
use crate::service;
use crate::status::{Answer, Status};

/// How often a write is tried again when somebody else has written in between.
const ATTEMPTS: usize = 100;
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// What an update made.
pub(crate) struct Written {
    /// The object as it is now, or was last.
    pub(crate) bytes: bytes::Bytes,
    /// Whether there was none before.
    pub(crate) is_new: bool,
}

/// Replaces an object.
pub(crate) async fn answer(call: &Call<'_>, view: &View, body: &mut Incoming) -> Result<Answer, Status> {
    view.allow(false)?;
    let form = negotiate::form(&call.head.headers)?;
    let bytes = service::read_body(call.head, body, call.app.limits()).await?;
    let options = options::write(&call.query, WriteKind::Update)?;
    let body = decode::object(&bytes, form, &call.target, options.validation)?;
    check_name(call, &body.object)?;
    let new = body.object;
    let uid = meta::text(&new, "uid").to_owned();
    let written = write(call, &uid, options.is_dry_run, Create::IfAllowed, |_| Ok(new.clone())).await?;
    let code = if written.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut answer = view.object(code, &written.bytes)?;
    for warning in body.warnings {
        answer.headers_mut().append(WARNING, warning);
    }
    Ok(answer)
}

/// AP-40: the object's own name and namespace must be those of the URL.
///
/// # Errors
/// 400 when they are not.
pub(crate) fn check_name(call: &Call<'_>, object: &Map) -> Result<(), Status> {
    let Call { target, .. } = call;
    match meta::text(object, "name") {
        "" => return Err(Status::bad_request("the name of the object must be provided in metadata.name")),
        name if name != target.name => {
            let (name, url) = (quoted(name), quoted(target.name));
            return Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({url})"
            )));
        }
        _ => {}
    }
    match meta::text(object, "namespace") {
        namespace if target.namespace.is_empty() || namespace.is_empty() || namespace == target.namespace => {
            Ok(())
        }
        namespace => {
            let (namespace, url) = (quoted(namespace), quoted(target.namespace));
            Err(Status::bad_request(format!(
                "the namespace of the object ({namespace}) does not match the namespace on the URL ({url})"
            )))
        }
    }
}

/// When a write creates what is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Create {
    /// Where the kind allows that (AP-41).
    IfAllowed,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Reads an object, makes another of it, and writes that back, until nobody else wrote in between. What is made of
/// nothing is created, if it may be.
///
/// # Errors
/// There is none; it is another than the client knew; the new one is not admitted or not valid.
pub(crate) async fn write(
    call: &Call<'_>,
    uid: &str,
    is_dry_run: bool,
    creates: Create,
    make: impl Fn(&Map) -> Result<Map, Status>,
) -> Result<Written, Status> {
    let resource = call.target.resource;
    let key = call.key();
    for _ in 0..ATTEMPTS {
        let stored = call.stored(&key).await?.map(|entry| Stored::read(resource, entry)).transpose()?;
        let found = stored.as_ref().map_or("", |stored| meta::text(&stored.object, "uid"));
        if !uid.is_empty() && uid != found {
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
            return Err(Status::conflict(resource.group, resource.plural, call.target.name, &why));
        }
        let Some(stored) = stored else {
            let may_create = match creates {
                Create::Always => true,
                Create::IfAllowed => resource.creates_on_update,
                Create::Never => false,
            };
            if !may_create || call.target.subresource.is_some() {
                return Err(call.no_object());
            }
            let object = make(&Map::new())?;
            // Who only may change must not create.
            call.app.authorization().allow_also(&call.permit, call.info, "create").await?;
            return create_instead(call, object, is_dry_run).await;
        };
        // Nothing: somebody else was faster. Look again.
        if let Some(bytes) = attempt(call, &key, &stored, make(&stored.object)?, is_dry_run).await? {
            return Ok(Written { bytes, is_new: false });
        }
    }
    Err(Status::conflict(resource.group, resource.plural, call.target.name, MODIFIED))
}

/// AP-41: the resourceVersion in the body does not count.
async fn create_instead(call: &Call<'_>, mut object: Map, is_dry_run: bool) -> Result<Written, Status> {
    meta::place(&mut object, &call.target)?;
    meta::unset(&mut object, "resourceVersion");
    let bytes = create::create(call, object, is_dry_run).await?;
    Ok(Written { bytes, is_new: true })
}

/// One attempt: nothing when somebody else wrote in between.
async fn attempt(
    call: &Call<'_>,
    key: &str,
    stored: &Stored,
    mut object: Map,
    is_dry_run: bool,
) -> Result<Option<bytes::Bytes>, Status> {
    let resource = call.target.resource;
    let (old, name) = (&stored.object, call.target.name);
    let mut review = call.review(Operation::Update, name, Some(&mut object), Some(old));
    admission::admit(&mut review).await?;
    escalation::check(call, &object, Some(old)).await?;
    check_version(call, &mut object, stored)?;
    meta::place(&mut object, &call.target)?;
    let _shared = context::share(call).await;
    prepare(call, &mut object, old).await?;
    let review = call.review(Operation::Update, name, Some(&mut object), Some(old));
    admission::validate(&review).await?;
    if delete::ends_with_update(resource, &object, old) {
        return delete::remove_after_update(call, key, stored, &object, is_dry_run).await;
    }
    // AP-45
    if object == *old {
        return Ok(Some(stored.bytes.clone()));
    }
    if is_dry_run {
        return unstored(call, &object).map(Some);
    }
    let value = storage::encode(resource, &object)?;
    let expect = Expect::Modified(stored.entry.modified);
    match call.backend.commit(vec![Write { key: key.into(), expect, value: Some(value) }]).await {
        Ok(committed) => storage::served(resource, &entry(committed.entries)?.value).map(Some),
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(storage::failed(&error)),
    }
}

/// Changes a stored object in place, until nobody else wrote in between: for what is done to an object rather than
/// written by a client, so neither admission nor validation are asked. Returns its revision.
///
/// # Errors
/// There is none, or `change` refuses.
pub(crate) async fn change(
    call: &Call<'_>,
    is_dry_run: bool,
    change: impl Fn(&mut Map) -> Result<(), Status>,
) -> Result<Revision, Status> {
    let resource = call.target.resource;
    let key = call.key();
    for _ in 0..ATTEMPTS {
        let entry = call.stored(&key).await?.ok_or_else(|| call.no_object())?;
        let stored = Stored::read(resource, entry)?;
        let mut object = stored.object.clone();
        change(&mut object)?;
        let revision = stored.entry.modified;
        if is_dry_run || object == stored.object {
            return Ok(revision);
        }
        let value = storage::encode(resource, &object)?;
        let write = Write { key: key.clone(), expect: Expect::Modified(revision), value: Some(value) };
        match call.backend.commit(vec![write]).await {
            Ok(committed) => return Ok(committed.revision),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(storage::failed(&error)),
        }
    }
    Err(Status::conflict(resource.group, resource.plural, call.target.name, MODIFIED))
}

/// AP-40: a resourceVersion is a precondition; without one some kinds cannot be updated.
fn check_version(call: &Call<'_>, object: &mut Map, stored: &Stored) -> Result<(), Status> {
    let resource = call.target.resource;
    if let Some(error) = kinds::meta::missing_revision(object, resource) {
        return Err(Status::invalid_object(resource.group, resource.kind, call.target.name, &[error]));
    }
    let given = meta::text(object, "resourceVersion");
    let asked = list_options::revision(given).map_err(Status::unknown)?;
    match asked {
        Some(revision) if revision != stored.entry.modified => {
            return Err(Status::conflict(resource.group, resource.plural, call.target.name, MODIFIED));
        }
        _ => {}
    }
    meta::set(object, "resourceVersion", stored.entry.modified.0.to_string());
    Ok(())
}

/// Keeps what an update cannot change, and validates the rest (AP-42 to AP-44).
async fn prepare(call: &Call<'_>, object: &mut Map, old: &Map) -> Result<(), Status> {
    let resource = call.target.resource;
    kinds::meta::carry_over(object, old);
    context::prepare_update(call, object, old).await?;
    let mut errors = context::validate_update(call, object, old);
    // A pod's error without a field stands alone (MP-15).
    let alone =
        errors.iter().position(|error| error.field == NO_FIELD && std::ptr::eq(resource, &raw const PODS));
    match alone {
        Some(at) => errors = vec![errors.swap_remove(at)],
        None => {
            let of_metadata = kinds::meta::validate_update(object, old, resource, call.strategy.is_status);
            errors.splice(0..0, of_metadata);
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        errors => Err(Status::invalid_object(resource.group, resource.kind, call.target.name, errors)),
    }
}
