//! Records in `managedFields` who manages which fields of stored objects.
//!
//! Every create, update, patch and apply of a client is recorded, and so are those of the server's controllers. What deletes,
//! binds or evicts changes objects without being recorded, as in Kubernetes.

use std::borrow::Cow;

use kinds::apply::{Endpoint, ManagedFieldsText, Typed, Versions, Write};
use kinds::custom::{Definition, ObjectSchema};
use kinds::resource::{Behaviour, Keeps, Resource};
use kinds::{Kinds, Map};

use super::decode;
use super::meta::{self, now};
use super::options::WriteOptions;
use super::request_scope::RequestScope;
use super::set_aside::{self, MANAGED_FIELDS};
use super::storage::Stored;
use super::target::Target;
use crate::http::status::Status;

/// The versions of a kind.
pub(super) struct KindVersions<'a> {
    /// The version that is stored.
    resource: &'static Resource,
    /// The version that most requests are about, and its name.
    served: (&'static Resource, &'a str),
    kinds: Option<&'a Kinds>,
    /// The definition of a custom kind.
    definition: Option<&'a Definition>,
}

impl KindVersions<'_> {
    fn find(&self, version: &str) -> Option<&'static Resource> {
        if version == self.served.1 {
            return Some(self.served.0);
        }
        let (group, number) = version.rsplit_once('/').unwrap_or(("", version));
        let row = self.kinds?.find(group, number, self.resource.plural)?;
        (row.current() == self.resource).then_some(row)
    }
}

impl<'a> Versions for KindVersions<'a> {
    type Schema = ObjectSchema<'a>;

    fn schema(&self, version: &str) -> Option<ObjectSchema<'a>> {
        if self.resource.custom.is_some() {
            let version = self.definition?.version_at(version)?;
            return Some(ObjectSchema::Structural(version.ownership()));
        }
        self.find(version).map(|row| ObjectSchema::BuiltIn(Typed::of(row.schema)))
    }

    fn convert<'o>(&self, object: Cow<'o, Map>, from: &str, to: &str) -> Option<Cow<'o, Map>> {
        if from == to {
            return Some(object);
        }
        if self.resource.custom.is_some() {
            let definition = self.definition?;
            // DIVERGES: Kubernetes keeps fields that the other version does not know, cannot compare them, and forgets all
            // managers.
            return Some(Cow::Owned(definition.convert(object.into_owned(), definition.version_at(to)?)));
        }
        let (from, to) = (self.find(from)?, self.find(to)?);
        let stored = decode::current(object.into_owned(), from).ok()?;
        Some(Cow::Owned(decode::shown(stored, to)))
    }
}

/// Calls a function with the endpoint of a request.
pub(super) fn at_endpoint<R>(
    scope: &RequestScope<'_>,
    act: impl FnOnce(Endpoint<'_, KindVersions<'_>>) -> R,
) -> R {
    let Target { resource, served, subresource, .. } = scope.target;
    let (version, now) = (served.api_version(), meta::time(now()));
    let definition = resource.custom.and_then(|custom| custom.live_definition());
    let definition = definition.as_deref();
    let versions =
        KindVersions { resource, served: (served, &version), kinds: Some(scope.kinds), definition };
    act(Endpoint {
        versions: &versions,
        version: &version,
        subresource: subresource.map_or("", |subresource| subresource.name),
        keeps: scope.update.keeps,
        now: &now,
    })
}

/// Records what a request changed, in the object that it makes of the stored one, or in a new one.
pub(super) fn record(scope: &RequestScope<'_>, manager: &str, old: Option<&Map>, object: &mut Map) {
    let served = scope.target.served;
    at_endpoint(scope, |endpoint| {
        let live = match old {
            Some(old) if served.version_of.is_none() => Cow::Borrowed(old),
            Some(old) => Cow::Owned(decode::shown(old.clone(), served)),
            None => Cow::Owned(decode::empty(served)),
        };
        let write = Write { live: &live, is_new: old.is_none() };
        if served.version_of.is_none() {
            return endpoint.update(manager, write, object);
        }
        let mut shown = decode::shown(object.clone(), served);
        endpoint.update(manager, write, &mut shown);
        meta::copy(object, MANAGED_FIELDS, &shown);
    });
}

/// Whether an update can set `managedFields` aside: no webhook and no policy is shown them, and the request is in the version that is
/// stored.
pub(super) async fn can_be_set_aside(scope: &RequestScope<'_>, options: &WriteOptions) -> bool {
    let Target { resource, served, .. } = scope.target;
    scope.part.is_none()
        && resource.stored_as.is_none()
        && served.version_of.is_none()
        && !scope.may_show_update(options).await
}

/// Records an update in the `managedFields` that are set aside, and returns those of the new object. If their sets of fields
/// change, they are put back into both objects and recorded there.
///
/// # Errors
/// The `managedFields` are nested too deeply.
pub(super) fn record_aside(
    scope: &RequestScope<'_>,
    manager: &str,
    stored: &mut Stored,
    object: &mut Map,
) -> Result<Option<ManagedFieldsText>, Status> {
    let Some(before) = stored.managed_fields.take() else {
        record(scope, manager, Some(&stored.object), object);
        return Ok(None);
    };
    let objects = [&stored.object, &*object];
    let updated =
        at_endpoint(scope, |endpoint| endpoint.update_text(manager, objects, &before).map(Cow::into_owned));
    if updated.is_none() {
        for object in [&mut stored.object, object] {
            set_aside::put_back(object, &before)?;
        }
        record(scope, manager, Some(&stored.object), object);
    }
    Ok(updated)
}

/// Records what this server itself wrote: to the status, if nothing else changed.
pub(super) fn record_own(resource: &'static Resource, manager: &str, old: Option<&Map>, object: &mut Map) {
    let (version, now) = (resource.api_version(), meta::time(now()));
    let is_same = |old: &Map, name: &str| object.get(name) == old.get(name);
    let is_status = old.is_some_and(|old| is_same(old, "metadata") && is_same(old, "spec"));
    let mut subresources = resource.subresources.iter();
    let status = subresources.find(|below| is_status && matches!(below.behaviour, Behaviour::Status));
    let definition = resource.custom.and_then(|custom| custom.live_definition());
    let definition = definition.as_deref();
    let versions = KindVersions { resource, served: (resource, &version), kinds: None, definition };
    let endpoint = Endpoint {
        versions: &versions,
        version: &version,
        subresource: status.map_or("", |below| below.name),
        keeps: Keeps::ALL,
        now: &now,
    };
    let empty = match old {
        Some(_) => Map::new(),
        None => decode::empty(resource),
    };
    endpoint.update(manager, Write { live: old.unwrap_or(&empty), is_new: old.is_none() }, object);
}

/// Undoes a change that is one of times in `managedFields` alone: nobody did anything then.
pub(super) fn forget_times(object: &mut Map, old: &Map) {
    let is_same = |name: &String, of: &Map, value: &serde_json::Value| of.get(name) == Some(value);
    let is_unchanged = object.len() == old.len()
        && object.iter().all(|(name, value)| name == "metadata" || is_same(name, old, value));
    let [metadata, before] = [&*object, old].map(meta::of);
    let is_unchanged = is_unchanged
        && metadata.len() == before.len()
        && metadata.iter().all(|(name, value)| name == MANAGED_FIELDS || is_same(name, before, value));
    let [new, was] = [metadata, before].map(|metadata| metadata.get(MANAGED_FIELDS));
    let differ_in_times = |(new, was)| new != was && kinds::apply::differ_in_times_only(new, was);
    if is_unchanged && new.zip(was).is_some_and(differ_in_times) {
        meta::copy(object, MANAGED_FIELDS, old);
    }
}
