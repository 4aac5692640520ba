//! One issuer: the way of a token from its signature to a user.

use std::sync::Arc;
use std::time::SystemTime;

use pki::jwt::UnverifiedToken;
use policy::User;

use super::distributed::Distributed;
use super::keys::Keys;
use super::mapping::Mapping;
use super::standard;
use crate::authn::token_error::TokenError;
use crate::http::account::Account;

/// The source of the keys of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPlace {
    /// The URL of the issuer.
    pub(super) url: String,
    /// The URL of the discovery document, if it is elsewhere.
    pub(super) discovery: Option<String>,
    /// The authorities of both, in PEM.
    pub(super) authorities: String,
}

/// An issuer, as the configuration describes it.
pub struct Issuer {
    pub(super) place: KeyPlace,
    pub(super) audiences: Vec<String>,
    pub(super) keys: Arc<Keys>,
    pub(super) mapping: Mapping,
    /// The distributed claim that may hold the groups.
    pub(super) distributed: Option<Distributed>,
}

impl Issuer {
    /// Its URL.
    pub fn url(&self) -> &str {
        &self.place.url
    }

    /// Takes over the keys of the issuer before, if they are in the same place, or begins to fetch them.
    pub(super) fn begin(&mut self, before: Option<&Self>) {
        match before.filter(|before| before.place == self.place) {
            Some(before) => self.keys = Arc::clone(&before.keys),
            None => self.keys.start(),
        }
    }

    /// Returns the user of a token. What the issuer is asked is charged to the account.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn user(
        &self,
        token: &UnverifiedToken<'_>,
        account: Account,
        now: SystemTime,
    ) -> Result<User, TokenError> {
        let verified = self.keys.verify(token, account).await?;
        let mut claims = verified.claims()?;
        let refused = |why: &str| TokenError::Refused(format!("oidc: {why}"));
        standard::check(&claims, &self.audiences, now).map_err(refused)?;
        if let Some(distributed) = &self.distributed
            && let Some(source) = distributed.source(&claims)
        {
            let value = distributed.resolve(source, &self.keys, &self.audiences, account, now).await?;
            claims.insert(distributed.claim().to_owned(), value);
        }
        self.mapping.user(&claims).map_err(|why| refused(&why))
    }
}
