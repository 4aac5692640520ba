//! Why a patch is not applied, and the code of the answer.

/// The maximum number of operations in a patch.
pub const MAX_OPERATIONS: usize = 10_000;

/// An error of applying a patch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is malformed: 400.
    #[error("{0}")]
    Malformed(String),
    /// It has too many operations: 413.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// It cannot be applied to the object: 422 without causes.
    #[error("{0}")]
    Unprocessable(String),
    /// Its result is not an object: 422 with the cause `patch`.
    #[error("the result is no object")]
    NotAnObject,
    /// It requests an impossible merge: 500.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    /// The status code of the response.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooManyOperations(_) => 413,
            Self::Unprocessable(_) | Self::NotAnObject => 422,
            Self::Internal(_) => 500,
        }
    }
}
