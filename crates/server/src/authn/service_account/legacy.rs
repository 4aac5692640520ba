//! Legacy service account tokens, which are stored in secrets (AN-75 to AN-79). They are valid as long as their secret
//! exists.

use kinds::Map;
use kinds::decode::bytes;
use kinds::resources::core::secrets::SECRETS;
use kinds::resources::core::service_accounts::SERVICE_ACCOUNTS;
use policy::User;
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use super::accounts::ServiceAccounts;
use super::claims::{LEGACY_ISSUER, Legacy};
use super::tracker::LAST_USED;
use super::verify::user;
use crate::authn::token_error::TokenError;
use crate::http::status::Status;
use crate::registry::{meta, storage};

const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const DAY: i64 = 24 * 60 * 60;
/// AN-78
const MADE_BY_ITSELF: &str = "this token is from a secret that was made for the service account by itself: use requested \
                              tokens, or a secret that was made on purpose";

impl ServiceAccounts {
    /// Returns the user of a token with a valid signature, and a warning for the client.
    ///
    /// # Errors
    /// The secret or the account does not exist, or was replaced.
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
                "the token is invalid: its secret has the label {INVALID_SINCE}; remove the label to use it again"
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

    /// Issues the token of an account that is stored in a secret (AN-75).
    ///
    /// # Errors
    /// The token cannot be signed, or the system has no random numbers.
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

/// Formats the date of a time, in UTC.
fn day(seconds: i64) -> String {
    meta::time(seconds).split('T').next().unwrap_or_default().to_owned()
}
