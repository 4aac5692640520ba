//! Why a token is not accepted.

use pki::jwt::{ClaimsError, SignatureError};

use portcullis_apimachinery::quote::quoted;

/// The token was not accepted. The text never contains any part of the token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The token is for other audiences (AN-73).
    #[error("token audiences {} is invalid for the target audiences {}", list(tokens), list(wanted))]
    Audience {
        /// The audiences of the token.
        tokens: Vec<String>,
        /// The accepted audiences.
        wanted: Vec<String>,
    },
    /// A claim is missing or wrong.
    #[error(transparent)]
    Claims(#[from] ClaimsError),
    /// The claims contradict each other (AN-75).
    #[error("the subject of the token is not the service account that it names")]
    Subject,
    /// The account or an object that the token is bound to does not exist (AN-83 to AN-86), or the token is marked as
    /// invalid.
    #[error("service account token has been invalidated")]
    Invalidated,
    /// The secret of the token is marked as invalid (AN-77).
    #[error("the token is invalid: its secret has the label {label}; remove the label to use it again")]
    Marked {
        /// The secret, as `NAME/NAMESPACE`.
        secret: String,
        /// The label.
        label: &'static str,
    },
    /// Refused, with this message.
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
    /// No accepted key has signed the token.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// An object that the token depends on cannot be read.
    #[error("what the token depends on cannot be read")]
    Store,
    /// AN-53.
    #[error("missing additional subprotocol")]
    NoOtherSubprotocol,
    /// AN-53.
    #[error("the subprotocols do not contain exactly one token in base64url")]
    Subprotocol,
    /// Others are asked about too many tokens of this caller.
    #[error("too many tokens of this caller wait for a review")]
    Waiting,
    /// The token webhook cannot be asked, or did not answer (AN-56).
    #[error("the token webhook has not answered")]
    Webhook,
    /// No authenticator recognizes the token (AN-52).
    #[error("invalid bearer token")]
    Unknown,
}

/// Formats a list of strings as Go does with `%q`.
fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", quoted.join(" "))
}
