//! Errors of obtaining a certificate, with advice.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::manager::{self, Why};
use super::request::{IssuedError, NodeNameError};
use portcullis_pki::pair::PairError;

use crate::call::CallError;
use crate::connect::ConnectError;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {}: {source}{}", path.display(), advice(source))]
pub struct FileError {
    /// The attempted operation.
    pub verb: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; make room on the disk, and it goes on where it was"
        }
        io::ErrorKind::PermissionDenied => "; run it as the owner of the files, usually root",
        io::ErrorKind::ReadOnlyFilesystem => "; name a directory that can be written to",
        _ => "",
    }
}

/// No certificate was obtained.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file error.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another process holds the lock.
    #[error(
        "{holder} is asking for a certificate into {}: wait until it is done, or stop it ({} is locked)",
        dir.display(), path.display()
    )]
    Held {
        /// The directory.
        dir: PathBuf,
        /// The lock file.
        path: PathBuf,
        /// The process that holds it.
        holder: String,
    },
    /// A key file is invalid (CS-131).
    #[error("{}: {why}; remove it, and a new key is made", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// There is a file in the place of a link (CS-111).
    #[error(
        "{} is a file and should be a link: move it away, or to the target of the link",
        .0.display()
    )]
    NotLink(PathBuf),
    /// A file does not contain a certificate with its key.
    #[error("{}: {source}", path.display())]
    Pair {
        /// The file.
        path: PathBuf,
        /// Why.
        source: PairError,
    },
    /// The node name is invalid.
    #[error(transparent)]
    NodeName(#[from] NodeNameError),
    /// The connection cannot be configured.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The API request failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The credentials are world-readable (NB-18).
    #[error("{} is accessible to everybody: chmod 0600 it, and replace the credentials in it", .0.display())]
    Exposed(PathBuf),
    /// There are no credentials to request a certificate with.
    #[error(
        "no --bootstrap-kubeconfig: without one there is nothing that says where to ask for a certificate for {}",
        .0.display()
    )]
    NoBootstrap(PathBuf),
    /// A request with our name is not ours (CS-133).
    #[error("the request {name} exists and is not ours: {why}; find out who created it, and delete it")]
    Foreign {
        /// Its name.
        name: String,
        /// The difference.
        why: String,
    },
    /// The request was denied or failed (CS-104).
    #[error("the request {name} is {how}: {why}; delete it to ask again")]
    Refused {
        /// Its name.
        name: String,
        /// `Denied` or `Failed`.
        how: String,
        /// Why.
        why: String,
    },
    /// The request was deleted (CS-104).
    #[error("the request {0} was deleted while it was waited for")]
    Gone(String),
    /// The certificate is unusable.
    #[error(
        "the certificate issued for the request {name} is unusable: {why}; delete the request to try again"
    )]
    Useless {
        /// The name of the request.
        name: String,
        /// Why.
        why: IssuedError,
    },
    /// The request is still pending.
    #[error(
        "the request {name} is still waiting for {} after {} s; it stays, and the next start goes on waiting",
        if *is_approved { "the signer" } else { "approval" }, waited.as_secs()
    )]
    Pending {
        /// Its name.
        name: String,
        /// Whether only the signature is missing.
        is_approved: bool,
        /// The time waited.
        waited: Duration,
    },
    /// There is no reason to continue (CS-139).
    #[error("{}", match .0 {
        Why::Expired => "the certificate has expired, and the server issues no other",
        Why::Missing => "there was no certificate for five minutes, although the server responds",
    })]
    Ended(Why),
    /// The observer stopped the agent.
    #[error("stopped")]
    Stopped,
}

impl CredentialError {
    /// Returns whether the server responded (CS-107).
    pub(super) fn is_server_well(&self) -> bool {
        match self {
            Self::Call(error) => manager::is_server_well(error),
            Self::Foreign { .. }
            | Self::Refused { .. }
            | Self::Gone(_)
            | Self::Useless { .. }
            | Self::Pending { .. } => true,
            _ => false,
        }
    }

    /// Returns whether a retry can succeed without a change on this machine.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Call(CallError::Unreachable { .. }) | Self::Gone(_) => true,
            Self::Call(error) => error.code().is_some_and(|code| code >= 500 || code == 429),
            Self::Useless { why, .. } => *why == IssuedError::Expired,
            _ => false,
        }
    }
}
