//! Certificate authorities out of files, read again when they change (AN-40).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pki::cert::CaBundleError;
use pki::{CaBundle, pem};
use portcullis_pki as pki;

use crate::service::App;

/// How often files are looked at. They are small, and a mounted one changes in ways that a watch does not see.
const PERIOD: Duration = Duration::from_secs(1);

/// A file that is followed, and its contents when it was last looked at.
#[derive(Debug)]
pub(super) struct Followed {
    path: PathBuf,
    last: Vec<u8>,
}

impl Followed {
    /// A file that can be used as it is now.
    pub(super) fn read(path: PathBuf) -> Result<(Self, CaBundle), AuthorityFileError> {
        let last = read(&path)?;
        let found = bundle(&path, &last)?;
        Ok((Self { path, last }, found))
    }

    /// Waits until there is something new in it.
    pub(super) async fn changed(&mut self) -> Result<CaBundle, AuthorityFileError> {
        loop {
            tokio::time::sleep(PERIOD).await;
            if let Some(new) = self.contents().await {
                return bundle(&self.path, &new);
            }
        }
    }

    /// The new contents, if there are any.
    async fn contents(&mut self) -> Option<Vec<u8>> {
        let new = tokio::fs::read(&self.path).await.ok().filter(|new| *new != self.last)?;
        self.last.clone_from(&new);
        Some(new)
    }
}

/// The files of authorities.
#[derive(Debug, Default)]
pub struct AuthorityFiles {
    /// The server's own authority, in PEM, which always counts.
    own: String,
    clients: Option<Followed>,
    front_proxies: Option<Followed>,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityFileError {
    /// It holds no authorities.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// Why.
        source: CaBundleError,
    },
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl AuthorityFiles {
    /// The same, with the server's own authority, in PEM.
    #[must_use]
    pub fn with_own(mut self, own: &str) -> Self {
        own.clone_into(&mut self.own);
        self
    }

    /// Adds the file of `--client-ca-file`.
    ///
    /// DIVERGES: the server's own authority vouches for clients as well; with it the administrator's certificate is
    /// made.
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

    /// The authorities that vouch for clients.
    ///
    /// # Errors
    /// There is none.
    pub fn clients(&self) -> Result<CaBundle, CaBundleError> {
        self.clients_with(self.clients.as_ref().map_or(&[], |file| &file.last))
    }

    fn clients_with(&self, file: &[u8]) -> Result<CaBundle, CaBundleError> {
        CaBundle::from_pem(&[self.own.as_bytes(), b"\n", file].concat())
    }

    /// The authorities that vouch for front proxies; nothing if there is no file of them.
    ///
    /// # Errors
    /// There is none in the file.
    pub fn front_proxies(&self) -> Result<Option<CaBundle>, CaBundleError> {
        self.front_proxies.as_ref().map(|file| CaBundle::from_pem(&file.last)).transpose()
    }

    /// Whether an authority vouches for both (AN-36).
    pub fn share_one(&self) -> bool {
        let blocks =
            |file: &Option<Followed>| file.as_ref().map(|file| pem::blocks(&file.last)).unwrap_or_default();
        let clients = [blocks(&self.clients), pem::blocks(self.own.as_bytes())].concat();
        blocks(&self.front_proxies).iter().any(|block| clients.contains(block))
    }

    /// Puts what changes in force, until it is dropped. A file that cannot be used changes nothing.
    pub async fn follow(mut self, app: Arc<App>) {
        if self.clients.is_none() && self.front_proxies.is_none() {
            return;
        }
        loop {
            tokio::time::sleep(PERIOD).await;
            if let Some(new) = changed(&mut self.clients).await {
                match self.clients_with(&new) {
                    // What holds no authority at all is a file that is being written, not the end of all.
                    Ok(bundle) if CaBundle::from_pem(&new).is_ok() => {
                        app.authentication().replace_clients(bundle);
                        tracing::info!("the authorities of clients have changed");
                    }
                    _ => tracing::error!(
                        "--client-ca-file cannot be used any more; what it held before counts"
                    ),
                }
            }
            if let Some(new) = changed(&mut self.front_proxies).await {
                match CaBundle::from_pem(&new) {
                    Ok(bundle) => {
                        app.authentication().replace_front_proxies(bundle);
                        tracing::info!("the authorities of front proxies have changed");
                    }
                    Err(error) => tracing::error!(
                        %error,
                        "--requestheader-client-ca-file cannot be used any more; what it held before counts"
                    ),
                }
            }
        }
    }
}

/// The new contents of a file, if there are any.
async fn changed(file: &mut Option<Followed>) -> Option<Vec<u8>> {
    file.as_mut()?.contents().await
}

fn read(path: &Path) -> Result<Vec<u8>, AuthorityFileError> {
    std::fs::read(path).map_err(|source| AuthorityFileError::File { path: path.to_owned(), source })
}

fn bundle(path: &Path, text: &[u8]) -> Result<CaBundle, AuthorityFileError> {
    CaBundle::from_pem(text).map_err(|source| AuthorityFileError::Bundle { path: path.to_owned(), source })
}
