//! Keeps a token for the account that bootstraps nodes. When its secret is deleted, which revokes the token (NB-33),
//! this controller creates an empty one, and the token controller fills in a new token (NB-34).
//!
//! It acts only on accounts with the annotation [`KEEP_TOKEN`].

use std::sync::Arc;

use kinds::Map;
use kinds::resources::core::secrets::{ACCOUNT_ANNOTATION, ACCOUNT_TOKEN, SECRETS};
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use portcullis_store::Event;
use serde_json::{Value, json};

use super::runner::{Controller, Next};
use super::service_accounts::is_in_use;
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::bootstrap_authorities::KEEP_TOKEN;
use crate::registry::{meta, storage, write};

/// See the module.
pub(super) struct BootstrapAccount {
    backend: Arc<Backend>,
    namespace: String,
    name: String,
    /// The keys of the account and of the secret.
    account: Box<str>,
    secret: Box<str>,
    secret_name: String,
}

impl BootstrapAccount {
    /// Creates the controller for the account of this namespace and name.
    pub(super) fn new(backend: Arc<Backend>, (namespace, name): (String, String)) -> Self {
        let secret_name = format!("{name}-token");
        Self {
            backend,
            account: storage::key(&SERVICE_ACCOUNTS, &namespace, &name),
            secret: storage::key(&SECRETS, &namespace, &secret_name),
            namespace,
            name,
            secret_name,
        }
    }

    fn empty_secret(&self) -> Map {
        let mut secret = Map::new();
        meta::set(&mut secret, "name", self.secret_name.as_str());
        meta::set(&mut secret, "annotations", json!({ ACCOUNT_ANNOTATION: self.name }));
        secret.insert("type".to_owned(), ACCOUNT_TOKEN.into());
        secret
    }
}

impl Controller for BootstrapAccount {
    const NAME: &'static str = "bootstrap-account-controller";
    const LISTED: &'static str = "/core/serviceaccounts/";
    const WATCHED: &'static str = "/core/";

    type Keys = Option<String>;

    fn concerns(&self, event: &Event) -> Option<String> {
        let is_gone = event.entry.is_none() && *event.key() == *self.secret;
        let is_account = event.entry.is_some() && *event.key() == *self.account;
        (is_gone || is_account).then(String::new)
    }

    async fn reconcile(&self, _item: &str) -> Result<Next, Status> {
        let Some(account) =
            write::find(&self.backend, &SERVICE_ACCOUNTS, &self.namespace, &self.name).await?
        else {
            return Ok(Next::OnChange);
        };
        let annotations = meta::of(&account.object).get("annotations");
        let is_marked =
            annotations.and_then(|all| all.get(KEEP_TOKEN)).and_then(Value::as_str) == Some("true");
        if !is_marked
            || meta::is_terminating(&account.object)
            || !is_in_use(&self.backend, &self.namespace).await?
            || write::find(&self.backend, &SECRETS, &self.namespace, &self.secret_name).await?.is_some()
        {
            return Ok(Next::OnChange);
        }
        let secret = write::create(&SECRETS, &self.namespace, self.empty_secret(), write::CONTROLLERS)?;
        // A conflict means that the secret exists.
        if write::commit(&self.backend, vec![secret]).await? {
            tracing::info!(
                namespace = self.namespace,
                secret = self.secret_name,
                "creating a new bootstrap token"
            );
        }
        Ok(Next::OnChange)
    }
}
