//! The errors of a certificate authority.

use crate::cert::VerifyError;
use crate::key::KeyError;

/// A certificate authority that cannot be created, read or used.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// A certificate cannot be encoded.
    #[error("cannot make a certificate: {0}")]
    Build(String),
    /// The certificate cannot be read.
    #[error("the certificate authority's certificate cannot be read")]
    Certificate(#[from] VerifyError),
    /// The authority has expired (CS-66).
    #[error("the certificate authority has expired")]
    Expired,
    /// A key cannot be created, read or used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key does not belong to the certificate.
    #[error("the certificate authority's key does not belong to its certificate")]
    Mismatch,
    /// No certificate in the text.
    #[error("no certificate in PEM form")]
    NoCertificate,
    /// A certificate cannot hold the subject of the request.
    #[error("the request's subject has text that a certificate cannot hold")]
    Subject,
    /// More than one certificate in the text (CS-72).
    #[error("more than one certificate where the authority's own is expected")]
    TooMany,
}

impl From<x509_cert::der::Error> for CaError {
    fn from(error: x509_cert::der::Error) -> Self {
        Self::Build(error.to_string())
    }
}
