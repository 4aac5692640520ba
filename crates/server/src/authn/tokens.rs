//! Whose token is it? Every kind of token, in the order of kube-apiserver (AN-10), and for whom the token is (AN-55).

use std::sync::Arc;
use std::time::SystemTime;

use pki::jwt::{ClaimsError, SignatureError};
use policy::User;
use portcullis_pki as pki;
use portcullis_policy as policy;

use super::Caller;
use super::bootstrap_token::BootstrapTokens;
use super::service_account::{DEFAULT_ISSUER, ServiceAccounts};
use crate::go::quoted;
use crate::token_file::TokenFile;

/// A token that is not accepted. No text of it shows any part of the token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// For somebody else (AN-73).
    #[error("token audiences {} is invalid for the target audiences {}", list(tokens), list(wanted))]
    Audience {
        /// Whom it is for.
        tokens: Vec<String>,
        /// Who was to accept it.
        wanted: Vec<String>,
    },
    /// A claim is missing or wrong.
    #[error(transparent)]
    Claims(#[from] ClaimsError),
    /// The claims contradict each other (AN-75).
    #[error("the subject of the token is not the service account that it names")]
    Subject,
    /// The account or the object that it is bound to is gone (AN-83 to AN-86), or it is marked as no longer good.
    #[error("service account token has been invalidated")]
    Invalidated,
    /// As said.
    #[error("{0}")]
    Refused(String),
    /// AN-82.
    #[error("service account token has expired")]
    Expired,
    /// AN-82.
    #[error("service account token is not valid yet")]
    NotYet,
    /// AN-82.
    #[error("service account token is issued in the future")]
    FromTheFuture,
    /// Nobody has signed it.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// What the token depends on cannot be read.
    #[error("what the token depends on cannot be read")]
    Store,
    /// AN-53.
    #[error("missing additional subprotocol")]
    NoOtherSubprotocol,
    /// AN-53.
    #[error("the subprotocols hold no single token in base64url")]
    Subprotocol,
    /// A token that nobody recognises (AN-52).
    #[error("invalid bearer token")]
    Unknown,
}

/// As Go prints a list of strings with `%q`.
fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", quoted.join(" "))
}

/// Somebody for whom a token vouches, and for which of the audiences that were asked for.
#[derive(Debug)]
pub(super) struct Vouched {
    user: Arc<User>,
    audiences: Vec<String>,
    warning: Option<&'static str>,
}

impl Vouched {
    pub(super) fn new(user: Arc<User>, audiences: Vec<String>, warning: Option<&'static str>) -> Self {
        Self { user, audiences, warning }
    }

    pub(super) fn into_caller(self) -> Caller {
        Caller { warning: self.warning, ..Caller::of(self.user) }
    }

    pub(super) fn into_parts(self) -> (Arc<User>, Vec<String>) {
        (self.user, self.audiences)
    }
}

/// Those of the wanted audiences that are among these, in the order in which they are wanted.
pub(super) fn shared(these: &[String], wanted: &[String]) -> Vec<String> {
    wanted.iter().filter(|audience| these.contains(audience)).cloned().collect()
}

/// Every kind of token.
pub(super) struct Tokens {
    /// Whom tokens are for that do not say it, and whom requests are for.
    pub(super) api_audiences: Vec<String>,
    pub(super) file: TokenFile,
    pub(super) accounts: Option<Arc<ServiceAccounts>>,
    pub(super) bootstrap: Option<BootstrapTokens>,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            api_audiences: vec![DEFAULT_ISSUER.to_owned()],
            file: TokenFile::default(),
            accounts: None,
            bootstrap: None,
        }
    }
}

impl Tokens {
    /// Whose token it is, for somebody among these.
    ///
    /// # Errors
    /// Nobody's. What went wrong on the way, or [`TokenError::Unknown`] (AN-52).
    pub(super) async fn vouch(
        &self,
        token: &[u8],
        audiences: &[String],
        now: SystemTime,
    ) -> Result<Vouched, Vec<TokenError>> {
        // AN-55: these know of no audience but the API server's.
        let api = shared(&self.api_audiences, audiences);
        let is_for_api = !api.is_empty();
        if is_for_api && let Some(user) = self.file.user(token) {
            return Ok(Vouched::new(Arc::clone(user), api, None));
        }
        let mut errors = Vec::new();
        if let Some(accounts) = &self.accounts {
            match accounts.vouch(token, audiences, now).await {
                Ok(Some(vouched)) => return Ok(vouched),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        if is_for_api && let Some(bootstrap) = &self.bootstrap {
            match bootstrap.user(token, now).await {
                Ok(Some(user)) => return Ok(Vouched::new(Arc::new(user), api, None)),
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
