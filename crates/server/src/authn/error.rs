//! Why nobody is known to ask.

use std::fmt;

use pki::cert::VerifyError;
use policy::rules::aggregate;
use portcullis_client::review::ReviewError;

use super::certificate::BootstrapError;
use super::request_header::FrontProxyError;
use super::token_error::TokenError;

/// AN-77
const INVALIDATED: &str = "authentication.k8s.io/legacy-token-invalidated";

/// No credential was accepted. The response is 401, and the causes are only logged (AN-20). Its text never contains any
/// part of a credential.
#[derive(Debug)]
pub struct Unauthorized(pub(super) Vec<Failure>);

impl Unauthorized {
    /// Returns whether no usable credential was presented.
    pub(crate) fn is_for_want_of_credentials(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a credential could not be checked, and may be accepted later.
    pub(crate) fn is_undecided(&self) -> bool {
        self.0.iter().any(|failure| match failure {
            Failure::Review(error) => error.is_undecided(),
            Failure::Token(TokenError::Waiting) => true,
            _ => false,
        })
    }

    /// The audit annotations about the credentials, by key (AN-77).
    pub(crate) fn annotations(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.iter().filter_map(|failure| match failure {
            Failure::Token(TokenError::Marked { secret, .. }) => Some((INVALIDATED, secret.clone())),
            _ => None,
        })
    }
}

impl fmt::Display for Unauthorized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&aggregate(&causes).unwrap_or_else(|| "no credentials".to_owned()))
    }
}

impl std::error::Error for Unauthorized {}

/// Why a credential was not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The certificate is not a bootstrap credential.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The certificate does not verify.
    #[error(transparent)]
    Certificate(#[from] VerifyError),
    /// The peer is not a front proxy.
    #[error(transparent)]
    FrontProxy(#[from] FrontProxyError),
    /// The API server could not review the token.
    #[error(transparent)]
    Review(#[from] ReviewError),
    /// The token was not accepted.
    #[error(transparent)]
    Token(#[from] TokenError),
}
