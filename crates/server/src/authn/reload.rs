//! Certificate authorities from files, reloaded when the files change (AN-40).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pki::cert::CaBundleError;
use pki::{CaBundle, pem};

use super::authentication::Authentication;

/// The interval at which files are checked. Files are small, and file events miss some changes of mounted ones.
const PERIOD: Duration = Duration::from_secs(1);

/// A file that is checked for changes, and its last contents.
#[derive(Debug)]
pub(super) struct Followed {
    path: PathBuf,
    last: Vec<u8>,
}

impl Followed {
    /// Reads a file that must be valid.
    pub(super) fn read(path: PathBuf) -> Result<(Self, CaBundle), AuthorityFileError> {
        let last = read(&path)?;
        let found = bundle(&path, &last)?;
        Ok((Self { path, last }, found))
    }

    /// Waits for new contents.
    pub(super) async fn changed(&mut self) -> Result<CaBundle, AuthorityFileError> {
        loop {
            tokio::time::sleep(PERIOD).await;
            if let Some(new) = self.contents().await {
                return bundle(&self.path, &new);
            }
        }
    }

    /// Returns the new contents, if any.
    async fn contents(&mut self) -> Option<Vec<u8>> {
        let new = tokio::fs::read(&self.path).await.ok().filter(|new| *new != self.last)?;
        self.last.clone_from(&new);
        Some(new)
    }
}

/// The CA files.
#[derive(Debug, Default)]
pub struct AuthorityFiles {
    /// The server's own CA in PEM, which is always trusted.
    own: String,
    clients: Option<Followed>,
    front_proxies: Option<Followed>,
}

/// An unusable file.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityFileError {
    /// The file contains no certificates.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CaBundleError,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl AuthorityFiles {
    /// Adds the server's own CA, in PEM.
    #[must_use]
    pub fn with_own(mut self, own: &str) -> Self {
        own.clone_into(&mut self.own);
        self
    }

    /// Adds the file of `--client-ca-file`.
    ///
    /// DIVERGES: the server's own CA is trusted for clients as well, because it issues the administrator's certificate.
    ///
    /// # Errors
    /// See [`AuthorityFileError`].
    pub fn with_clients(mut self, path: PathBuf) -> Result<Self, AuthorityFileError> {
        self.clients = Some(Followed::read(path)?.0);
        Ok(self)
    }

    /// Adds the file of `--requestheader-client-ca-file`.
    ///
    /// # Errors
    /// See [`AuthorityFileError`].
    pub fn with_front_proxies(mut self, path: PathBuf) -> Result<Self, AuthorityFileError> {
        self.front_proxies = Some(Followed::read(path)?.0);
        Ok(self)
    }

    /// The certificates of the client CAs, in PEM, and nothing else of the file.
    pub(super) fn clients_pem(&self) -> String {
        let file = self.clients.as_ref().map(|file| certificates(&file.last)).unwrap_or_default();
        certificates(self.own.as_bytes()) + &file
    }

    /// The certificates of the front proxy CAs, in PEM, and nothing else of the file; none without a file.
    pub(super) fn front_proxies_pem(&self) -> Option<String> {
        self.front_proxies.as_ref().map(|file| certificates(&file.last))
    }

    /// Returns the client CAs.
    ///
    /// # Errors
    /// There is none.
    pub fn clients(&self) -> Result<CaBundle, CaBundleError> {
        self.clients_with(self.clients.as_ref().map_or(&[], |file| &file.last))
    }

    fn clients_with(&self, file: &[u8]) -> Result<CaBundle, CaBundleError> {
        CaBundle::from_pem(&[self.own.as_bytes(), b"\n", file].concat())
    }

    /// Returns the front proxy CAs; none without a file.
    ///
    /// # Errors
    /// The file contains none.
    pub fn front_proxies(&self) -> Result<Option<CaBundle>, CaBundleError> {
        self.front_proxies.as_ref().map(|file| CaBundle::from_pem(&file.last)).transpose()
    }

    /// Returns whether a CA is trusted for both (AN-36).
    pub fn share_one(&self) -> bool {
        let blocks =
            |file: &Option<Followed>| file.as_ref().map(|file| pem::blocks(&file.last)).unwrap_or_default();
        let clients = [blocks(&self.clients), pem::blocks(self.own.as_bytes())].concat();
        blocks(&self.front_proxies).iter().any(|block| clients.contains(block))
    }

    /// Applies changes of the file until the future is dropped. An invalid file changes nothing.
    pub async fn follow(mut self, authentication: Arc<Authentication>) {
        if self.clients.is_none() && self.front_proxies.is_none() {
            return;
        }
        let mut is_published = true;
        loop {
            tokio::time::sleep(PERIOD).await;
            if !is_published {
                is_published = publish(&authentication, &self).await;
            }
            if let Some(new) = changed(&mut self.clients).await {
                match self.clients_with(&new) {
                    // A file without any certificate is probably being written, and does not revoke everything.
                    Ok(bundle) if CaBundle::from_pem(&new).is_ok() => {
                        authentication.replace_clients(bundle);
                        is_published = publish(&authentication, &self).await;
                        tracing::info!("the authorities of clients have changed");
                    }
                    _ => tracing::error!("--client-ca-file is invalid; its previous contents remain in use"),
                }
            }
            if let Some(new) = changed(&mut self.front_proxies).await {
                match CaBundle::from_pem(&new) {
                    Ok(bundle) => {
                        authentication.replace_front_proxies(bundle);
                        is_published = publish(&authentication, &self).await;
                        tracing::info!("the front proxy certificate authorities were reloaded");
                    }
                    Err(error) => tracing::error!(
                        %error,
                        "--requestheader-client-ca-file is invalid; its previous contents remain in use"
                    ),
                }
            }
        }
    }
}

/// Tells other servers what has changed. Returns whether that worked.
async fn publish(authentication: &Authentication, files: &AuthorityFiles) -> bool {
    let published = authentication.publish(files).await;
    if let Err(status) = &published {
        tracing::error!(
            error = status.message(),
            "the changed authorities are not published yet; trying again"
        );
    }
    published.is_ok()
}

/// The certificates of a text, in PEM.
fn certificates(text: &[u8]) -> String {
    let blocks = pem::blocks(text).into_iter().filter(|block| block.label == "CERTIFICATE");
    blocks.map(|block| pem::encode(&block.label, &block.der)).collect()
}

/// Returns the new contents of a file, if any.
async fn changed(file: &mut Option<Followed>) -> Option<Vec<u8>> {
    file.as_mut()?.contents().await
}

fn read(path: &Path) -> Result<Vec<u8>, AuthorityFileError> {
    std::fs::read(path).map_err(|source| AuthorityFileError::File { path: path.to_owned(), source })
}

fn bundle(path: &Path, text: &[u8]) -> Result<CaBundle, AuthorityFileError> {
    CaBundle::from_pem(text).map_err(|source| AuthorityFileError::Bundle { path: path.to_owned(), source })
}
