//! Service accounts: their tokens are signed here, and vouch for them here (AN-70 to AN-96).
//!
//! What a token depends on (the account, the pod, secret or node that it is bound to) is looked up for every request, so
//! that what is deleted is gone at once.
//!
//! DIVERGES: nothing is remembered of a token between requests (AN-54 keeps a success for ten seconds).

pub(crate) mod claims;
pub(crate) mod issue;
mod legacy;
mod verify;

use std::sync::Arc;
use std::time::SystemTime;

use pki::jwt::{PublicKey, SigningKey, UnverifiedToken};
use portcullis_pki as pki;

use self::legacy::Tracker;
use super::TokenError;
use super::tokens::{Vouched, shared};
use crate::backend::Backend;

/// Who issues tokens unless it is said otherwise, and whom they are for.
///
/// DIVERGES: kube-apiserver has no default and does not start without one.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc";
pub(crate) const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
pub(crate) const ACCOUNTS: &str = "system:serviceaccounts";

/// How tokens are issued and accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// `--service-account-issuer`: the first one issues, all are accepted (AN-81). Never empty.
    pub issuers: Vec<String>,
    /// `--api-audiences`: whom tokens are for that are meant for this server (AN-55). The issuers if empty.
    pub api_audiences: Vec<String>,
    /// `--service-account-max-token-expiration`, in seconds (AN-92).
    pub max_expiration: Option<i64>,
    /// `--service-account-extend-token-expiration` (AN-95).
    pub extends_expiration: bool,
    /// `--service-account-jwks-uri`: where others find the keys. By default below the first issuer.
    pub jwks_uri: Option<String>,
}

impl Default for Issuer {
    fn default() -> Self {
        Self {
            issuers: vec![DEFAULT_ISSUER.to_owned()],
            api_audiences: Vec::new(),
            max_expiration: None,
            extends_expiration: true,
            jwks_uri: None,
        }
    }
}

/// The service accounts of a store, and their tokens.
pub struct ServiceAccounts {
    backend: Arc<Backend>,
    issuer: Issuer,
    /// Every key whose tokens are accepted; the signing key is one of them.
    keys: Vec<PublicKey>,
    signing: SigningKey,
    tracker: Tracker,
}

impl ServiceAccounts {
    /// Signs with a key, and accepts what it or one of the others has signed (AN-71).
    pub fn new(
        backend: Arc<Backend>,
        signing: SigningKey,
        others: Vec<PublicKey>,
        mut issuer: Issuer,
    ) -> Self {
        if issuer.issuers.is_empty() {
            issuer.issuers = Issuer::default().issuers;
        }
        if issuer.api_audiences.is_empty() {
            issuer.api_audiences.clone_from(&issuer.issuers);
        }
        let mut keys = vec![signing.public().clone()];
        for key in others {
            if !keys.iter().any(|known| known.id() == key.id()) {
                keys.push(key);
            }
        }
        let tracker = Tracker::new(Arc::clone(&backend));
        Self { backend, issuer, keys, signing, tracker }
    }

    /// Whom tokens are for that are meant for this server.
    pub fn api_audiences(&self) -> &[String] {
        &self.issuer.api_audiences
    }

    /// How tokens are issued and accepted.
    pub fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// The keys whose tokens are accepted.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// For whom a token vouches; nothing for a token of another issuer (AN-70).
    ///
    /// # Errors
    /// One of ours, but not a good one.
    pub(super) async fn vouch(
        &self,
        token: &[u8],
        wanted: &[String],
        now: SystemTime,
    ) -> Result<Option<Vouched>, TokenError> {
        let Some(unverified) = UnverifiedToken::read(token) else { return Ok(None) };
        let is_legacy = unverified.issuer() == claims::LEGACY_ISSUER;
        if !is_legacy && !self.issuer.issuers.iter().any(|issuer| issuer == unverified.issuer()) {
            return Ok(None);
        }
        let verified = unverified.verify(&self.keys)?;
        let now = crate::authn::bootstrap_token::now_instant(now).seconds;
        let claims::Audience { aud } = verified.claims()?;
        // AN-73; of requested tokens see `claims::Bound`.
        let audiences = match aud.is_empty() && is_legacy {
            true => self.issuer.api_audiences.clone(),
            false => aud,
        };
        let accepted = shared(&audiences, wanted);
        if accepted.is_empty() {
            return Err(TokenError::Audience { tokens: audiences, wanted: wanted.to_owned() });
        }
        let (user, warning) = match is_legacy {
            true => self.legacy_user(token, verified.claims()?, now).await?,
            false => (self.bound_user(verified.claims()?, now).await?, None),
        };
        Ok(Some(Vouched::new(Arc::new(user), accepted, warning)))
    }
}
