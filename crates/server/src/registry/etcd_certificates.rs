//! The certificates of connections to etcd, taken up again when their files change.
//!
//! Files are compared by content: a mounted Secret changes by moving a symbolic link, which file events miss. What cannot be used
//! changes nothing.
//!
//! DIVERGES: kube-apiserver reads the client certificate for every new connection, and the authorities at its start only. Here both
//! are read every few seconds, and used for new connections, which are made at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use portcullis_store::etcd::{LiveTls, Tls};

/// The interval at which the files are read.
const EVERY: Duration = Duration::from_secs(5);

/// The files of the certificates, all in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The authorities that etcd's certificate is verified with (`--etcd-cafile`).
    pub authority: Option<PathBuf>,
    /// The client certificate and its key (`--etcd-certfile`, `--etcd-keyfile`).
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl CertificateFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read: its flag, and why.
    pub fn read(&self) -> Result<Tls, String> {
        let authority = self.authority.as_deref().map(|file| read("etcd-cafile", file)).transpose()?;
        let identity = match &self.identity {
            Some((certificate, key)) => {
                Some((read("etcd-certfile", certificate)?, read("etcd-keyfile", key)?))
            }
            None => None,
        };
        Ok(Tls { authority, identity })
    }

    /// Uses the files when they change from `seen`, which is in force. Never returns.
    pub(crate) async fn follow(self, mut seen: Tls, live: Arc<LiveTls>) {
        // Each problem is logged once.
        let mut complaint = None;
        loop {
            tokio::time::sleep(EVERY).await;
            let problem = match self.read() {
                Ok(tls) if tls == seen => continue,
                // What was refused is not tried again until it changes.
                Ok(tls) => {
                    seen = tls.clone();
                    live.replace(tls).map_err(|error| error.to_string()).err()
                }
                Err(problem) => Some(problem),
            };
            match &problem {
                None => tracing::info!("the certificates for etcd were reloaded"),
                Some(error) if complaint != problem => {
                    tracing::error!(error, "the certificates for etcd cannot be used; those in force stay");
                }
                Some(_) => {}
            }
            complaint = problem;
        }
    }
}

fn read(flag: &str, file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("--{flag} {}: {error}", file.display()))
}
