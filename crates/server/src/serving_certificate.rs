//! The serving certificate, taken up anew when its files change.
//!
//! Files are compared by what is in them: a mounted Secret changes by moving a link, which says nothing of the file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pki::KeyPair;
use pki::key::KeyError;
use pki::tls::{ServerTls, TlsError};
use portcullis_pki as pki;

/// How often to look.
pub const INTERVAL: Duration = Duration::from_secs(60);

/// The files of a certificate and its key.
pub struct ServingCertificate {
    certificate: PathBuf,
    key: PathBuf,
    /// What was taken up, or refused, last.
    seen: Option<(Vec<u8>, Vec<u8>)>,
}

/// Files that cannot be used.
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
    /// The key is none.
    #[error("{}: {source}", path.display())]
    Key {
        /// Which.
        path: PathBuf,
        /// Why.
        source: KeyError,
    },
    /// The certificate is none, or does not belong to the key.
    #[error("{}: {source}", path.display())]
    Certificate {
        /// Which.
        path: PathBuf,
        /// Why.
        source: TlsError,
    },
}

impl ServingCertificate {
    /// The certificate chain and the key in these files, both in PEM form.
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self { certificate, key, seen: None }
    }

    /// Serves what is in the files now. True: it is something new.
    ///
    /// # Errors
    /// See [`ServingCertificateError`]. What was served before is served on. What is refused once is not looked at again
    /// until it changes.
    pub fn take_up(&mut self, tls: &ServerTls) -> Result<bool, ServingCertificateError> {
        let chain = read(&self.certificate)?;
        // One file may hold both, as kubelets have it: read once, it is never torn by a renewal.
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

    /// Takes up what changes, for ever.
    pub async fn follow(mut self, tls: ServerTls, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            match self.take_up(&tls) {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(file = %self.certificate.display(), "the serving certificate has changed")
                }
                Err(error) => tracing::error!(%error, "the serving certificate is not changed"),
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ServingCertificateError> {
    std::fs::read(path).map_err(|source| ServingCertificateError::File { path: path.to_owned(), source })
}
