//! The serving certificate, reloaded when its files change.
//!
//! Files are compared by content: a mounted Secret changes by moving a symbolic link, which file events miss.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pki::KeyPair;
use pki::key::KeyError;
use pki::tls::{ServerTls, TlsError};

use super::listener::ConnectionMetrics;

/// The interval at which the files are checked, as that of other files.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// The certificate and key files.
pub struct ServingCertificate {
    certificate: PathBuf,
    key: PathBuf,
    /// The contents that were last loaded or refused.
    seen: Option<(Vec<u8>, Vec<u8>)>,
}

/// The files are unusable.
#[derive(Debug, thiserror::Error)]
pub enum ServingCertificateError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The key is invalid.
    #[error("{}: {source}", path.display())]
    Key {
        /// Which.
        path: PathBuf,
        /// Why.
        source: KeyError,
    },
    /// The certificate is invalid, or does not match the key.
    #[error("{}: {source}", path.display())]
    Certificate {
        /// Which.
        path: PathBuf,
        /// Why.
        source: TlsError,
    },
}

impl ServingCertificate {
    /// Uses the certificate chain and the key in these files, both in PEM.
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self { certificate, key, seen: None }
    }

    /// Loads the current contents of the files. Returns true if they have changed.
    ///
    /// # Errors
    /// See [`ServingCertificateError`]. The previous certificate remains in use. Refused contents are not tried again
    /// until they change.
    pub fn take_up(&mut self, tls: &ServerTls) -> Result<bool, ServingCertificateError> {
        let chain = read(&self.certificate)?;
        // One file may contain both, as with kubelets: it is then read once, so that a renewal cannot cause a mismatch.
        let key = if self.key == self.certificate { chain.clone() } else { read(&self.key)? };
        if self.seen.as_ref().is_some_and(|(seen, of)| *seen == chain && *of == key) {
            return Ok(false);
        }
        let pair = KeyPair::from_pem(&key);
        let (chain, _) = self.seen.insert((chain, key));
        let pair = pair.map_err(|source| ServingCertificateError::Key { path: self.key.clone(), source })?;
        tls.reload(chain, &pair).map_err(|source| ServingCertificateError::Certificate {
            path: self.certificate.clone(),
            source,
        })?;
        Ok(true)
    }

    /// Reloads the files when they change, and never returns. Exports when the certificate expires.
    pub async fn follow(mut self, tls: ServerTls, metrics: ConnectionMetrics, every: Duration) {
        export_expiry(&tls, &metrics);
        loop {
            tokio::time::sleep(every).await;
            match self.take_up(&tls) {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(file = %self.certificate.display(), "the serving certificate has changed");
                    export_expiry(&tls, &metrics);
                }
                Err(error) => tracing::error!(%error, "the serving certificate is not changed"),
            }
        }
    }
}

/// Sets the metric of when the certificate that is served expires.
fn export_expiry(tls: &ServerTls, metrics: &ConnectionMetrics) {
    match tls.not_after() {
        Ok(time) => metrics.certificate_expires(time),
        Err(error) => tracing::error!(%error, "cannot read when the serving certificate expires"),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ServingCertificateError> {
    std::fs::read(path).map_err(|source| ServingCertificateError::File { path: path.to_owned(), source })
}
