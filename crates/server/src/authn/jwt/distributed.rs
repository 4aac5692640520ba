//! Distributed claims (OpenID Connect Core, 5.6.2): groups that are not in a token because they are too many. The token names an
//! address, where another token has them.
//!
//! DIVERGES: the other token must be of the same issuer; Kubernetes fetches the keys of whichever issuer it names. Its claim is
//! kept for ten seconds, for at most 1024 tokens, so that not every request fetches it. Eight fetches of one account, and 32 in
//! all, are made at a time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Uri;
use pki::jwt::UnverifiedToken;
use pki::sha256;
use portcullis_client::review::cache::ExpiringLru;
use portcullis_client::{Clock, SystemClock};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::keys::{FETCH, Keys};
use super::standard;
use crate::authn::token_error::TokenError;
use crate::http::account::Account;
use crate::http::fair_queue::{FairQueue, Size};

/// The number of fetches at a time, and those of one account.
const TURNS: Size = Size { seats: 32, seats_of_account: 8, waiting_of_account: 64 };
/// How long a request waits for its turn.
const WAIT: Duration = Duration::from_secs(30);
/// How long a claim is kept, and of how many tokens.
const KEPT: Duration = Duration::from_secs(10);
const ENTRIES: usize = 1024;
/// Larger tokens are not kept.
const KEPT_BYTES: usize = 16 << 10;

/// The location of a distributed claim.
pub(super) struct Source {
    endpoint: String,
    access_token: Option<String>,
}

/// A claim that may be elsewhere.
pub(super) struct Distributed {
    claim: String,
    turns: Arc<FairQueue>,
    clock: SystemClock,
    /// By a hash of the source.
    kept: ExpiringLru<[u8; 32], Value, Duration>,
}

impl Distributed {
    pub(super) fn new(claim: String) -> Self {
        Self {
            claim,
            turns: FairQueue::new(TURNS),
            clock: SystemClock::new(),
            kept: ExpiringLru::new(ENTRIES),
        }
    }

    /// The name of the claim.
    pub(super) fn claim(&self) -> &str {
        &self.claim
    }

    /// Returns the location of the claim of a checked token; none if the claim is in the token itself, or missing.
    pub(super) fn source(&self, claims: &Map<String, Value>) -> Option<Source> {
        if claims.contains_key(&self.claim) {
            return None;
        }
        let source = claims.get(standard::NAMES)?.get(&self.claim)?.as_str()?;
        let source = claims.get(standard::SOURCES)?.get(source)?;
        let text = |name: &str| source.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let access_token = text("access_token").map(str::to_owned);
        // Without an endpoint, the source is a token itself, which Kubernetes does not read.
        text("endpoint").map(|endpoint| Source { endpoint: endpoint.to_owned(), access_token })
    }

    /// Fetches the claim.
    ///
    /// # Errors
    /// It cannot be had, or the token there is not valid.
    pub(super) async fn resolve(
        &self,
        source: Source,
        keys: &Arc<Keys>,
        audiences: &[String],
        account: Account,
        now: SystemTime,
    ) -> Result<Value, TokenError> {
        let key = source.key();
        if let Some(value) = self.kept.find(&key, self.clock.running()) {
            return Ok(value);
        }
        let refused = |why: &str| TokenError::Refused(format!("oidc: distributed claim: {why}"));
        let text = self.fetch(source, keys, account).await?;
        let token = UnverifiedToken::read(text.trim_ascii()).ok_or_else(|| refused("not a token"))?;
        if token.issuer() != keys.issuer() {
            return Err(refused("the token is of another issuer"));
        }
        let claims: Map<String, Value> = keys.verify(&token, account).await?.claims()?;
        standard::check(&claims, audiences, now).map_err(refused)?;
        let value = claims.get(&self.claim).cloned().ok_or_else(|| refused("the token lacks the claim"))?;
        if text.len() <= KEPT_BYTES
            && let Some(deadline) = self.clock.running().checked_add(KEPT)
        {
            self.kept.store(key, value.clone(), deadline);
        }
        Ok(value)
    }

    /// Fetches the token with the claim. A fetch keeps its turn until it ends, with or without the caller.
    async fn fetch(&self, source: Source, keys: &Arc<Keys>, account: Account) -> Result<Vec<u8>, TokenError> {
        let seat = timeout(WAIT, self.turns.enter(account)).await;
        let seat = seat.map_err(|_| TokenError::Waiting)?.map_err(|_| TokenError::Waiting)?;
        let keys = Arc::clone(keys);
        let fetch = tokio::spawn(async move {
            let _seat = seat;
            let url: Uri = source.endpoint.parse().map_err(|_| "the endpoint is no URL".to_owned())?;
            keys.fetcher().get(&url, source.access_token.as_deref()).await
        });
        let fetched = timeout(FETCH, fetch).await;
        let text = fetched
            .map_err(|_| "no answer in time".to_owned())
            .and_then(|fetched| fetched.unwrap_or_else(|_| Err("the fetch has failed".to_owned())));
        text.map(|text| text.to_vec()).map_err(|error| {
            tracing::warn!(error, "a distributed claim cannot be fetched");
            TokenError::Refused("oidc: distributed claim: it cannot be fetched".to_owned())
        })
    }
}

impl Source {
    /// A hash that tells sources apart.
    fn key(&self) -> [u8; 32] {
        let token = self.access_token.as_deref().unwrap_or_default();
        sha256(format!("{}\n{}{token}", self.endpoint.len(), self.endpoint).as_bytes())
    }
}
