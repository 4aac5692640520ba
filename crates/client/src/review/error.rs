//! Why there is no answer to a review.

/// The maximum size of an access review, most of which is the user.
pub(super) const QUESTION_BYTES: usize = 256 << 10;

/// There is no valid response. The request that needed it must be refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The server cannot be reached.
    #[error("cannot reach the API server {server}: {why}")]
    Unreachable {
        /// The server's URL.
        server: String,
        /// Why.
        why: String,
    },
    /// The API server refuses the review: we lack the permission, or it cannot answer.
    #[error("the API server refuses the review: {message} ({code})")]
    Refused {
        /// The status code.
        code: u16,
        /// The message for people.
        message: String,
    },
    /// The response cannot be read as a review.
    #[error("the API server's {kind} cannot be read: {why}")]
    Answer {
        /// The kind of review.
        kind: String,
        /// The error. Never the response itself.
        why: String,
    },
    /// The token is rejected with a reason (KA-44). It contains no part of the token.
    #[error("{0}")]
    Token(String),
    /// The API server both allows and denies the request. That counts as denied (KA-53).
    #[error("the API server both allows and denies the request")]
    Contradiction,
    /// The review is too large.
    #[error("the review is larger than {QUESTION_BYTES} bytes")]
    TooLarge,
    /// Too many other reviews are waiting for the API server.
    #[error("too many reviews are waiting for the API server {server}")]
    Busy {
        /// The server's URL.
        server: String,
    },
}

impl ReviewError {
    /// Returns whether the API server has decided nothing, and may decide when it is asked again.
    pub fn is_undecided(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Refused { .. } | Self::Answer { .. } | Self::Busy { .. } => true,
            Self::Token(_) | Self::Contradiction | Self::TooLarge => false,
        }
    }
}
