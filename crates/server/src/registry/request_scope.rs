//! A request about objects that was allowed: what it is about, for whom, and what must be asked before a write.

use std::sync::Arc;
use std::time::Duration;

use kinds::apply::ManagedFieldsText;
use kinds::resource::{Part, Update};
use kinds::resources::core::services::ServiceRanges;
use kinds::resources::dra::RESOURCE_CLAIMS;
use kinds::{Kinds, Map};
use policy::User;
use portcullis_apimachinery::field_error::FieldError;
use portcullis_store::{Entry, List, Listing, Revision, Standing, Store as _, Value};
use tokio::sync::Mutex;

use super::admission::{Admission, AdmissionAttributes, Operation, Options};
use super::backend::Backend;
use super::list_options::revision;
use super::options::WriteOptions;
use super::reservation::Reservation;
use super::target::Target;
use super::{freshness, storage};
use crate::http::status::Status;

/// The maximum time that a read waits for a revision that has not been reached yet (AP-72).
const FRESHNESS: Duration = Duration::from_secs(3);

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct RequestScope<'a> {
    /// Where objects are kept.
    pub(crate) backend: &'a Backend,
    /// The admission of writes.
    pub(crate) admission: &'a dyn Admission,
    /// The user who makes the request.
    pub(crate) user: &'a User,
    /// The object or collection of the request.
    pub(crate) target: Target<'a>,
    /// The part of the target that clients read and write, if it is not all of it.
    pub(crate) part: Option<&'static Part>,
    /// The update strategy of the target.
    pub(crate) update: Update,
    /// The key and the revision of the definition by which a custom kind is read and checked.
    pub(crate) definition: Option<&'a (Box<str>, Revision)>,
    /// The kinds that are served.
    pub(crate) kinds: &'a Kinds,
    /// Held while an object gets what all objects of its kind share, until it is stored: no two services get the same
    /// address.
    pub(crate) allocating: &'a Mutex<()>,
    /// Where services get their addresses and node ports from.
    pub(crate) service_ranges: &'a ServiceRanges,
}

impl RequestScope<'_> {
    /// The same request about one object of a collection.
    pub(crate) fn about<'b>(&'b self, namespace: &'b str, name: &'b str) -> RequestScope<'b> {
        RequestScope { target: Target { namespace, name, ..self.target }, ..*self }
    }

    /// A write of this request, as admission sees it.
    fn attributes<'r>(
        &'r self,
        operation: Operation,
        name: &'r str,
        options: Options<'r>,
        object: Option<&'r mut Map>,
        old: Option<&'r Map>,
    ) -> AdmissionAttributes<'r> {
        AdmissionAttributes {
            backend: self.backend,
            kinds: self.kinds,
            operation,
            user: self.user,
            resource: self.target.resource,
            served: self.target.served,
            part: self.part,
            subresource: self.target.subresource.map_or("", |subresource| subresource.name),
            namespace: self.target.namespace,
            name,
            options,
            object,
            old,
        }
    }

    /// The first round of admission, before validation: it may change the object.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn admit<'r>(
        &'r self,
        operation: Operation,
        name: &'r str,
        options: impl Into<Options<'r>>,
        object: Option<&'r mut Map>,
        old: Option<&'r Map>,
    ) -> Result<(), Status> {
        self.admission.admit(&mut self.attributes(operation, name, options.into(), object, old)).await
    }

    /// The second round of admission, after validation.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn validate<'r>(
        &'r self,
        operation: Operation,
        name: &'r str,
        options: impl Into<Options<'r>>,
        object: Option<&'r mut Map>,
        old: Option<&'r Map>,
    ) -> Result<(), Status> {
        self.admission.validate(&self.attributes(operation, name, options.into(), object, old)).await
    }

    /// What a write takes from the quotas of its namespace: the last question before the object is stored.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn reserve<'r>(
        &'r self,
        operation: Operation,
        name: &'r str,
        options: impl Into<Options<'r>>,
        object: Option<&'r mut Map>,
        old: Option<&'r Map>,
    ) -> Result<Reservation, Status> {
        self.admission.reserve(&self.attributes(operation, name, options.into(), object, old)).await
    }

    /// Whether webhooks or policies may be shown the objects of an update. If that cannot be told, they may.
    pub(super) async fn may_show_update(&self, options: &WriteOptions) -> bool {
        let attributes = self.attributes(Operation::Update, self.target.name, options.into(), None, None);
        self.admission.may_show(&attributes).await.unwrap_or(true)
    }

    /// Whether the user may hand on what this object grants. Kinds that grant no permissions pass.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn check_escalation(&self, new: &Map, old: Option<&Map>) -> Result<(), Status> {
        if !self.target.resource.grants_permissions {
            return Ok(());
        }
        self.admission.check_escalation(&self.target, new, old).await
    }

    /// The fields that the user may not change, of a kind with rights for parts of its status (NR-110).
    pub(super) async fn check_fields(&self, new: &Map, old: &Map) -> Vec<FieldError> {
        if !self.update.is_status || *self.target.resource.current() != RESOURCE_CLAIMS {
            return Vec::new();
        }
        self.admission.check_claim_status(new, old).await
    }

    /// The object's key.
    pub(crate) fn key(&self) -> Box<str> {
        storage::key(self.target.resource, self.target.namespace, self.target.name)
    }

    /// 404 for the object (AP-20).
    pub(crate) fn no_object(&self) -> Status {
        let resource = self.target.resource;
        Status::no_object(resource.group, resource.plural, self.target.name)
    }

    /// Waits until what a read asks for can be read: the newest state for no `resourceVersion`, what is in memory for `0`, and a
    /// state that is not older for another (ET-21).
    ///
    /// # Errors
    /// 400 for a revision that is not a number, 503, and 504 if it is not reached in time.
    pub(crate) async fn wait_for_read(
        &self,
        resource_version: &str,
        invalid: impl FnOnce(String) -> Status,
    ) -> Result<Option<Revision>, Status> {
        if resource_version.is_empty() {
            freshness::fresh(self.backend).await?;
            return Ok(None);
        }
        let asked = revision(resource_version).map_err(invalid)?;
        self.wait_for(asked).await?;
        Ok(asked)
    }

    /// Waits until the store reaches a revision.
    ///
    /// # Errors
    /// 504 if it does not in time (AP-72).
    pub(crate) async fn wait_for(&self, revision: Option<Revision>) -> Result<(), Status> {
        let Some(asked) = revision else { return Ok(()) };
        if self.backend.revision() < asked {
            // It may have been reached on another server.
            freshness::fresh(self.backend).await?;
        }
        let started = tokio::time::Instant::now();
        while self.backend.revision() < asked {
            if started.elapsed() >= FRESHNESS {
                return Err(Status::future(asked.0, self.backend.revision().0));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// The state of an entry in the store. Must be asked before a request that changes nothing succeeds: another server may have
    /// written meanwhile, and no commit would notice (ET-21).
    ///
    /// # Errors
    /// 503 if etcd does not answer in time.
    pub(super) async fn standing(&self, entry: &Entry) -> Result<Standing, Status> {
        self.backend.standing(entry).await.map_err(|error| storage::failed(&error))
    }

    /// Whether an entry is still the newest of its key. See [`Self::standing`].
    ///
    /// # Errors
    /// 503 if etcd does not answer in time.
    pub(super) async fn is_newest(&self, entry: &Entry) -> Result<bool, Status> {
        Ok(self.standing(entry).await? != Standing::Replaced)
    }

    /// Encodes an object for storage. If the definition of its kind is another one by then, its write conflicts.
    ///
    /// # Errors
    /// See [`storage::encode`].
    pub(crate) fn encode(&self, object: &Map) -> Result<Value, Status> {
        self.encode_with(object, None)
    }

    /// As [`Self::encode`], of an object whose `managedFields` are set aside.
    ///
    /// # Errors
    /// See [`storage::encode`].
    pub(super) fn encode_with(
        &self,
        object: &Map,
        managed_fields: Option<&ManagedFieldsText>,
    ) -> Result<Value, Status> {
        let value = storage::encode_with(self.target.resource, object, managed_fields)?;
        Ok(Value { relies_on: self.definition.cloned(), ..value })
    }

    /// The refusal of a write that conflicts about a key, if that is the definition of its kind.
    ///
    /// DIVERGES: kube-apiserver stores what the definition allowed when the request came.
    pub(crate) fn outdated(&self, key: &str) -> Option<Status> {
        let (definition, _) = self.definition?;
        let resource = self.target.resource;
        let why = "the definition of the kind has changed meanwhile; please try again";
        (**definition == *key)
            .then(|| Status::conflict(resource.group, resource.plural, self.target.name, why))
    }

    pub(crate) async fn stored(&self, key: &str) -> Result<Option<Arc<Entry>>, Status> {
        self.backend.get(key).await.map_err(|error| storage::failed(&error))
    }

    pub(crate) async fn listed(&self, list: &List) -> Result<Listing, Status> {
        self.backend.list(list).await.map_err(|error| storage::failed(&error))
    }
}
