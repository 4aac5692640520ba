//! Finds out who asks: front proxies, client certificates, then bearer tokens, in the order of kube-apiserver.

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use http::HeaderMap;
use pki::CaBundle;
use policy::User;
use policy::rules::aggregate;

use super::anonymous::Anonymous;
use super::bearer;
use super::bootstrap_token::BootstrapTokens;
use super::caller::{Caller, join_authenticated};
use super::certificate::Peer;
use super::error::{Failure, Unauthorized};
use super::request_header::RequestHeader;
use super::service_account::ServiceAccounts;
use super::token_error::TokenError;
use super::token_file::TokenFile;
use super::tokens::Tokens;
use crate::registry::bootstrap_authorities::BootstrapAuthorities;

/// The authenticator of requests.
pub struct Authentication {
    anonymous: Anonymous,
    bootstrap: Option<Arc<BootstrapAuthorities>>,
    clients: ArcSwap<CaBundle>,
    front_proxy: Option<RequestHeader>,
    tokens: Tokens,
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
    /// Accepts client certificates of this bundle; with `anonymous`, also requests without credentials as
    /// `system:anonymous`.
    pub fn new(clients: CaBundle, anonymous: bool) -> Self {
        Self {
            anonymous: if anonymous { Anonymous::Everywhere } else { Anonymous::Nowhere },
            bootstrap: None,
            clients: ArcSwap::from_pointee(clients),
            front_proxy: None,
            tokens: Tokens::default(),
        }
    }

    /// Adds static tokens (AN-60).
    #[must_use]
    pub fn with_tokens(mut self, tokens: TokenFile) -> Self {
        self.tokens.file = tokens.map(join_authenticated);
        self
    }

    /// Adds service account tokens (AN-75, AN-80). The audiences of their tokens are those of all tokens (AN-55).
    #[must_use]
    pub fn with_service_accounts(mut self, accounts: Arc<ServiceAccounts>) -> Self {
        accounts.api_audiences().clone_into(&mut self.tokens.api_audiences);
        self.tokens.accounts = Some(accounts);
        self
    }

    /// Adds bootstrap tokens (AN-100).
    #[must_use]
    pub fn with_bootstrap_tokens(mut self, tokens: BootstrapTokens) -> Self {
        self.tokens.bootstrap = Some(tokens);
        self
    }

    /// Adds client certificates of the bootstrap authorities (NB-16).
    #[must_use]
    pub fn with_bootstrap_authorities(mut self, authorities: Arc<BootstrapAuthorities>) -> Self {
        self.bootstrap = Some(authorities);
        self
    }

    /// Adds users named by front proxies (AN-30).
    #[must_use]
    pub fn with_request_header(mut self, front_proxy: RequestHeader) -> Self {
        self.front_proxy = Some(front_proxy);
        self
    }

    /// Replaces the rules for requests without credentials (AN-112).
    #[must_use]
    pub fn with_anonymous(mut self, anonymous: Anonymous) -> Self {
        self.anonymous = anonymous;
        self
    }

    /// Replaces the client CA bundle, also for open connections (AN-40).
    pub fn replace_clients(&self, clients: CaBundle) {
        self.clients.store(Arc::new(clients));
    }

    /// Like [`Self::replace_clients`], for the front proxy CA bundle. Has no effect if front proxies are not
    /// configured.
    pub fn replace_front_proxies(&self, authorities: CaBundle) {
        if let Some(front_proxy) = &self.front_proxy {
            front_proxy.replace_authorities(authorities);
        }
    }

    /// Returns the issuer of service account tokens, if configured.
    pub fn service_accounts(&self) -> Option<&Arc<ServiceAccounts>> {
        self.tokens.accounts.as_ref()
    }

    /// Authenticates a request for this path (AN-10 to AN-14, AN-24). An invalid credential never counts as a missing one; the
    /// request fails unless another credential succeeds.
    ///
    /// # Errors
    /// See [`Unauthorized`].
    pub async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        path: &str,
        now: SystemTime,
    ) -> Result<Caller, Unauthorized> {
        // AN-11: a failed credential does not prevent the next one from succeeding.
        let mut failures = Vec::new();
        if let Some(front_proxy) = &self.front_proxy {
            match front_proxy.user(peer, headers, now) {
                Ok(Some(user)) => return Ok(Caller::of(user)),
                Ok(None) => {}
                Err(error) => failures.push(error.into()),
            }
        }
        match peer.client(&self.clients.load(), now) {
            Ok(Some(user)) => return Ok(Caller::of(user)),
            Ok(None) => {}
            Err(error) => {
                failures.push(error.into());
                if let Some(authorities) = &self.bootstrap {
                    // Subscribe before the lookup, so that no change is missed.
                    let revocation = Some(authorities.changes());
                    match peer.bootstrapper(authorities, now) {
                        Ok(Some(user)) => return Ok(Caller { revocation, ..Caller::of(user) }),
                        Ok(None) => {}
                        Err(error) => failures.push(error.into()),
                    }
                }
            }
        }
        if let Some(token) = bearer::token(headers) {
            match self.tokens.vouch(token, &self.tokens.api_audiences, now).await {
                Ok(vouched) => return Ok(vouched.into_caller()),
                Err(errors) => failures.extend(errors.into_iter().map(Failure::from)),
            }
        }
        match bearer::websocket_token(headers) {
            None => {}
            Some(Err(error)) => failures.push(error.into()),
            Some(Ok(token)) => match self.tokens.vouch(&token, &self.tokens.api_audiences, now).await {
                Ok(vouched) => return Ok(vouched.into_caller()),
                Err(errors) => failures.extend(errors.into_iter().map(Failure::from)),
            },
        }
        // AN-13
        match self.anonymous.user(path) {
            Some(user) if failures.is_empty() => Ok(Caller::of(user)),
            _ => Err(Unauthorized(failures)),
        }
    }

    /// Authenticates a token (WH-101, WH-102) for these audiences or, if empty, for the API server. The result grants
    /// no access.
    pub(crate) async fn review(&self, text: &str, audiences: &[String], now: SystemTime) -> Reviewed {
        let audiences = if audiences.is_empty() { self.tokens.api_audiences.as_slice() } else { audiences };
        // As if it were the only credential of a request.
        let header = format!("Bearer {text}");
        let Some(token) = bearer::token_of(header.as_bytes()) else {
            // WH-108
            let user = self.anonymous.unconditional();
            let audiences = if user.is_some() { audiences.to_owned() } else { Vec::new() };
            return Reviewed { user, audiences, error: None };
        };
        match self.tokens.vouch(token, audiences, now).await {
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
