//! The keys of an issuer: its discovery document (OpenID Connect Discovery, 4), and the key set that this names.
//!
//! The document is fetched when the issuer is configured, and every ten seconds until it can be had; until then no token of the
//! issuer is accepted. The key set is fetched with it, and again when a token comes that no known key fits. A set that cannot be
//! had or read leaves the known keys as they are.
//!
//! Fetches of an issuer begin at least a second apart, one at a time, whatever tokens come: a token that no key fits waits for a
//! fetch that began after it came. So made-up tokens cause one fetch a second, and a token with a new key is never refused for
//! them. Tokens that known keys fit wait for nothing.
//!
//! DIVERGES: Kubernetes fetches the key set once for each token that no known key fits, without a pace. Here 64 tokens of one
//! address wait at a time, and further ones are refused. Kubernetes fetches keys over plain HTTP if the document says so; here
//! that is an error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::Uri;
use pki::jwks::KeySet;
use pki::jwt::{SignatureError, UnverifiedToken, VerifiedToken};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::authn::token_error::TokenError;
use crate::http::account::Account;
use crate::http::fair_queue::{FairQueue, Size};
use crate::remote::fetch::Fetcher;

/// The time limit of one fetch.
pub(super) const FETCH: Duration = Duration::from_secs(10);
/// How long a token waits for keys: for a fetch under way, and one of its own.
const WAIT: Duration = Duration::from_secs(25);
/// Fetches begin at least so far apart.
const PACE: Duration = Duration::from_secs(1);
/// How long to wait before the discovery document is fetched again.
const RETRY: Duration = Duration::from_secs(10);
/// The tokens that wait for keys.
const WAITING: Size = Size { seats: 1 << 16, seats_of_account: 64, waiting_of_account: 0 };

/// The fields of a discovery document that are read.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    issuer: String,
    #[serde(default)]
    jwks_uri: String,
}

/// See the module.
pub(super) struct Keys {
    issuer: String,
    discovery: Uri,
    fetcher: Fetcher,
    is_started: AtomicBool,
    /// The URL of the key set, once it is known.
    location: ArcSwapOption<Uri>,
    known: ArcSwap<KeySet>,
    /// When the last fetch began. Held during a fetch.
    fetching: Arc<Mutex<Option<Instant>>>,
    waiting: Arc<FairQueue>,
}

impl Keys {
    /// The keys of an issuer with this discovery document.
    pub(super) fn new(issuer: String, discovery: Uri, fetcher: Fetcher) -> Arc<Self> {
        Arc::new(Self {
            issuer,
            discovery,
            fetcher,
            is_started: AtomicBool::new(false),
            location: ArcSwapOption::empty(),
            known: ArcSwap::default(),
            fetching: Arc::default(),
            waiting: FairQueue::new(WAITING),
        })
    }

    /// Begins to fetch the discovery document. Ends when nobody needs the keys any more.
    pub(super) fn start(self: &Arc<Self>) {
        if !self.is_started.swap(true, Ordering::SeqCst) {
            tokio::spawn(discover(Arc::downgrade(self)));
        }
    }

    /// The client for the documents.
    pub(super) fn fetcher(&self) -> &Fetcher {
        &self.fetcher
    }

    /// The issuer's URL.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Verifies a token; if no known key fits, with keys that were fetched after it came.
    ///
    /// # Errors
    /// No key fits, the keys are not known yet, or too many tokens of the account wait for keys.
    pub(super) async fn verify(
        self: &Arc<Self>,
        token: &UnverifiedToken<'_>,
        account: Account,
    ) -> Result<VerifiedToken, TokenError> {
        let came = Instant::now();
        if self.location.load().is_none() {
            return Err(TokenError::Refused("oidc: the issuer has not been reached yet".to_owned()));
        }
        match token.verify_by(&self.known.load()) {
            Ok(verified) => return Ok(verified),
            Err(SignatureError::Algorithm) => return Err(SignatureError::Algorithm.into()),
            Err(SignatureError::NoKey | SignatureError::Signature) => {}
        }
        let _place = self.waiting.try_enter(account).ok_or(TokenError::Waiting)?;
        // In vain: the known keys decide.
        let _ = timeout(WAIT, self.refresh(came)).await;
        Ok(token.verify_by(&self.known.load())?)
    }

    /// Fetches the key set, or waits for a fetch that began after this time. It goes on without the caller.
    async fn refresh(self: &Arc<Self>, after: Instant) {
        let mut began = Arc::clone(&self.fetching).lock_owned().await;
        if began.is_some_and(|began| began >= after) {
            return;
        }
        let keys = Arc::clone(self);
        let fetch = tokio::spawn(async move {
            if let Some(next) = began.and_then(|began| began.checked_add(PACE)) {
                sleep_until(next).await;
            }
            *began = Some(Instant::now());
            if let Err(error) = keys.fetch().await {
                tracing::warn!(issuer = keys.issuer, error, "the keys of an issuer cannot be fetched");
            }
            drop(began);
        });
        // A task that failed has said so.
        let _ = fetch.await;
    }

    async fn fetch(&self) -> Result<(), String> {
        let Some(location) = self.location.load_full() else { return Ok(()) };
        let text = self.fetcher.get(&location, None).await?;
        let keys = KeySet::read(&text).map_err(|error| format!("GET {location}: {error}"))?;
        self.known.store(Arc::new(keys));
        Ok(())
    }

    /// Fetches the discovery document, and returns where the key set is.
    async fn location(&self) -> Result<Uri, String> {
        let text = self.fetcher.get(&self.discovery, None).await?;
        let wrong = |why: String| format!("GET {}: {why}", self.discovery);
        let document: Document = serde_json::from_slice(&text).map_err(|error| {
            wrong(format!("no discovery document: line {}, column {}", error.line(), error.column()))
        })?;
        if document.issuer != self.issuer {
            return Err(wrong(format!("it is of another issuer, {:?}", shortened(&document.issuer))));
        }
        let location: Option<Uri> = document.jwks_uri.parse().ok();
        location
            .filter(|uri| uri.scheme_str() == Some("https"))
            .ok_or_else(|| wrong(format!("jwks_uri {:?} is no https:// URL", shortened(&document.jwks_uri))))
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(256).collect()
}

/// Fetches the discovery document until it can be had, or nobody needs it any more.
async fn discover(keys: Weak<Keys>) {
    let mut told = String::new();
    loop {
        let Some(keys) = keys.upgrade() else { return };
        match keys.location().await {
            Ok(location) => {
                keys.location.store(Some(Arc::new(location)));
                keys.refresh(Instant::now()).await;
                tracing::info!(issuer = keys.issuer, keys = keys.known.load().len(), "an issuer is ready");
                return;
            }
            Err(error) if error == told => {}
            Err(error) => {
                tracing::warn!(issuer = keys.issuer, error, "an issuer is not ready; trying again every 10s");
                told = error;
            }
        }
        drop(keys);
        sleep(RETRY).await;
    }
}
