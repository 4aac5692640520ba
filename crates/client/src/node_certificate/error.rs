//! Why there is no certificate, and what to do about it.

use std::path::PathBuf;
use std::time::Duration;

use super::files::{FileError, LockError};
use super::kubeconfig::WriteError;
use super::manager::{self, Why};
use super::request::{IssuedError, NodeNameError};
use super::store::StoreError;
use crate::call::CallError;
use crate::connect::ConnectError;

/// No certificate.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The lock.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node's name.
    #[error(transparent)]
    NodeName(#[from] NodeNameError),
    /// How to connect.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The kubeconfig.
    #[error(transparent)]
    Kubeconfig(#[from] WriteError),
    /// The server.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A credential that everybody can read (NB-18).
    #[error("{} can be read or written by everybody: chmod 0600 it, and replace the credential in it", .0.display())]
    Exposed(PathBuf),
    /// There is nothing to ask with.
    #[error(
        "no --bootstrap-kubeconfig: without one there is nothing that says where to ask for a certificate for {}",
        .0.display()
    )]
    NoBootstrap(PathBuf),
    /// A request of our name that is not ours (CS-133).
    #[error("the request {name} is there and is not ours: {why}; find out who made it, and delete it")]
    Foreign {
        /// Its name.
        name: String,
        /// What is different.
        why: String,
    },
    /// Somebody said no (CS-104).
    #[error("the request {name} is {how}: {why}; delete it to ask again")]
    Refused {
        /// Its name.
        name: String,
        /// `Denied` or `Failed`.
        how: String,
        /// Why.
        why: String,
    },
    /// The request is gone (CS-104).
    #[error("the request {0} was deleted while it was waited for")]
    Gone(String),
    /// The certificate is of no use.
    #[error(
        "the certificate that was issued for the request {name} is of no use: {why}; delete the request to ask again"
    )]
    Useless {
        /// The name of the request.
        name: String,
        /// Why.
        why: IssuedError,
    },
    /// Nobody has answered.
    #[error(
        "the request {name} is still waiting for {} after {} s; it stays, and the next start goes on waiting",
        if *is_approved { "the signer" } else { "approval" }, waited.as_secs()
    )]
    Pending {
        /// Its name.
        name: String,
        /// Whether only the signature is missing.
        is_approved: bool,
        /// For how long it was waited.
        waited: Duration,
    },
    /// There is no reason to go on (CS-139).
    #[error("{}", match .0 {
        Why::Expired => "the certificate has expired, and the server issues no other",
        Why::Missing => "there has been no certificate for five minutes, although the server answers",
    })]
    Ended(Why),
    /// The observer has said so.
    #[error("stopped")]
    Stopped,
}

impl CredentialError {
    /// Whether the server answered (CS-107).
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

    /// Whether trying again can help without anybody doing anything on this machine.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Call(CallError::Unreachable { .. }) | Self::Gone(_) => true,
            Self::Call(error) => error.code().is_some_and(|code| code >= 500 || code == 429),
            Self::Useless { why, .. } => *why == IssuedError::Expired,
            _ => false,
        }
    }
}
