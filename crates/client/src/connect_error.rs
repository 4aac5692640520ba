//! The errors of configuring a connection, shared by connections and kubeconfig files.

use std::path::PathBuf;

/// The connection cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// A file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A kubeconfig is invalid or incomplete.
    #[error("{origin}: {why}")]
    Kubeconfig {
        /// The file or files.
        origin: String,
        /// The fault, and how to fix it.
        why: String,
    },
    /// No configuration was found.
    #[error("no API server to connect to: {looked}; name a kubeconfig with --kubeconfig or in KUBECONFIG")]
    Nowhere {
        /// The places that were searched.
        looked: String,
    },
    /// The parts are inconsistent.
    #[error("cannot connect to {server}: {why}")]
    Parts {
        /// The server's URL.
        server: String,
        /// A description of the error.
        why: String,
    },
}

/// Describes an error with its causes, without repetition.
pub fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
