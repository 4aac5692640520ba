//! Finds out who asks: front proxies, client certificates, then bearer tokens, in the order of kube-apiserver.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderName};
use pki::CaBundle;
use policy::User;
use policy::rules::aggregate;
use portcullis_store::Store as _;
use tokio::sync::watch;

use super::anonymous::Anonymous;
use super::bearer;
use super::caller::Caller;
use super::certificate::Peer;
use super::error::{Failure, Unauthorized};
use super::jwt::Issuer;
use super::metrics::AuthenticationMetrics;
use super::request_header::RequestHeader;
use super::service_account::ServiceAccounts;
use super::token_error::TokenError;
use super::tokens::Tokens;
use crate::http::account::Account;
use crate::registry::backend::Backend;
use crate::registry::bootstrap_authorities::{BootstrapAuthorities, Settings};
use crate::registry::freshness;

/// The authenticator of requests. [`AuthenticationConfig::open`](super::AuthenticationConfig::open) makes it.
pub struct Authentication {
    pub(super) backend: Arc<Backend>,
    pub(super) anonymous: Anonymous,
    /// The CAs of control-plane bootstrap credentials (NB-16).
    pub(super) bootstrappers: Arc<BootstrapAuthorities>,
    pub(super) clients: ArcSwap<CaBundle>,
    /// Notified when the CAs of clients or front proxies, or the issuers of tokens change.
    pub(super) trust: watch::Sender<()>,
    pub(super) front_proxy: Option<RequestHeader>,
    pub(super) metrics: AuthenticationMetrics,
    pub(super) tokens: Tokens,
}

/// The result of a TokenReview (WH-103).
#[derive(Debug, Default)]
pub(crate) struct Reviewed {
    /// The user of the token, if it was accepted.
    pub(crate) user: Option<Arc<User>>,
    /// The accepted audiences.
    pub(crate) audiences: Vec<String>,
    /// The error, if it was not accepted.
    pub(crate) error: Option<String>,
}

impl Authentication {
    /// Replaces the client CA bundle, also for open connections (AN-40).
    pub fn replace_clients(&self, clients: CaBundle) {
        self.clients.store(Arc::new(clients));
        self.trust.send_replace(());
    }

    /// Like [`Self::replace_clients`], for the front proxy CA bundle. Has no effect if front proxies are not
    /// configured.
    pub fn replace_front_proxies(&self, authorities: CaBundle) {
        if let Some(front_proxy) = &self.front_proxy {
            front_proxy.replace_authorities(authorities);
            self.trust.send_replace(());
        }
    }

    /// Accepts tokens of these issuers alone (AN-115).
    pub(super) fn replace_issuers(&self, issuers: Vec<Issuer>) {
        self.tokens.issuers.replace(issuers);
        self.trust.send_replace(());
    }

    /// Returns receivers that are notified when the trusted authorities change: then a certificate may be valid no longer.
    pub(crate) fn trust_changes(&self) -> [watch::Receiver<()>; 2] {
        [self.trust.subscribe(), self.bootstrappers.changes()]
    }

    /// Returns what is trusted to bootstrap nodes.
    pub(crate) fn bootstrap(&self) -> &Settings {
        self.bootstrappers.settings()
    }

    /// Returns whether a header can contain credentials.
    pub(crate) fn reads_header(&self, name: &HeaderName) -> bool {
        *name == AUTHORIZATION
            || *name == SEC_WEBSOCKET_PROTOCOL
            || self.front_proxy.as_ref().is_some_and(|front_proxy| front_proxy.reads(name))
    }

    /// Returns the issuer of service account tokens.
    pub fn service_accounts(&self) -> &Arc<ServiceAccounts> {
        &self.tokens.accounts
    }

    /// Authenticates a request for this path from this address (AN-10 to AN-14, AN-24). An invalid credential never counts as a
    /// missing one; the request fails unless another credential succeeds.
    ///
    /// # Errors
    /// See [`Unauthorized`].
    pub async fn authenticate(
        &self,
        (peer, remote): (&Peer, Option<IpAddr>),
        headers: &HeaderMap,
        path: &str,
        now: SystemTime,
    ) -> Result<Caller, Unauthorized> {
        let started = Instant::now();
        let known = self.backend.revision();
        let mut outcome = self.identify((peer, remote), headers, path, now).await;
        // The token, or the authority, may have been made on another server (ET-34).
        if outcome.is_err() && Box::pin(freshness::has_missed(&self.backend, known)).await {
            outcome = self.identify((peer, remote), headers, path, now).await;
        }
        self.metrics.authenticated(&outcome, started.elapsed());
        outcome
    }

    /// Like [`Self::authenticate`], and counted nowhere: for requests that are authenticated again.
    ///
    /// # Errors
    /// See [`Unauthorized`].
    pub(crate) async fn identify(
        &self,
        (peer, remote): (&Peer, Option<IpAddr>),
        headers: &HeaderMap,
        path: &str,
        now: SystemTime,
    ) -> Result<Caller, Unauthorized> {
        let account = Account::of_address(remote);
        // AN-11: a failed credential does not prevent the next one from succeeding.
        let mut failures = Vec::new();
        if let Some(front_proxy) = &self.front_proxy {
            match front_proxy.user(peer, headers, now) {
                Ok(Some(user)) => return Ok(Caller::of(user)),
                Ok(None) => {}
                Err(error) => failures.push(error.into()),
            }
        }
        self.metrics.shown(peer, now);
        match peer.client(&self.clients.load(), now) {
            Ok(Some(user)) => return Ok(Caller::of(user)),
            Ok(None) => {}
            Err(error) => {
                failures.push(error.into());
                match peer.bootstrapper(&self.bootstrappers, now) {
                    Ok(Some(user)) => return Ok(Caller::of(user)),
                    Ok(None) => {}
                    Err(error) => failures.push(error.into()),
                }
            }
        }
        if let Some(token) = bearer::token(headers) {
            match self.tokens.vouch(token, self.tokens.api_audiences(), account, now).await {
                Ok(vouched) => return Ok(vouched.into_caller()),
                Err(errors) => failures.extend(errors.into_iter().map(Failure::from)),
            }
        }
        match bearer::websocket_token(headers) {
            None => {}
            Some(Err(error)) => failures.push(error.into()),
            Some(Ok(token)) => {
                match self.tokens.vouch(&token, self.tokens.api_audiences(), account, now).await {
                    Ok(vouched) => return Ok(vouched.into_caller()),
                    Err(errors) => failures.extend(errors.into_iter().map(Failure::from)),
                }
            }
        }
        // AN-13
        match self.anonymous.user(path) {
            Some(user) if failures.is_empty() => Ok(Caller::of(user)),
            _ => Err(Unauthorized(failures)),
        }
    }

    /// Authenticates a token (WH-101, WH-102) for these audiences or, if empty, for the API server. The result grants
    /// no access. The account is that of whoever asks.
    pub(crate) async fn review(
        &self,
        text: &str,
        audiences: &[String],
        account: Account,
        now: SystemTime,
    ) -> Reviewed {
        let audiences = if audiences.is_empty() { self.tokens.api_audiences() } else { audiences };
        // As if it were the only credential of a request.
        let header = format!("Bearer {text}");
        let Some(token) = bearer::token_of(header.as_bytes()) else {
            // WH-108
            let user = self.anonymous.unconditional();
            let audiences = if user.is_some() { audiences.to_owned() } else { Vec::new() };
            return Reviewed { user, audiences, error: None };
        };
        match self.tokens.vouch(token, audiences, account, now).await {
            Ok(vouched) => {
                let (user, audiences) = vouched.into_parts();
                Reviewed { user: Some(user), audiences, error: None }
            }
            Err(errors) => {
                // kube-apiserver tries the token of its loopback client first, which never matches (AN-14).
                let first = std::iter::once(TokenError::Unknown);
                let texts: Vec<String> = first.chain(errors).map(|error| error.to_string()).collect();
                Reviewed { error: aggregate(&texts), ..Reviewed::default() }
            }
        }
    }
}
