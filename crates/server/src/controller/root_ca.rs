//! Publishes the CA certificate of the API server in a ConfigMap of every namespace, so that pods can verify the
//! server.

use std::sync::Arc;

use kinds::Map;
use kinds::resources::core::config_maps::CONFIG_MAPS;
use portcullis_store::Event;
use serde_json::{Value, json};

use super::runner::{Controller, Next};
use super::service_accounts::{changed_namespace, is_in_use, namespace_of};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::{meta, write};

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";

/// See the module.
pub(super) struct RootCa {
    backend: Arc<Backend>,
    /// The data of the ConfigMap.
    data: Value,
}

impl RootCa {
    /// Publishes a CA certificate, in PEM.
    pub(super) fn new(backend: Arc<Backend>, authority: String) -> Self {
        Self { backend, data: json!({"ca.crt": authority}) }
    }
}

impl Controller for RootCa {
    const NAME: &'static str = "root-ca-certificate-publisher-controller";
    const LISTED: &'static str = "/core/namespaces/";
    const WATCHED: &'static str = "/core/";

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        let own = || namespace_of(event.key(), "/core/configmaps/", NAME).map(str::to_owned);
        changed_namespace(event).or_else(own)
    }

    async fn reconcile(&self, namespace: &str) -> Result<Next, Status> {
        if !is_in_use(&self.backend, namespace).await? {
            return Ok(Next::OnChange);
        }
        let write = match write::find(&self.backend, &CONFIG_MAPS, namespace, NAME).await? {
            Some(stored) if stored.object.get("data") == Some(&self.data) => return Ok(Next::OnChange),
            Some(stored) => {
                let mut object = stored.object.clone();
                object.insert("data".to_owned(), self.data.clone());
                write::replace(&CONFIG_MAPS, &stored.entry, object, write::CONTROLLERS)?
            }
            None => write::create(&CONFIG_MAPS, namespace, self.config_map(), write::CONTROLLERS)?,
        };
        // After a conflict, the other change triggers the controller again.
        write::commit(&self.backend, vec![write]).await?;
        Ok(Next::OnChange)
    }
}

impl RootCa {
    fn config_map(&self) -> Map {
        let mut object = Map::new();
        let description = "The certificate authority of the API server as it is reached from inside the cluster. Nothing \
                           else is to be trusted because of it.";
        meta::set(&mut object, "name", NAME);
        meta::set(&mut object, "annotations", json!({ DESCRIPTION: description }));
        object.insert("data".to_owned(), self.data.clone());
        object
    }
}
