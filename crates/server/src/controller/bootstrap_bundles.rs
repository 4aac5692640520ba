//! Emits events on the ConfigMap for bootstrap authorities that are not trusted, with the reason (NB-16, NB-25).

use std::sync::Arc;

use kinds::resources::core::config_maps::CONFIG_MAPS;
use portcullis_store::Event;

use super::events::{self, Report};
use super::runner::{Controller, Next};
use super::service_accounts::is_in_use;
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::bootstrap_authorities::{ACKNOWLEDGE, Inventory, LIST_NAME, LIST_NAMESPACE, Settings};
use crate::registry::{storage, write};

/// See the module.
pub(super) struct BootstrapBundles {
    backend: Arc<Backend>,
    /// The keys of the ConfigMaps.
    sources: Vec<Box<str>>,
}

impl BootstrapBundles {
    /// Creates the controller for the ConfigMaps of these settings.
    pub(super) fn new(backend: Arc<Backend>, settings: &Settings) -> Self {
        let places = settings.config_maps.iter();
        let sources = places.map(|(namespace, name)| storage::key(&CONFIG_MAPS, namespace, name));
        Self { backend, sources: sources.collect() }
    }
}

impl Controller for BootstrapBundles {
    const NAME: &'static str = "bootstrap-bundle-controller";
    const LISTED: &'static str = "/core/configmaps/";
    const WATCHED: &'static str = Self::LISTED;

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        let key = &event.entry.as_ref()?.key;
        self.sources.contains(key).then(|| key.clone().into())
    }

    async fn reconcile(&self, key: &str) -> Result<Next, Status> {
        let (namespace, name) = storage::place(&CONFIG_MAPS, key);
        let Some(found) = write::find(&self.backend, &CONFIG_MAPS, namespace, name).await? else {
            return Ok(Next::OnChange);
        };
        if !is_in_use(&self.backend, namespace).await? {
            return Ok(Next::OnChange);
        }
        let list = write::find(&self.backend, &CONFIG_MAPS, LIST_NAMESPACE, LIST_NAME).await?;
        let inventory = Inventory::read([(name, &found.object)], list.as_ref().map(|list| &list.object));
        let passed_over = inventory.faults.iter().map(|(_, fault)| ("AuthorityPassedOver", fault.clone()));
        let revoked = inventory.authorities.iter().filter(|one| one.is_revoked && !one.held_by.is_empty());
        let revoked = revoked.map(|one| {
            let text = format!(
                "the authority with SHA-256 digest {} was revoked and stays so; annotation {ACKNOWLEDGE} with its digest \
                 would let it in again",
                one.sha256
            );
            ("AuthorityRevoked", text)
        });
        for (reason, message) in passed_over.chain(revoked) {
            let report = Report { component: "portcullis", severity: "Warning", reason, message: &message };
            events::report(&self.backend, &CONFIG_MAPS, &found.object, &report).await?;
        }
        Ok(Next::OnChange)
    }
}
