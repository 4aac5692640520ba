//! Bootstrap tokens (AN-100 to AN-104), by which a machine authenticates before it has an identity of its own.
//!
//! Every request reads the store, so a token is invalid as soon as its secret is deleted, changed or expired.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use kinds::Map;
use kinds::decode::bytes;
use kinds::resources::core::secrets::SECRETS;
use policy::User;
use portcullis_apimachinery::time::Instant;
use portcullis_store::Store as _;
use subtle::ConstantTimeEq as _;

use super::caller::join_authenticated;
use super::token_error::TokenError;
use crate::registry::backend::Backend;
use crate::registry::{meta, storage};

/// The namespace of the token secrets.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The name prefix of the token secrets.
pub(crate) const NAME_PREFIX: &str = "bootstrap-token-";
/// The type of the token secrets.
pub(crate) const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;

/// Authenticates bootstrap tokens against the secrets in a store.
pub struct BootstrapTokens {
    backend: Arc<Backend>,
}

impl BootstrapTokens {
    /// Creates the authenticator for a store.
    pub fn new(backend: Arc<Backend>) -> Self {
        Self { backend }
    }

    /// Returns the user of a token; none if it is not a valid bootstrap token (AN-102).
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn user(&self, token: &[u8], now: SystemTime) -> Result<Option<User>, TokenError> {
        let Some((id, secret)) = parse(token) else { return Ok(None) };
        let key = storage::key(&SECRETS, NAMESPACE, &format!("{NAME_PREFIX}{id}"));
        let Some(entry) = self.backend.get(&key).await.map_err(|_| TokenError::Store)? else {
            return Ok(None);
        };
        let stored = storage::decode(&entry.value).map_err(|_| TokenError::Store)?;
        Ok(user(&stored, id, secret, now))
    }
}

/// Parses the ID and the secret of a token (AN-100).
fn parse(token: &[u8]) -> Option<(&str, &[u8])> {
    let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (id, rest) = token.split_at_checked(ID_LENGTH)?;
    let (b'.', secret) = rest.split_first()? else { return None };
    let is_token = secret.len() == SECRET_LENGTH && id.iter().chain(secret).all(is_inner);
    let id = std::str::from_utf8(id).ok()?;
    is_token.then_some((id, secret))
}

/// Returns the user of a token secret, if the token matches it (AN-101 to AN-104).
fn user(stored: &Map, id: &str, secret: &[u8], now: SystemTime) -> Option<User> {
    // A value that cannot be decoded authenticates nobody.
    let field = |name| bytes(stored, "data", name).ok();
    let is_of_type = stored.get("type").and_then(|kind| kind.as_str()) == Some(SECRET_TYPE);
    if !is_of_type
        || meta::is_terminating(stored)
        || field("token-id")? != id.as_bytes()
        || !bool::from(field("token-secret")?.ct_eq(secret))
        || field("usage-bootstrap-authentication")? != b"true"
        || expires(stored).is_some_and(|end| end <= now_instant(now))
    {
        return None;
    }
    let extra = String::from_utf8(field("auth-extra-groups")?).ok()?;
    let mut groups = BTreeSet::from([GROUP]);
    if !extra.is_empty() {
        for group in extra.split(',') {
            groups.insert(Some(group).filter(|group| is_group(group))?);
        }
    }
    let mut user = User::new(format!("system:bootstrap:{id}"), groups);
    join_authenticated(&mut user);
    Some(user)
}

/// Returns the expiration of a token; none if it never expires. An invalid time counts as expired (AN-101).
pub(crate) fn expires(stored: &Map) -> Option<Instant> {
    match bytes(stored, "data", "expiration").as_deref() {
        Ok([]) => None,
        Err(_) => Some(Instant::ZERO),
        Ok(text) => {
            let parsed = std::str::from_utf8(text).ok().and_then(|text| Instant::parse(text).ok());
            Some(parsed.unwrap_or(Instant::ZERO))
        }
    }
}

/// Converts a time to the form of objects.
pub(crate) fn now_instant(now: SystemTime) -> Instant {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Instant { seconds, nanoseconds: since.subsec_nanos() }
}

/// Returns whether holders of a token may be in this group (AN-103).
pub fn is_group(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("system:bootstrappers:") else { return false };
    let is_last = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_inner = |byte: u8| is_last(byte) || matches!(byte, b':' | b'-');
    (1..=256).contains(&rest.len())
        && rest.bytes().all(is_inner)
        && rest.bytes().next_back().is_some_and(is_last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_the_form_of_a_token_is_one_an_100() {
        assert_eq!(parse(b"abc123.0123456789abcdef"), Some(("abc123", b"0123456789abcdef".as_slice())));
        for other in [
            "",
            ".",
            "abc123",
            "abc123.",
            "abc123.0123456789abcde",
            "abc123.0123456789abcdef0",
            "Abc123.0123456789abcdef",
            "abc12.0123456789abcdef",
            "abc123-0123456789abcdef",
            "abc123.0123456789abcde\n",
            "ab/../.0123456789abcdef",
        ] {
            assert_eq!(parse(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn groups_of_bootstrappers_have_a_form_an_103() {
        let longest = format!("system:bootstrappers:{}", "a".repeat(256));
        for good in
            ["system:bootstrappers:a", "system:bootstrappers:a:b-9", "system:bootstrappers::a", &longest]
        {
            assert!(is_group(good), "{good}");
        }
        for bad in [
            "",
            "system:masters",
            "system:bootstrappers",
            "system:bootstrappers:",
            "system:bootstrappers:A",
            "system:bootstrappers:a-",
            "system:bootstrappers:a:",
            " system:bootstrappers:a",
            &format!("{longest}a"),
        ] {
            assert!(!is_group(bad), "{bad}");
        }
    }

    #[test]
    fn a_token_is_over_at_its_time_and_when_that_cannot_be_read_an_101() {
        use base64::Engine as _;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let at = |expiration: &str, seconds| {
            let secret = serde_json::json!({"type": SECRET_TYPE, "metadata": {}, "data": {
                "token-id": encode("abc123"), "token-secret": encode("0123456789abcdef"),
                "usage-bootstrap-authentication": encode("true"), "expiration": encode(expiration)}});
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            user(secret.as_object().unwrap(), "abc123", b"0123456789abcdef", now).is_some()
        };
        // 1970-01-02T00:00:00Z is 86400.
        assert!(at("1970-01-02T00:00:00Z", 86_399));
        assert!(!at("1970-01-02T00:00:00Z", 86_400));
        assert!(at("1970-01-02T00:00:00-01:00", 89_999));
        assert!(!at("1970-01-02T00:00:00-01:00", 90_000));
        assert!(at("", 86_400));
        for text in ["tomorrow", " ", "1970-01-02", "9999-01-01 00:00:00Z", "9999-01-01T00:00:00"] {
            assert!(!at(text, 0), "{text:?}");
        }
    }
}
