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
use crate::http::account::Account;
use crate::http::fair_queue::{FairQueue, Size};

/// The number of reviews of tokens at a time, as many as [`Reviews`] sends, and those of one account.
const TURNS: Size = Size { seats: 32, seats_of_account: 8, waiting_of_account: 256 };

/// See the module.
pub struct Delegated {
    clients: Option<ArcSwap<CaBundle>>,
    tokens: Option<Reviews>,
    /// The queue for reviews of tokens that are not cached, so that made-up tokens delay no other caller.
    turns: Arc<FairQueue>,
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
            turns: FairQueue::new(TURNS),
            anonymous: anonymous.then(|| Arc::new(User::new(ANONYMOUS, [UNAUTHENTICATED]))),
        }
    }

    /// Authenticates a request (KA-40). An invalid credential never counts as a missing one; the request fails unless
    /// another credential succeeds. Callers of the same account share the turns for reviews of tokens.
    ///
    /// # Errors
    /// See [`Unauthorized`].
    pub(crate) async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        account: Account,
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
                match self.vouch(tokens, token, account).await {
                    Ok(caller) => return Ok(caller),
                    Err(failure) => failures.push(failure),
                }
            }
            match bearer::websocket_token(headers) {
                None => {}
                Some(Err(error)) => failures.push(error.into()),
                Some(Ok(token)) => match self.vouch(tokens, &token, account).await {
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

    /// Returns the user of a token (KA-44).
    async fn vouch(&self, tokens: &Reviews, token: &[u8], account: Account) -> Result<Caller, Failure> {
        let answer = match tokens.cached_token(token) {
            Some(answer) => answer,
            None => {
                let seat = self.turns.enter(account).await.map_err(|_| TokenError::Waiting)?;
                // The call keeps it: a caller that disconnects does not get another one before.
                tokens.token_with(token, seat).await
            }
        };
        match answer {
            Ok(Some(user)) => Ok(Caller::of(user)),
            Ok(None) => Err(TokenError::Unknown.into()),
            Err(error) => Err(error.into()),
        }
    }
}
