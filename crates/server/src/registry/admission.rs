//! The interface of admission. The registry calls it before writes; the plugins are in `crate::admission`.

use std::pin::Pin;

use kinds::resource::{Part, Resource};
use kinds::{Kinds, Map};
use policy::User;
pub(crate) use policy::restriction::Operation;
use portcullis_apimachinery::field_error::FieldError;
use portcullis_store::Store as _;

use super::backend::Backend;
use super::options::{DeleteOptions, WriteOptions};
use super::reservation::Reservation;
use super::storage;
use super::target::Target;
use crate::http::status::{Cause, Status};

/// An answer, once everything that it takes has been looked up.
pub(crate) type Answered<'r> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'r>>;

/// What is taken from quotas, once they have been looked up.
pub(crate) type Reserved<'r> = Pin<Box<dyn Future<Output = Result<Reservation, Status>> + Send + 'r>>;

/// Whether a write may be shown to somebody, once their configurations have been looked up.
pub(crate) type MayShow<'r> = Pin<Box<dyn Future<Output = Result<bool, Status>> + Send + 'r>>;

/// The errors of an object's fields, once everything that the check reads has been looked up.
pub(crate) type FieldErrors<'r> = Pin<Box<dyn Future<Output = Vec<FieldError>> + Send + 'r>>;

/// Asked before a write. Every refusal is the answer to the request.
pub(crate) trait Admission: Sync {
    /// Mutating admission, before the object is validated. May change the object.
    fn admit<'r>(&'r self, attributes: &'r mut AdmissionAttributes<'_>) -> Answered<'r>;

    /// Validating admission, after the object was validated (CS-49).
    fn validate<'r>(&'r self, attributes: &'r AdmissionAttributes<'_>) -> Answered<'r>;

    /// What the write takes from the ResourceQuotas of its namespace. Asked last, right before the object is stored.
    fn reserve<'r>(&'r self, attributes: &'r AdmissionAttributes<'_>) -> Reserved<'r>;

    /// Whether webhooks or policies may be shown the objects of this update, which need not be known yet. If not, none is shown
    /// them until this is asked again, also if one is configured meanwhile.
    fn may_show<'r>(&'r self, attributes: &'r AdmissionAttributes<'_>) -> MayShow<'r>;

    /// Whether the user may write this role or binding, in place of what is stored (RB-50 to RB-64), or create this
    /// namespace.
    fn check_escalation<'r>(
        &'r self,
        target: &'r Target<'_>,
        new: &'r Map,
        old: Option<&'r Map>,
    ) -> Answered<'r>;

    /// The parts of the status of a resource claim that the user may not change (NR-110).
    fn check_claim_status<'r>(&'r self, new: &'r Map, old: &'r Map) -> FieldErrors<'r>;

    /// Whether the user has the permission for another verb on the object of the request as well, such as `create` for an update
    /// that creates (AP-41).
    fn allow_also(&self, verb: &'static str) -> Answered<'_>;
}

/// The options of a write.
#[derive(Clone, Copy)]
pub(crate) enum Options<'a> {
    /// Of a create, an update or a patch.
    Write(&'a WriteOptions),
    /// Of a delete.
    Delete(&'a DeleteOptions),
}

impl Options<'_> {
    /// Whether nothing will be stored.
    pub(crate) fn is_dry_run(self) -> bool {
        match self {
            Self::Write(options) => options.is_dry_run,
            Self::Delete(options) => options.is_dry_run,
        }
    }
}

impl<'a> From<&'a WriteOptions> for Options<'a> {
    fn from(options: &'a WriteOptions) -> Self {
        Self::Write(options)
    }
}

impl<'a> From<&'a DeleteOptions> for Options<'a> {
    fn from(options: &'a DeleteOptions) -> Self {
        Self::Delete(options)
    }
}

/// A write under review.
pub(crate) struct AdmissionAttributes<'a> {
    /// The other stored objects.
    pub(crate) backend: &'a Backend,
    /// The kinds that are served.
    pub(crate) kinds: &'a Kinds,
    pub(crate) operation: Operation,
    pub(crate) user: &'a User,
    pub(crate) resource: &'static Resource,
    /// The kind in the version of the path.
    pub(crate) served: &'static Resource,
    /// The part of the object that the request is about, if it is not all of it.
    pub(crate) part: Option<&'static Part>,
    /// The subresource, or empty.
    pub(crate) subresource: &'static str,
    /// The namespace, or empty.
    pub(crate) namespace: &'a str,
    /// The name from the request; empty while it is still to be generated.
    pub(crate) name: &'a str,
    /// The options of the request.
    pub(crate) options: Options<'a>,
    /// The new object of a create or an update. For subresources with documents of their own, that document.
    pub(crate) object: Option<&'a mut Map>,
    /// The stored object of an update or a delete.
    pub(crate) old: Option<&'a Map>,
}

impl AdmissionAttributes<'_> {
    /// Reads another object; none if it does not exist.
    pub(crate) async fn stored(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Map>, Status> {
        let key = storage::key(resource, namespace, name);
        let found = self.backend.get(&key).await.map_err(|error| storage::failed(&error))?;
        found.map(|entry| storage::decode(&entry.value)).transpose()
    }

    /// Reads all objects of a kind.
    pub(crate) async fn all(&self, resource: &'static Resource) -> Result<Vec<Map>, Status> {
        storage::all(self.backend, resource).await
    }

    /// Returns a 403 error for this request. If the request has no name, the name of the object or its name prefix is
    /// used.
    pub(crate) fn forbidden(&self, why: &str, causes: Vec<Cause>) -> Status {
        let metadata = self.object.as_ref().and_then(|object| object.get("metadata"));
        let text = |field: &str| metadata.and_then(|m| m.get(field)).and_then(|v| v.as_str());
        let name = [Some(self.name), text("name"), text("generateName")]
            .into_iter()
            .flatten()
            .find(|name| !name.is_empty())
            .unwrap_or("Unknown");
        Status::not_admitted(self.resource.group, self.resource.plural, name, why, causes)
    }
}
