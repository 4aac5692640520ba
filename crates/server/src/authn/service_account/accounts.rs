//! Service account tokens: signing and verification (AN-70 to AN-96).
//!
//! The service account, and the pod, secret or node that a token is bound to, are looked up for every request. A
//! deleted object invalidates its tokens at once.
//!
//! DIVERGES: successful authentication is not cached (AN-54 caches it for ten seconds).

use std::sync::Arc;
use std::time::SystemTime;

use pki::jwt::{PublicKey, SigningKey, UnverifiedToken};

use super::claims;
use super::tracker::Tracker;
use crate::authn::bootstrap_token::now_instant;
use crate::authn::metrics::TokenMetrics;
use crate::authn::token_error::TokenError;
use crate::authn::vouched::{Vouched, shared};
use crate::registry::backend::Backend;

/// The default issuer and audience of tokens.
///
/// DIVERGES: kube-apiserver has no default and requires the flag.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc";

/// The settings for issuing and accepting tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// `--service-account-issuer`: the first one issues tokens, all are accepted (AN-81). Never empty.
    pub issuers: Vec<String>,
    /// `--api-audiences`: the audiences of tokens for this server (AN-55). The issuers if empty.
    pub api_audiences: Vec<String>,
    /// `--service-account-max-token-expiration`, in seconds (AN-92).
    pub max_expiration: Option<i64>,
    /// `--service-account-extend-token-expiration` (AN-95).
    pub extends_expiration: bool,
    /// `--service-account-jwks-uri`: the URL of the public keys. By default a path below the first issuer.
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

/// The service accounts in a store, and their tokens.
pub struct ServiceAccounts {
    pub(super) backend: Arc<Backend>,
    pub(super) issuer: Issuer,
    /// All accepted keys, including the signing key.
    keys: Vec<PublicKey>,
    pub(super) metrics: TokenMetrics,
    pub(super) signing: SigningKey,
    pub(super) tracker: Tracker,
}

impl ServiceAccounts {
    /// Signs with a key, and accepts signatures of it and of the other keys (AN-71).
    pub(in crate::authn) fn new(
        backend: Arc<Backend>,
        signing: SigningKey,
        others: Vec<PublicKey>,
        mut issuer: Issuer,
        metrics: TokenMetrics,
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
        Self { backend, issuer, keys, metrics, signing, tracker }
    }

    /// Returns the audiences of tokens for this server.
    pub fn api_audiences(&self) -> &[String] {
        &self.issuer.api_audiences
    }

    /// The settings for issuing and accepting tokens.
    pub fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Returns the accepted keys.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// Returns the user of a token; none for a token of another issuer (AN-70).
    ///
    /// # Errors
    /// The token is from this issuer, but is not valid.
    pub(in crate::authn) async fn vouch(
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
        let now = now_instant(now).seconds;
        let claims::Audience { aud } = verified.claims()?;
        // AN-73; for requested tokens see `claims::Bound`.
        let audiences = match aud.is_empty() && is_legacy {
            true => self.issuer.api_audiences.clone(),
            false => aud,
        };
        let accepted = shared(&audiences, wanted);
        if accepted.is_empty() {
            return Err(TokenError::Audience { tokens: audiences, wanted: wanted.to_owned() });
        }
        let (user, notes) = match is_legacy {
            true => self.legacy_user(token, verified.claims()?, now).await?,
            false => self.bound_user(verified.claims()?, now).await?,
        };
        Ok(Some(Vouched::new(Arc::new(user), accepted, notes)))
    }
}
