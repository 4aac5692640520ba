//! The ConfigMap by which servers behind this one authenticate clients as it does:
//! `kube-system/extension-apiserver-authentication`, with the keys of kube-apiserver.

use kinds::Map;
use kinds::resources::core::config_maps::CONFIG_MAPS;
use serde_json::{Value, json};

use super::authentication::Authentication;
use super::reload::AuthorityFiles;
use crate::http::status::Status;
use crate::registry::own_objects;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

impl Authentication {
    /// Writes the authorities of clients and front proxies, and which headers front proxies may set.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn publish(&self, files: &AuthorityFiles) -> Result<(), Status> {
        let mut data = Map::new();
        data.insert("client-ca-file".to_owned(), files.clients_pem().into());
        if let (Some(front_proxy), Some(authorities)) = (&self.front_proxy, files.front_proxies_pem()) {
            data.insert("requestheader-client-ca-file".to_owned(), authorities.into());
            for (key, names) in front_proxy.told() {
                data.insert(format!("requestheader-{key}"), Value::String(json!(names).to_string()));
            }
        }
        let object = own_objects::named(NAME, &json!({}), json!({ "data": data }));
        own_objects::keep(&self.backend, &CONFIG_MAPS, NAMESPACE, &object).await
    }
}
