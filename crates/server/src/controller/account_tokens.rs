//! Fills in the tokens of service account token secrets (AN-75), and deletes those whose service account is gone.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kinds::Map;
use kinds::decode::bytes;
use kinds::resources::core::secrets::{ACCOUNT_ANNOTATION, ACCOUNT_TOKEN, SECRETS};
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use portcullis_store::Event;
use serde_json::Value;

use super::runner::{Controller, Next};
use crate::authn::service_account::ServiceAccounts;
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::storage::Stored;
use crate::registry::{meta, write};

const UID_ANNOTATION: &str = "kubernetes.io/service-account.uid";

/// See the module.
pub(super) struct AccountTokens {
    accounts: Arc<ServiceAccounts>,
    /// The CA certificate of the API server, in PEM.
    authority: String,
    backend: Arc<Backend>,
}

impl AccountTokens {
    pub(super) fn new(backend: Arc<Backend>, accounts: Arc<ServiceAccounts>, authority: String) -> Self {
        Self { accounts, authority, backend }
    }
}

impl Controller for AccountTokens {
    const NAME: &'static str = "serviceaccount-token-controller";
    const LISTED: &'static str = "/core/secrets/";
    const WATCHED: &'static str = "/core/";

    type Keys = Option<String>;

    /// A secret's key is its namespace and name; all accounts of a namespace share the key without a name.
    fn concerns(&self, event: &Event) -> Option<String> {
        let key = event.key();
        if let Some(account) = key.strip_prefix("/core/serviceaccounts/") {
            let is_new_or_gone = event.previous.is_none() || event.entry.is_none();
            let (namespace, _) = account.split_once('/')?;
            return is_new_or_gone.then(|| format!("{namespace}/"));
        }
        let secret = key.strip_prefix("/core/secrets/")?;
        let value = &event.entry.as_ref()?.value;
        // Most secrets have other types and need not be parsed.
        memchr::memmem::find(value, ACCOUNT_TOKEN.as_bytes())?;
        Some(secret.to_owned())
    }

    async fn reconcile(&self, item: &str) -> Result<Next, Status> {
        let Some((namespace, name)) = item.split_once('/') else { return Ok(Next::OnChange) };
        if !name.is_empty() {
            if let Some(stored) = write::find(&self.backend, &SECRETS, namespace, name).await? {
                self.settle(namespace, stored).await?;
            }
            return Ok(Next::OnChange);
        }
        for entry in write::all(&self.backend, &SECRETS, namespace).await? {
            if memchr::memmem::find(&entry.value, ACCOUNT_TOKEN.as_bytes()).is_some() {
                self.settle(namespace, Stored::read(&SECRETS, entry)?).await?;
            }
        }
        Ok(Next::OnChange)
    }
}

impl AccountTokens {
    /// Reconciles one secret.
    async fn settle(&self, namespace: &str, stored: Stored) -> Result<(), Status> {
        let secret = &stored.object;
        if secret.get("type").and_then(Value::as_str) != Some(ACCOUNT_TOKEN) || meta::is_terminating(secret) {
            return Ok(());
        }
        let account = annotation(secret, ACCOUNT_ANNOTATION);
        let found = write::find(&self.backend, &SERVICE_ACCOUNTS, namespace, account).await?;
        let uid = found.as_ref().map(|found| meta::text(&found.object, "uid")).unwrap_or_default();
        let said = annotation(secret, UID_ANNOTATION);
        if uid.is_empty() || !said.is_empty() && said != uid {
            write::delete(&self.backend, &SECRETS, &stored).await?;
            return Ok(());
        }
        let Some(filled) = self.filled(namespace, account, uid, secret)? else { return Ok(()) };
        // After a conflict, the other change triggers the controller again.
        write::commit(
            &self.backend,
            vec![write::replace(&SECRETS, &stored.entry, filled, write::CONTROLLERS)?],
        )
        .await
        .map(drop)
    }

    /// Returns the secret with missing fields filled in; none if it is complete.
    fn filled(&self, namespace: &str, account: &str, uid: &str, secret: &Map) -> Result<Option<Map>, Status> {
        let mut filled = secret.clone();
        let data = filled.entry("data").or_insert_with(|| Map::new().into());
        let Some(data) = data.as_object_mut() else { return Ok(None) };
        // Invalid values count as missing and are filled in.
        let has = |key| bytes(secret, "data", key).is_ok_and(|kept| !kept.is_empty());
        let mut put = |key: &str, value: &str| data.insert(key.to_owned(), STANDARD.encode(value).into());
        if bytes(secret, "data", "ca.crt").ok().as_deref() != Some(self.authority.as_bytes()) {
            put("ca.crt", &self.authority);
        }
        if !has("namespace") {
            put("namespace", namespace);
        }
        if !has("token") {
            put("token", &self.accounts.legacy_token(namespace, account, uid, meta::text(secret, "name"))?);
        }
        meta::change(&mut filled, |metadata| {
            let annotations = metadata.entry("annotations").or_insert_with(|| Map::new().into());
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.insert(UID_ANNOTATION.to_owned(), uid.into());
            }
        });
        Ok((filled != *secret).then_some(filled))
    }
}

fn annotation<'o>(object: &'o Map, name: &str) -> &'o str {
    let annotations = meta::of(object).get("annotations");
    annotations.and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default()
}
