//! Admission: what is asked of a write beyond whether the caller may make it. Plugins look at the object, and those of
//! the first round may change it.
//!
//! The order of `PLUGINS` is that of kube-apiserver. The first refusal is the answer.
//!
//! DIVERGES: NodeRestriction is on unless it is switched off. kube-apiserver has it off unless it is switched on, and a
//! node may then write any Node and any pod.

mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod default_storage_class;
mod default_toleration_seconds;
mod namespace_lifecycle;
mod node_restriction;
mod persistent_volume_claim_resize;
mod plugins;
mod pod_topology_labels;
mod priority;
mod runtime_class;
mod service_account;

use std::pin::Pin;

use kinds::Map;
use kinds::resource::Resource;
use policy::User;
pub(crate) use policy::restriction::Operation;
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use portcullis_store::Store as _;

pub use self::plugins::{AdmissionPlugins, PluginError};
use super::storage;
use crate::backend::Backend;
use crate::service::App;
use crate::status::{Cause, Status};

/// Every plugin, in order. One that is not here is never asked. What TaintNodesByCondition and
/// StorageObjectInUseProtection do to every new object of a kind, that kind's `prepare_create` does.
static PLUGINS: &[&dyn Plugin] = &[
    &namespace_lifecycle::NamespaceLifecycle,
    &service_account::ServiceAccount,
    &node_restriction::NodeRestriction,
    &priority::Priority,
    &default_toleration_seconds::DefaultTolerationSeconds,
    &default_storage_class::DefaultStorageClass,
    &persistent_volume_claim_resize::PersistentVolumeClaimResize,
    &runtime_class::RuntimeClass,
    &certificate_approval::CertificateApproval,
    &certificate_signing::CertificateSigning,
    &certificate_subject_restriction::CertificateSubjectRestriction,
    &pod_topology_labels::PodTopologyLabels,
];

/// A write under review.
pub(crate) struct Review<'a> {
    pub(crate) app: &'a App,
    /// What else is stored.
    pub(crate) backend: &'a Backend,
    pub(crate) operation: Operation,
    pub(crate) user: &'a User,
    pub(crate) resource: &'static Resource,
    /// The subresource, or empty.
    pub(crate) subresource: &'static str,
    /// The namespace, or empty.
    pub(crate) namespace: &'a str,
    /// The name that the endpoint found; empty while it is still to be generated.
    pub(crate) name: &'a str,
    /// The object as it is to be: of a create or an update. For subresources with documents of their own, that document.
    pub(crate) object: Option<&'a mut Map>,
    /// The object as it is stored: of an update or a delete.
    pub(crate) old: Option<&'a Map>,
}

impl Review<'_> {
    /// Whether this is about objects of a kind, and not about what is below them.
    pub(crate) fn is_of(&self, group: &str, plural: &str) -> bool {
        self.resource.group == group && self.resource.plural == plural && self.subresource.is_empty()
    }

    /// Another object, if it is there.
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

    /// All objects of a kind.
    pub(crate) async fn all(&self, resource: &'static Resource) -> Result<Vec<Map>, Status> {
        storage::all(self.backend, resource).await
    }

    /// 403 for this request. Without a name, that of the object counts, or its prefix.
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

/// What a plugin says, once it has looked up what it must.
pub(crate) type Verdict<'r> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'r>>;

/// Something that must be asked before a write. The names are those of `--enable-admission-plugins`.
pub(crate) trait Plugin: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Whether it has anything to say about such a write. Nothing else is called when it has not.
    fn handles(&self, review: &Review<'_>) -> bool;

    /// The first round, before the object is validated: may change it.
    fn admit<'r>(&'r self, _review: &'r mut Review<'_>) -> Verdict<'r> {
        Box::pin(async { Ok(()) })
    }

    /// The second round, once the object is valid.
    fn validate<'r>(&'r self, _review: &'r Review<'_>) -> Verdict<'r> {
        Box::pin(async { Ok(()) })
    }
}

/// The plugins in force, in order.
fn asked(review: &Review<'_>) -> impl Iterator<Item = &'static dyn Plugin> + use<> {
    let enabled = review.app.admission();
    PLUGINS
        .iter()
        .copied()
        .enumerate()
        .filter(move |(place, _)| enabled.has(*place))
        .map(|(_, plugin)| plugin)
}

/// The first round: before validation.
///
/// # Errors
/// The first refusal.
pub(crate) async fn admit(review: &mut Review<'_>) -> Result<(), Status> {
    for plugin in asked(review) {
        if plugin.handles(review) {
            plugin.admit(review).await?;
        }
    }
    Ok(())
}

/// The second round: after validation.
///
/// # Errors
/// The first refusal.
pub(crate) async fn validate(review: &Review<'_>) -> Result<(), Status> {
    for plugin in asked(review) {
        if plugin.handles(review) {
            plugin.validate(review).await?;
        }
    }
    Ok(())
}
