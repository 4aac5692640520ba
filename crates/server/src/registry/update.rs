//! Changes an object: reads what is stored, makes another of it, and writes that back (AP-40 to AP-45).

use kinds::Map;
use kinds::apply::ManagedFieldsText;
use portcullis_store::{Expect, Revision, Standing, Store as _, StoreError, Write};

use super::admission::Operation;
use super::context::Surroundings;
use super::create::{self, entry, unstored};
use super::options::WriteOptions;
use super::request_scope::RequestScope;
use super::storage::{self, Stored};
use super::{delete, list_options, managed, meta, set_aside};
use crate::http::status::Status;
use portcullis_apimachinery::quote::quoted;

/// The number of attempts of an update after conflicts.
const ATTEMPTS: usize = 100;
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The result of an update.
pub(crate) struct Written {
    /// The current, or last, state of the object.
    pub(crate) bytes: bytes::Bytes,
    /// Whether the object was created.
    pub(crate) is_new: bool,
}

/// AP-40: checks that the object's name and namespace are those of the URL.
///
/// # Errors
/// 400 if they are not.
pub(crate) fn check_name(scope: &RequestScope<'_>, object: &Map) -> Result<(), Status> {
    let target = &scope.target;
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

/// Whether a write creates a missing object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Create {
    /// If the kind allows it (AP-41).
    IfAllowed,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How an object is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct How {
    /// Whether a missing object is created.
    pub(crate) creates: Create,
    /// Whether the change neither reads nor writes `managedFields`.
    pub(crate) leaves_managers: bool,
}

/// Reads an object, changes it, and writes it back; retries after a conflict. A missing object is created, if allowed.
///
/// # Errors
/// The object does not exist; its resourceVersion does not match; the new object is not admitted or is invalid.
pub(crate) async fn write(
    scope: &RequestScope<'_>,
    uid: &str,
    options: &WriteOptions,
    how: How,
    make: impl Fn(&Map) -> Result<Map, Status>,
) -> Result<Written, Status> {
    let resource = scope.target.resource;
    let key = scope.key();
    for _ in 0..ATTEMPTS {
        let leaves_managers = how.leaves_managers && managed::can_be_set_aside(scope, options).await;
        let read = if leaves_managers { Stored::read_without_managers } else { Stored::read };
        let stored = scope.stored(&key).await?.map(|entry| read(resource, entry)).transpose()?;
        let found = stored.as_ref().map_or("", |stored| meta::text(&stored.object, "uid"));
        if !uid.is_empty() && uid != found {
            // The object with this uid is gone. An applied configuration conflicts with that.
            if stored.is_none() && how.creates != Create::Always {
                return Err(scope.no_object());
            }
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
            return Err(Status::conflict(resource.group, resource.plural, scope.target.name, &why));
        }
        let Some(mut stored) = stored else {
            let may_create = match how.creates {
                Create::Always => true,
                Create::IfAllowed => resource.creates_on_update,
                Create::Never => false,
            };
            if !may_create || scope.target.subresource.is_some() {
                return Err(scope.no_object());
            }
            let object = make(&Map::new())?;
            // Permission to update does not include permission to create.
            scope.admission.allow_also("create").await?;
            return create_instead(scope, object, options).await;
        };
        // None means a conflict. Try again.
        let mut object = make(&stored.object)?;
        let managed_fields = match options.is_apply {
            true => None,
            false => managed::record_aside(scope, options.manager(), &mut stored, &mut object)?,
        };
        if let Some(bytes) = attempt(scope, &key, &stored, (object, managed_fields), options).await? {
            return Ok(Written { bytes, is_new: false });
        }
    }
    Err(Status::conflict(resource.group, resource.plural, scope.target.name, MODIFIED))
}

/// AP-41: the resourceVersion in the body is ignored.
async fn create_instead(
    scope: &RequestScope<'_>,
    mut object: Map,
    options: &WriteOptions,
) -> Result<Written, Status> {
    meta::place(&mut object, &scope.target)?;
    meta::unset(&mut object, "resourceVersion");
    let bytes = create::create(scope, object, options).await?;
    Ok(Written { bytes, is_new: true })
}

/// Makes one attempt; returns none after a conflict.
async fn attempt(
    scope: &RequestScope<'_>,
    key: &str,
    stored: &Stored,
    (mut object, managed_fields): (Map, Option<ManagedFieldsText>),
    options: &WriteOptions,
) -> Result<Option<bytes::Bytes>, Status> {
    let resource = scope.target.resource;
    let managed_fields = managed_fields.as_ref();
    let (old, name) = (&stored.object, scope.target.name);
    scope.admit(Operation::Update, name, options, Some(&mut object), Some(old)).await?;
    scope.check_escalation(&object, Some(old)).await?;
    check_version(scope, &mut object, stored)?;
    meta::place(&mut object, &scope.target)?;
    let surroundings = Surroundings::of(scope, &scope.update.on_request, &object).await?;
    prepare(scope, &surroundings, &mut object, old).await?;
    scope.validate(Operation::Update, name, options, Some(&mut object), Some(old)).await?;
    if delete::ends_with_update(resource, &object, old) {
        put_back(&mut object, managed_fields)?;
        return delete::remove_after_update(scope, key, stored, &object, options.is_dry_run).await;
    }
    managed::forget_times(&mut object, old);
    // AP-45. As kube-apiserver: what would be stored differently today is written although it does not change, so that a key
    // can be rotated with `kubectl replace` (ET-51).
    if object == *old {
        match scope.standing(&stored.entry).await? {
            Standing::Replaced => return Ok(None),
            Standing::Stale if !options.is_dry_run => {}
            Standing::Stale | Standing::Current => return Ok(Some(stored.bytes.clone())),
        }
    }
    let reservation = scope.reserve(Operation::Update, name, options, Some(&mut object), Some(old)).await?;
    if options.is_dry_run {
        put_back(&mut object, managed_fields)?;
        return unstored(scope, &object).map(Some);
    }
    let value = scope.encode_with(&object, managed_fields)?;
    let expect = Expect::Modified(stored.entry.modified);
    let write = Write { key: key.into(), expect, value: Some(value) };
    let writes = surroundings.writes(write).into_iter().chain(reservation.writes()).collect();
    match scope.backend.commit(writes).await {
        Ok(committed) => storage::served(resource, &entry(committed.entries)?.value).map(Some),
        Err(StoreError::Conflict { key, .. }) => scope.outdated(&key).map_or(Ok(None), Err),
        Err(error) => Err(storage::failed(&error)),
    }
}

fn put_back(object: &mut Map, managed_fields: Option<&ManagedFieldsText>) -> Result<(), Status> {
    managed_fields.map_or(Ok(()), |managed_fields| set_aside::put_back(object, managed_fields))
}

/// Changes a stored object in place, and retries after a conflict. For changes that the server makes itself, so neither
/// admission nor validation is called. Returns the new revision.
///
/// # Errors
/// The object does not exist, or `change` refuses.
pub(crate) async fn change(
    scope: &RequestScope<'_>,
    is_dry_run: bool,
    change: impl Fn(&mut Map) -> Result<(), Status>,
) -> Result<Revision, Status> {
    let resource = scope.target.resource;
    let key = scope.key();
    for _ in 0..ATTEMPTS {
        let entry = scope.stored(&key).await?.ok_or_else(|| scope.no_object())?;
        let stored = Stored::read(resource, entry)?;
        let mut object = stored.object.clone();
        change(&mut object)?;
        let revision = stored.entry.modified;
        if is_dry_run || object == stored.object {
            match scope.is_newest(&stored.entry).await? {
                true => return Ok(revision),
                false => continue,
            }
        }
        let value = storage::encode(resource, &object)?;
        let write = Write { key: key.clone(), expect: Expect::Modified(revision), value: Some(value) };
        match scope.backend.commit(vec![write]).await {
            Ok(committed) => return Ok(committed.revision),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(storage::failed(&error)),
        }
    }
    Err(Status::conflict(resource.group, resource.plural, scope.target.name, MODIFIED))
}

/// AP-40: a resourceVersion is a precondition; some kinds require one.
fn check_version(scope: &RequestScope<'_>, object: &mut Map, stored: &Stored) -> Result<(), Status> {
    let resource = scope.target.resource;
    if let Some(error) = kinds::meta::missing_revision(object, resource) {
        return Err(Status::invalid_object(resource.group, resource.kind, scope.target.name, [error]));
    }
    let given = meta::text(object, "resourceVersion");
    let asked = list_options::revision(given).map_err(Status::unknown)?;
    match asked {
        Some(revision) if revision != stored.entry.modified => {
            return Err(Status::conflict(resource.group, resource.plural, scope.target.name, MODIFIED));
        }
        _ => {}
    }
    meta::set(object, "resourceVersion", stored.entry.modified.0.to_string());
    Ok(())
}

/// Preserves the fields that an update cannot change, and validates the rest (AP-42 to AP-44), metadata
/// of every kind included (RB-78, CS-25).
async fn prepare(
    scope: &RequestScope<'_>,
    surroundings: &Surroundings<'_>,
    object: &mut Map,
    old: &Map,
) -> Result<(), Status> {
    let resource = scope.target.resource;
    kinds::meta::carry_over(object, old);
    scope.update.prepare(object, old);
    let validate = |object: &Map| scope.update.validate(object, old);
    let refused = scope.check_fields(object, old).await;
    let of_kind = surroundings.complete(scope, &scope.update.on_request, object, Some(old), validate).await?;
    let of_kind = refused.into_iter().chain(of_kind).collect();
    let errors = kinds::meta::with_metadata(of_kind, object, old, resource, scope.update.is_status);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid_object(resource.group, resource.kind, scope.target.name, errors))
}
