//! Who asks, where the API server is the one who knows tokens: client certificates, then TokenReviews (KA-40 to KA-48).
//!
//! As a kubelet does it. What the API server cannot be asked about lets nobody in.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use http::HeaderMap;
use pki::CaBundle;
use policy::User;
use portcullis_client::review::Reviews;
use portcullis_pki as pki;

use super::reload::{AuthorityFileError, Followed};
use super::{ANONYMOUS, Caller, Failure, Peer, TokenError, UNAUTHENTICATED, Unauthorized, bearer};
use portcullis_policy as policy;

/// See the module.
pub struct Delegated {
    clients: Option<ArcSwap<CaBundle>>,
    tokens: Option<Reviews>,
    anonymous: Option<Arc<User>>,
}

/// The file of the authorities that vouch for clients, to be followed.
pub struct ClientAuthorities(Followed);

impl ClientAuthorities {
    /// The file of `--client-ca-file`, with what is in it now.
    ///
    /// # Errors
    /// It cannot be read or holds no authority.
    pub fn read(path: PathBuf) -> Result<(Self, CaBundle), AuthorityFileError> {
        let (file, bundle) = Followed::read(path)?;
        Ok((Self(file), bundle))
    }

    /// Puts what changes in force, until it is dropped. A file that cannot be used changes nothing.
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
                    "--client-ca-file cannot be used any more; what it held before counts"
                ),
            }
        }
    }
}

impl Delegated {
    /// Clients are those with a certificate of this bundle, those whose token the API server knows, and with `anonymous`
    /// also those who show nothing (KA-47).
    pub fn new(clients: Option<CaBundle>, tokens: Option<Reviews>, anonymous: bool) -> Self {
        Self {
            clients: clients.map(ArcSwap::from_pointee),
            tokens,
            anonymous: anonymous.then(|| Arc::new(User::new(ANONYMOUS, [UNAUTHENTICATED]))),
        }
    }

    /// Who asks (KA-40). A credential that fails is never taken for none, unless another one succeeds.
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

/// Whose token it is (KA-44).
async fn vouch(tokens: &Reviews, token: &[u8]) -> Result<Caller, Failure> {
    match tokens.token(token).await {
        Ok(Some(user)) => Ok(Caller::of(user)),
        Ok(None) => Err(TokenError::Unknown.into()),
        Err(error) => Err(error.into()),
    }
}
