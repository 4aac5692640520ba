//! Delegated authentication: client certificates, then TokenReviews sent to the API server (KA-40 to KA-48).
//!
//! It works as in a kubelet. If the API server cannot be asked, nobody is authenticated.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use http::HeaderMap;
use pki::CaBundle;
use policy::User;
use policy::identity::{ANONYMOUS, UNAUTHENTICATED};
use portcullis_client::review::Reviews;

use super::bearer;
use super::caller::Caller;
use super::certificate::Peer;
use super::error::{Failure, Unauthorized};
use super::reload::{AuthorityFileError, Followed};
use super::token_error::TokenError;

/// See the module.
pub struct Delegated {
    clients: Option<ArcSwap<CaBundle>>,
    tokens: Option<Reviews>,
    anonymous: Option<Arc<User>>,
}

/// The client CA file, to be watched for changes.
pub struct ClientAuthorities(Followed);

impl ClientAuthorities {
    /// Reads the file of `--client-ca-file` and returns its current bundle.
    ///
    /// # Errors
    /// The file cannot be read or contains no certificates.
    pub fn read(path: PathBuf) -> Result<(Self, CaBundle), AuthorityFileError> {
        let (file, bundle) = Followed::read(path)?;
        Ok((Self(file), bundle))
    }

    /// Applies changes of the file until the future is dropped. An invalid file changes nothing.
    pub async fn follow(mut self, authentication: Arc<Delegated>) {
        loop {
            match self.0.changed().await {
                Ok(bundle) => {
                    if let Some(clients) = &authentication.clients {
                        clients.store(Arc::new(bundle));
                        tracing::info!("the authorities of clients have changed");
                    }
                }
                Err(error) => tracing::error!(
                    %error,
                    "--client-ca-file is invalid; its previous contents remain in use"
                ),
            }
        }
    }
}

impl Delegated {
    /// Accepts client certificates of this bundle, tokens that the API server accepts, and with `anonymous` also
    /// requests without credentials (KA-47). With none of the three nobody is let in (KA-49).
    pub fn new(clients: Option<CaBundle>, tokens: Option<Reviews>, anonymous: bool) -> Self {
        Self {
            clients: clients.map(ArcSwap::from_pointee),
            tokens,
            anonymous: anonymous.then(|| Arc::new(User::new(ANONYMOUS, [UNAUTHENTICATED]))),
        }
    }

    /// Authenticates a request (KA-40). An invalid credential never counts as a missing one; the request fails unless
    /// another credential succeeds.
    ///
    /// # Errors
    /// See [`Unauthorized`].
    pub async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Caller, Unauthorized> {
        let mut failures = Vec::new();
        if let Some(clients) = &self.clients {
            match peer.client(&clients.load(), now) {
                Ok(Some(user)) => return Ok(Caller::of(user)),
                Ok(None) => {}
                Err(error) => failures.push(error.into()),
            }
        }
        if let Some(tokens) = &self.tokens {
            if let Some(token) = bearer::token(headers) {
                match vouch(tokens, token).await {
                    Ok(caller) => return Ok(caller),
                    Err(failure) => failures.push(failure),
                }
            }
            match bearer::websocket_token(headers) {
                None => {}
                Some(Err(error)) => failures.push(error.into()),
                Some(Ok(token)) => match vouch(tokens, &token).await {
                    Ok(caller) => return Ok(caller),
                    Err(failure) => failures.push(failure),
                },
            }
        }
        match &self.anonymous {
            Some(user) if failures.is_empty() => Ok(Caller::of(Arc::clone(user))),
            _ => Err(Unauthorized(failures)),
        }
    }
}

/// Returns the user of a token (KA-44).
async fn vouch(tokens: &Reviews, token: &[u8]) -> Result<Caller, Failure> {
    match tokens.token(token).await {
        Ok(Some(user)) => Ok(Caller::of(user)),
        Ok(None) => Err(TokenError::Unknown.into()),
        Err(error) => Err(error.into()),
    }
}
