//! The files for TLS with another server: its authority, and the certificate and key of this client. They are read
//! again when they change, or held in memory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pki::KeyPair;
use pki::key::KeyError;
use pki::tls::{ClientConfig, TlsError};

/// The interval at which the files are checked.
const PERIOD: Duration = Duration::from_secs(10);

/// The text of a source that is held in memory, as it is now.
type Held = Arc<dyn Fn() -> Vec<u8> + Send + Sync>;

/// The source of a PEM text.
#[derive(Clone)]
pub(crate) enum Source {
    /// A file.
    File(PathBuf),
    /// Memory, under this name in errors.
    Held(&'static str, Held),
}

impl Source {
    /// A text that never changes.
    pub(crate) fn fixed(name: &'static str, text: String) -> Self {
        Self::Held(name, Arc::new(move || text.clone().into_bytes()))
    }

    fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Held(name, _) => Path::new(name),
        }
    }

    fn read(&self) -> Result<Vec<u8>, TlsFilesError> {
        match self {
            Self::File(path) => {
                std::fs::read(path).map_err(|source| TlsFilesError::File { path: path.clone(), source })
            }
            Self::Held(_, text) => Ok(text()),
        }
    }

    fn is(&self, other: &Self) -> bool {
        matches!((self, other), (Self::File(one), Self::File(other)) if one == other)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.path().display())
    }
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
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
    /// The certificates cannot be used.
    #[error("{} with {}: {source}", authority.display(), certificate.display())]
    Tls {
        /// The file of the server's authority.
        authority: PathBuf,
        /// The file of the client's certificate.
        certificate: PathBuf,
        /// Why.
        source: TlsError,
    },
}

/// The sources of all parts.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    /// The authority of the server, or its very certificate.
    pub(crate) authority: Source,
    /// The client's certificate.
    pub(crate) certificate: Source,
    /// Its key.
    pub(crate) key: Source,
}

/// The contents that were read.
#[derive(PartialEq, Eq)]
pub(crate) struct Texts {
    authority: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl TlsFiles {
    /// Reads everything.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn read(&self) -> Result<Texts, TlsFilesError> {
        let certificate = self.certificate.read()?;
        // One file may contain both: it is then read once, so that a renewal cannot cause a mismatch.
        let key = match self.key.is(&self.certificate) {
            true => certificate.clone(),
            false => self.key.read()?,
        };
        Ok(Texts { authority: self.authority.read()?, certificate, key })
    }

    /// TLS with a server that must have a certificate of the authority.
    ///
    /// # Errors
    /// The key or a certificate is invalid.
    pub(crate) fn verifying(&self, texts: &Texts) -> Result<ClientConfig, TlsFilesError> {
        let key = self.key(texts)?;
        pki::tls::client(&texts.authority, Some((&texts.certificate, &key)))
            .map_err(|source| self.refused(source))
    }

    /// TLS with whoever answers.
    ///
    /// # Errors
    /// The key or the client's certificate is invalid.
    pub(crate) fn unverified(&self, texts: &Texts) -> Result<ClientConfig, TlsFilesError> {
        let key = self.key(texts)?;
        pki::tls::unverified(Some((&texts.certificate, &key))).map_err(|source| self.refused(source))
    }

    fn key(&self, texts: &Texts) -> Result<KeyPair, TlsFilesError> {
        KeyPair::from_pem(&texts.key)
            .map_err(|source| TlsFilesError::Key { path: self.key.path().to_owned(), source })
    }

    pub(super) fn refused(&self, source: TlsError) -> TlsFilesError {
        let [authority, certificate] = [&self.authority, &self.certificate].map(|of| of.path().to_owned());
        TlsFilesError::Tls { authority, certificate, source }
    }

    /// Takes changed texts up, until the future is dropped. What cannot be used is logged, and changes nothing.
    pub(crate) async fn follow(&self, take_up: impl Fn(&Texts) -> Result<(), TlsFilesError>) {
        let mut last = self.read().ok();
        loop {
            tokio::time::sleep(PERIOD).await;
            let Ok(new) = self.read() else { continue };
            if last.as_ref() == Some(&new) {
                continue;
            }
            match take_up(&new) {
                Ok(()) => tracing::info!(files = ?self, "the files have changed; new connections use them"),
                Err(error) => tracing::error!(%error, "what was read before remains in use"),
            }
            last = Some(new);
        }
    }
}
