//! Tokens that are kept in secrets (AN-75 to AN-79). They have no end but that of their secret.

use std::sync::Arc;

use kinds::Map;
use kinds::resources::core::secrets::{ACCOUNT_TOKEN, SECRETS};
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use policy::User;
use portcullis_kinds as kinds;
use portcullis_policy as policy;
use portcullis_store::Entry;
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;

use super::ServiceAccounts;
use super::claims::{LEGACY_ISSUER, Legacy};
use super::verify::user;
use crate::api::rest::context::bytes;
use crate::api::rest::{meta, storage};
use crate::authn::TokenError;
use crate::backend::Backend;
use crate::cluster::write;
use crate::status::Status;

const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
const DAY: i64 = 24 * 60 * 60;
/// AN-78
const MADE_BY_ITSELF: &str = "this token is from a secret that was made for the service account by itself: use requested \
                              tokens, or a secret that was made on purpose";

impl ServiceAccounts {
    /// The user of a token whose signature is good, and what the client is to be told.
    ///
    /// # Errors
    /// Its secret or its account is gone, or not the same.
    pub(super) async fn legacy_user(
        &self,
        token: &[u8],
        claims: Legacy,
        now: i64,
    ) -> Result<(User, Option<&'static str>), TokenError> {
        let Legacy { namespace, secret: name, account, uid, sub, .. } = &claims;
        let user = user(namespace, account, uid);
        if [namespace, name, account, uid].into_iter().any(String::is_empty) || *sub != user.name {
            return Err(TokenError::Subject);
        }
        // AN-76
        let Some(entry) = self.entry(&SECRETS, namespace, name).await? else {
            return Err(TokenError::Invalidated);
        };
        let secret = storage::decode(&entry.value).map_err(|_| TokenError::Store)?;
        if meta::is_terminating(&secret) {
            return Err(TokenError::Invalidated);
        }
        if !bytes(&secret, "data", "token").is_ok_and(|kept| kept.ct_eq(token).into()) {
            return Err(TokenError::Refused("Token does not match server's copy".to_owned()));
        }
        let found = self.object(&SERVICE_ACCOUNTS, namespace, account).await?;
        let found = found.filter(|found| !meta::is_terminating(found)).ok_or(TokenError::Invalidated)?;
        if meta::text(&found, "uid") != uid {
            return Err(TokenError::Refused("the service account has another uid than the token".to_owned()));
        }
        // AN-77
        if !label(&secret, INVALID_SINCE).is_empty() {
            return Err(TokenError::Refused(format!(
                "the token is no longer good: its secret has the label {INVALID_SINCE}; to use it again, remove that"
            )));
        }
        // AN-78
        let used = label(&secret, LAST_USED);
        if used != day(now) && used != day(now.saturating_add(DAY)) {
            self.tracker.note(entry, day(now));
        }
        let secrets = found.get("secrets").and_then(Value::as_array).into_iter().flatten();
        let mut names = secrets.filter_map(|secret| secret.get("name").and_then(Value::as_str));
        let warning = names.any(|listed| listed == name).then_some(MADE_BY_ITSELF);
        Ok((user, warning))
    }

    /// The token of an account that is kept in a secret (AN-75).
    ///
    /// # Errors
    /// It cannot be signed, or the system has no randomness.
    pub(crate) fn legacy_token(
        &self,
        namespace: &str,
        account: &str,
        uid: &str,
        secret: &str,
    ) -> Result<String, Status> {
        let claims = Legacy {
            iss: LEGACY_ISSUER.to_owned(),
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
            account: account.to_owned(),
            uid: uid.to_owned(),
            jti: meta::new_uid()?,
            sub: user(namespace, account, uid).name,
        };
        self.signing.sign(&claims).map_err(Status::internal)
    }
}

fn label<'o>(object: &'o Map, name: &str) -> &'o str {
    let labels = meta::of(object).get("labels");
    labels.and_then(|labels| labels.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// The day of a time, in UTC.
fn day(seconds: i64) -> String {
    meta::time(seconds).split('T').next().unwrap_or_default().to_owned()
}

/// Notes in secrets when their tokens were used, beside the requests.
pub(super) struct Tracker {
    backend: Arc<Backend>,
    /// One note at a time: what is not noted now is noted at the next use.
    slot: Arc<Semaphore>,
}

impl Tracker {
    pub(super) fn new(backend: Arc<Backend>) -> Self {
        Self { backend, slot: Arc::new(Semaphore::new(1)) }
    }

    fn note(&self, entry: Arc<Entry>, day: String) {
        let Ok(slot) = Arc::clone(&self.slot).try_acquire_owned() else { return };
        let backend = Arc::clone(&self.backend);
        tokio::spawn(async move {
            if let Err(status) = write_down(&backend, &entry, &day).await {
                tracing::warn!(
                    key = &*entry.key,
                    error = status.message(),
                    "the use of a token is not noted"
                );
            }
            drop(slot);
        });
    }
}

async fn write_down(backend: &Backend, entry: &Entry, day: &str) -> Result<(), Status> {
    let mut secret = storage::decode(&entry.value)?;
    if secret.get("type").and_then(Value::as_str) != Some(ACCOUNT_TOKEN) {
        return Ok(());
    }
    meta::change(&mut secret, |metadata| {
        let labels = metadata.entry("labels").or_insert_with(|| Map::new().into());
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(LAST_USED.to_owned(), day.into());
        }
    });
    // If the secret was changed meanwhile, the next use is noted.
    write::commit(backend, vec![write::replace(&SECRETS, entry, secret)?]).await.map(drop)
}
