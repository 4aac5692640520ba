//! Token authentication: every kind of token in the order of kube-apiserver (AN-10), and the audiences of the token
//! (AN-55).

use std::sync::Arc;
use std::time::SystemTime;

use super::bootstrap_token::BootstrapTokens;
use super::caller::join_authenticated;
use super::jwt::Issuers;
use super::service_account::ServiceAccounts;
use super::token_error::TokenError;
use super::token_file::TokenFile;
use super::token_webhook::TokenWebhook;
use super::vouched::{Notes, Vouched, shared};
use crate::http::account::Account;

/// The authenticators of all kinds of tokens.
pub(super) struct Tokens {
    pub(super) file: TokenFile,
    pub(super) accounts: Arc<ServiceAccounts>,
    pub(super) bootstrap: Option<BootstrapTokens>,
    pub(super) issuers: Issuers,
    pub(super) webhook: Option<TokenWebhook>,
}

impl Tokens {
    /// The default audiences of tokens and of requests.
    pub(super) fn api_audiences(&self) -> &[String] {
        self.accounts.api_audiences()
    }

    /// Returns the user of a token for one of these audiences. What a webhook or an issuer is asked is charged to the account.
    ///
    /// # Errors
    /// No user was found. The errors of the authenticators, or [`TokenError::Unknown`] (AN-52).
    pub(super) async fn vouch(
        &self,
        token: &[u8],
        audiences: &[String],
        account: Account,
        now: SystemTime,
    ) -> Result<Vouched, Vec<TokenError>> {
        // AN-21, AN-55: these authenticators know only the audiences of the API server.
        let api = shared(self.api_audiences(), audiences);
        let is_for_api = !api.is_empty();
        if is_for_api && let Some(user) = self.file.user(token) {
            return Ok(Vouched::new(Arc::clone(user), api, Notes::default()));
        }
        let mut errors = Vec::new();
        // On the heap, as what follows: futures are moved whole, several times.
        match Box::pin(self.accounts.vouch(token, audiences, now)).await {
            Ok(Some(vouched)) => return Ok(vouched),
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
        if is_for_api && let Some(bootstrap) = &self.bootstrap {
            match Box::pin(bootstrap.user(token, now)).await {
                Ok(Some(user)) => return Ok(Vouched::new(Arc::new(user), api, Notes::default())),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        if is_for_api {
            match Box::pin(self.issuers.vouch(token, account, now)).await {
                Ok(Some(mut user)) => {
                    join_authenticated(&mut user);
                    return Ok(Vouched::new(Arc::new(user), api, Notes::default()));
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        if let Some(webhook) = &self.webhook {
            match Box::pin(webhook.vouch(token, (audiences, self.api_audiences()), account)).await {
                Ok(Some(vouched)) => return Ok(vouched),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() {
            errors.push(TokenError::Unknown);
        }
        Err(errors)
    }
}
