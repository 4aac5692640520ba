//! Every namespace has a service account `default`.

use std::sync::Arc;

use kinds::Map;
use kinds::resources::core::namespaces::NAMESPACES;
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use portcullis_kinds as kinds;
use portcullis_store::Event;

use super::runner::{Controller, Next};
use crate::api::rest::{meta, storage};
use crate::backend::Backend;
use crate::cluster::write;
use crate::status::Status;

const NAME: &str = "default";

/// See the module.
pub(super) struct ServiceAccounts {
    backend: Arc<Backend>,
}

impl ServiceAccounts {
    pub(super) fn new(backend: Arc<Backend>) -> Self {
        Self { backend }
    }
}

impl Controller for ServiceAccounts {
    const NAME: &'static str = "serviceaccount-controller";
    const LISTED: &'static str = "/core/namespaces/";
    const WATCHED: &'static str = "/core/";

    fn concerns(&self, event: &Event) -> Option<String> {
        changed_namespace(event).or_else(|| {
            let is_gone = event.entry.is_none();
            let namespace = namespace_of(event.key(), "/core/serviceaccounts/", NAME);
            namespace.filter(|_| is_gone).map(str::to_owned)
        })
    }

    async fn reconcile(&self, namespace: &str) -> Result<Next, Status> {
        if !is_in_use(&self.backend, namespace).await?
            || write::find(&self.backend, &SERVICE_ACCOUNTS, namespace, NAME).await?.is_some()
        {
            return Ok(Next::OnChange);
        }
        let mut account = Map::new();
        meta::set(&mut account, "name", NAME);
        let account = write::create(&SERVICE_ACCOUNTS, namespace, account)?;
        // If somebody else was faster, it is there.
        write::commit(&self.backend, vec![account]).await?;
        Ok(Next::OnChange)
    }
}

/// The namespace that a change made or changed.
pub(super) fn changed_namespace(event: &Event) -> Option<String> {
    let entry = event.entry.as_ref()?;
    let name = entry.key.strip_prefix(storage::prefix(&NAMESPACES, "").as_str())?;
    Some(name.to_owned())
}

/// The namespace of a key of an object with this name.
pub(super) fn namespace_of<'k>(key: &'k str, prefix: &str, name: &str) -> Option<&'k str> {
    key.strip_prefix(prefix)?.strip_suffix(name)?.strip_suffix('/')
}

/// Whether there is a namespace that is not going.
///
/// # Errors
/// The store failed.
pub(super) async fn is_in_use(backend: &Backend, namespace: &str) -> Result<bool, Status> {
    let stored = write::find(backend, &NAMESPACES, "", namespace).await?;
    Ok(stored.is_some_and(|stored| !meta::is_terminating(&stored.object)))
}
