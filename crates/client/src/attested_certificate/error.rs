//! Errors, each with its exit code (AT-17).

use crate::call::CallError;
use crate::connect::ConnectError;
use crate::node_certificate::error::FileError;
use crate::node_certificate::request::NodeNameError;

/// No certificate was obtained.
#[derive(Debug, thiserror::Error)]
pub enum AttestedError {
    /// Something that may pass: the network, the TPM, or waiting.
    #[error("{0}")]
    Temporary(String),
    /// The flags do not fit together.
    #[error("{0}")]
    Usage(String),
    /// There is neither a usable certificate nor a bootstrap credential.
    #[error("there is no usable certificate, and no bootstrap credential to ask for one: {0}")]
    NoCredential(String),
    /// The controller refused.
    #[error("{reason}: {message}")]
    Refused {
        /// The reason code.
        reason: String,
        /// The message for people.
        message: String,
    },
    /// The controller speaks no version of evidence that this program speaks.
    #[error("the controller supports the versions {0:?} of evidence; this program has v1")]
    Version(String),
    /// The cache is not as it must be: permissions, owners, or keys that do not match.
    #[error("{0}")]
    Integrity(String),
    /// The observer stopped the process, in tests.
    #[error("stopped")]
    Stopped,
}

impl AttestedError {
    /// The exit code (AT-17).
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Temporary(_) | Self::Stopped => 1,
            Self::Usage(_) => 2,
            Self::NoCredential(_) => 3,
            Self::Refused { .. } => 4,
            Self::Version(_) => 5,
            Self::Integrity(_) => 6,
        }
    }
}

impl From<FileError> for AttestedError {
    fn from(error: FileError) -> Self {
        Self::Integrity(error.to_string())
    }
}

impl From<CallError> for AttestedError {
    /// A request that the API server refuses may pass once an administrator has granted it.
    fn from(error: CallError) -> Self {
        Self::Temporary(error.to_string())
    }
}

impl From<ConnectError> for AttestedError {
    fn from(error: ConnectError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<NodeNameError> for AttestedError {
    fn from(error: NodeNameError) -> Self {
        Self::Usage(error.to_string())
    }
}
