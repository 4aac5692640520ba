//! Creates the service account `default` in every namespace.

use std::sync::Arc;

use kinds::Map;
use kinds::resources::core::namespaces::NAMESPACES;
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use portcullis_store::Event;

use super::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::{meta, storage, write};

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

    type Keys = Option<String>;

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
        let account = write::create(&SERVICE_ACCOUNTS, namespace, account, write::CONTROLLERS)?;
        // A conflict means that it exists.
        write::commit(&self.backend, vec![account]).await?;
        Ok(Next::OnChange)
    }
}

/// Returns the namespace that an event created or changed.
pub(super) fn changed_namespace(event: &Event) -> Option<String> {
    let entry = event.entry.as_ref()?;
    let name = entry.key.strip_prefix(storage::prefix(&NAMESPACES, "").as_str())?;
    Some(name.to_owned())
}

/// Returns the namespace in the key of an object with this name.
pub(super) fn namespace_of<'k>(key: &'k str, prefix: &str, name: &str) -> Option<&'k str> {
    key.strip_prefix(prefix)?.strip_suffix(name)?.strip_suffix('/')
}

/// Returns whether the namespace exists and is not terminating.
///
/// # Errors
/// The store failed.
pub(super) async fn is_in_use(backend: &Backend, namespace: &str) -> Result<bool, Status> {
    let stored = write::find(backend, &NAMESPACES, "", namespace).await?;
    Ok(stored.is_some_and(|stored| !meta::is_terminating(&stored.object)))
}
