//! Who asks? Front proxies, client certificates, then bearer tokens; who shows nothing may be let in as nobody known.
//!
//! A [`Caller`] is the proof that an authenticator has vouched for somebody: only this module and those below it can
//! make one. Nothing is remembered of tokens between requests, so what is taken away is gone with the next request, on
//! open connections too.

pub mod anonymous;
mod bearer;
pub mod bootstrap_token;
mod certificate;
pub mod configuration;
pub mod delegated;
pub mod reload;
pub mod request_header;
pub mod service_account;
mod tokens;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use http::HeaderMap;
use pki::CaBundle;
use pki::cert::VerifyError;
use policy::User;
use policy::rules::aggregate;
use portcullis_client::review::ReviewError;
use portcullis_pki as pki;
use portcullis_policy as policy;
use tokio::sync::watch;

use self::anonymous::Anonymous;
use self::bootstrap_token::BootstrapTokens;
use self::request_header::{FrontProxyError, RequestHeader};
use self::service_account::ServiceAccounts;
use self::tokens::Tokens;
use crate::bootstrap_authorities::BootstrapAuthorities;
use crate::impersonation::Impersonated;
use crate::token_file::TokenFile;

pub(crate) use self::bearer::{spare_space, without_token};
pub use self::certificate::{BootstrapError, Peer};
pub use self::tokens::TokenError;

/// The user of requests without credentials (AN-110).
pub const ANONYMOUS: &str = "system:anonymous";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// AN-45, AN-88
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Somebody for whom an authenticator has vouched, and, where a right to that was checked, as whom the request goes on.
#[derive(Clone, Debug)]
pub struct Caller {
    user: Arc<User>,
    /// Who impersonates.
    original: Option<Arc<User>>,
    /// What the client is to be told about its credential.
    warning: Option<&'static str>,
    /// Told when the credential may have been revoked; nothing where that is asked for each request alone.
    revocation: Option<watch::Receiver<()>>,
}

impl Caller {
    fn of(user: Arc<User>) -> Self {
        Self { user, original: None, warning: None, revocation: None }
    }

    /// As whom the request goes on.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// Who was authenticated: the same, unless there is impersonation.
    pub fn original(&self) -> &Arc<User> {
        self.original.as_ref().unwrap_or(&self.user)
    }

    /// What the client is to be told about its credential.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        self.warning
    }

    /// Ends when the credential may have been revoked: what is still being answered then must end as well (NB-20).
    pub(crate) fn revocation(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let mut revocation = self.revocation.clone()?;
        // When nobody can tell any more the server is gone.
        Some(async move { drop(revocation.changed().await) })
    }

    /// The same caller, who goes on as somebody else (AN-152).
    pub(crate) fn acting_as(self, other: Impersonated) -> Self {
        let original = self.original.unwrap_or(self.user);
        Self { user: other.into_user(), original: Some(original), ..self }
    }
}

/// No credential was accepted. The answer is 401, and the causes are only logged (AN-20). No text of it shows any part
/// of a credential.
#[derive(Debug)]
pub struct Unauthorized(Vec<Failure>);

impl Unauthorized {
    /// Whether nothing was shown that could have been good.
    pub(crate) fn is_for_want_of_credentials(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Unauthorized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&aggregate(&causes).unwrap_or_else(|| "no credentials".to_owned()))
    }
}

impl std::error::Error for Unauthorized {}

/// Why one credential is not accepted.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// A certificate that is no bootstrap credential.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// A certificate that does not verify.
    #[error(transparent)]
    Certificate(#[from] VerifyError),
    /// A front proxy that is none.
    #[error(transparent)]
    FrontProxy(#[from] FrontProxyError),
    /// The API server cannot say whose token it is.
    #[error(transparent)]
    Review(#[from] ReviewError),
    /// A token that is not accepted.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// Finds out who asks.
pub struct Authentication {
    anonymous: Anonymous,
    bootstrap: Option<Arc<BootstrapAuthorities>>,
    clients: ArcSwap<CaBundle>,
    front_proxy: Option<RequestHeader>,
    tokens: Tokens,
}

/// The answer to a TokenReview (WH-103).
#[derive(Debug, Default)]
pub(crate) struct Reviewed {
    /// Whose token it is, if it is accepted.
    pub(crate) user: Option<Arc<User>>,
    /// For which of the audiences.
    pub(crate) audiences: Vec<String>,
    /// Why not.
    pub(crate) error: Option<String>,
}

impl Authentication {
    /// Clients are those with a certificate of this bundle; with `anonymous`, also everybody else as
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

    /// The same, and who shows one of these tokens (AN-60).
    #[must_use]
    pub fn with_tokens(mut self, tokens: TokenFile) -> Self {
        self.tokens.file = tokens.map(join_authenticated);
        self
    }

    /// The same, and service accounts by their tokens (AN-75, AN-80). Whom their tokens are for by default is whom all
    /// tokens are for (AN-55).
    #[must_use]
    pub fn with_service_accounts(mut self, accounts: Arc<ServiceAccounts>) -> Self {
        accounts.api_audiences().clone_into(&mut self.tokens.api_audiences);
        self.tokens.accounts = Some(accounts);
        self
    }

    /// The same, and who shows a bootstrap token (AN-100).
    #[must_use]
    pub fn with_bootstrap_tokens(mut self, tokens: BootstrapTokens) -> Self {
        self.tokens.bootstrap = Some(tokens);
        self
    }

    /// The same, and who shows a certificate of an authority of bootstrap credentials (NB-16).
    #[must_use]
    pub fn with_bootstrap_authorities(mut self, authorities: Arc<BootstrapAuthorities>) -> Self {
        self.bootstrap = Some(authorities);
        self
    }

    /// The same, and whom a front proxy vouches for (AN-30).
    #[must_use]
    pub fn with_request_header(mut self, front_proxy: RequestHeader) -> Self {
        self.front_proxy = Some(front_proxy);
        self
    }

    /// The same, with other rules for requests without credentials (AN-112).
    #[must_use]
    pub fn with_anonymous(mut self, anonymous: Anonymous) -> Self {
        self.anonymous = anonymous;
        self
    }

    /// Goes by another bundle from now on, on open connections too (AN-40).
    pub fn replace_clients(&self, clients: CaBundle) {
        self.clients.store(Arc::new(clients));
    }

    /// As [`Self::replace_clients`], for the authorities of front proxies. Without front proxies nothing happens.
    pub fn replace_front_proxies(&self, authorities: CaBundle) {
        if let Some(front_proxy) = &self.front_proxy {
            front_proxy.replace_authorities(authorities);
        }
    }

    /// Who issues the tokens of service accounts, if anybody does.
    pub fn service_accounts(&self) -> Option<&Arc<ServiceAccounts>> {
        self.tokens.accounts.as_ref()
    }

    /// Who asks for this path (AN-10 to AN-14). A credential that fails is never taken for none, unless another one
    /// succeeds.
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
        // AN-11: what fails does not keep the next from succeeding.
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
                    // Before they are asked: no change after that is missed.
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

    /// Whose token this is (WH-101, WH-102), for these audiences or, without any, for the API server. The answer lets
    /// nobody in.
    pub(crate) async fn review(&self, text: &str, audiences: &[String], now: SystemTime) -> Reviewed {
        let audiences = if audiences.is_empty() { self.tokens.api_audiences.as_slice() } else { audiences };
        // As if it were all that a request had.
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
                // The token of the loopback client is looked for first, and never found (AN-14).
                let first = std::iter::once(TokenError::Unknown);
                let texts: Vec<String> = first.chain(errors).map(|error| error.to_string()).collect();
                Reviewed { error: aggregate(&texts), ..Reviewed::default() }
            }
        }
    }
}

/// AN-12
fn join_authenticated(user: &mut User) {
    if user.name != ANONYMOUS && !user.in_group(AUTHENTICATED) && !user.in_group(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
}

/// Whether the request is served as somebody unknown (AN-22).
pub fn is_anonymous(user: &User) -> bool {
    user.name == ANONYMOUS || user.in_group(UNAUTHENTICATED)
}
