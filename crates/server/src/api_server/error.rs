//! The errors with which an API server does not start.

use crate::authn::AuthenticationError;
use crate::bootstrap::BootstrapError;
use crate::registry::cluster::ClusterError;
use crate::registry::cluster::seed::SeedError;

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration, or a file that it names, is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The address or the data directory is not available.
    #[error("{0}")]
    Unavailable(String),
}

impl StartError {
    pub(super) fn invalid(error: impl std::fmt::Display) -> Self {
        Self::Invalid(error.to_string())
    }

    pub(super) fn unavailable(error: impl std::fmt::Display) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<ClusterError> for StartError {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::Seed(SeedError::File(_)) | ClusterError::Engine(_) => Self::invalid(error),
            error => Self::unavailable(error),
        }
    }
}

impl From<AuthenticationError> for StartError {
    fn from(error: AuthenticationError) -> Self {
        match error {
            AuthenticationError::DataDir(error) => Self::unavailable(error),
            error => Self::invalid(error),
        }
    }
}

impl From<BootstrapError> for StartError {
    fn from(error: BootstrapError) -> Self {
        Self::unavailable(error)
    }
}
