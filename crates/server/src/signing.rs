//! The certificate authority of each signer (CS-71, CS-72). Files are reloaded when they change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use pki::CertificateAuthority;
use pki::ca::CaError;
use policy::approval::Signer;

/// The interval at which files are checked. Files are small, and file events miss some changes of mounted ones.
const PERIOD: Duration = Duration::from_secs(1);

/// The default maximum lifetime of certificates (`--cluster-signing-duration`).
pub const USUAL_LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A certificate authority in two PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificate file, with exactly one certificate.
    pub certificate: PathBuf,
    /// The key file.
    pub key: PathBuf,
}

/// The authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The files do not form a certificate authority.
    #[error("{}: {source}", certificate.display())]
    Authority {
        /// The file of the certificate.
        certificate: PathBuf,
        /// Why.
        source: CaError,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// See the module.
#[derive(Debug)]
pub struct Signing {
    authorities: BTreeMap<Signer, Arc<Authority>>,
    longest: Duration,
}

/// A certificate authority and its source.
#[derive(Debug)]
struct Authority {
    source: Option<Pair>,
    current: ArcSwap<Current>,
}

#[derive(Debug)]
enum Current {
    Usable(Arc<CertificateAuthority>),
    /// The file contains more than one certificate, so it is ambiguous.
    Ambiguous,
}

impl Signing {
    /// Uses one authority for all signers, with this maximum lifetime.
    pub fn by_one(authority: CertificateAuthority, longest: Duration) -> Self {
        let authority =
            Authority { source: None, current: ArcSwap::from_pointee(Current::Usable(Arc::new(authority))) };
        Self::shared(authority, longest)
    }

    /// Like [`Self::by_one`], with an authority in files.
    ///
    /// # Errors
    /// See [`SigningError`].
    pub fn by_one_pair(pair: Pair, longest: Duration) -> Result<Self, SigningError> {
        Ok(Self::shared(Authority::open(pair)?, longest))
    }

    fn shared(authority: Authority, longest: Duration) -> Self {
        let authority = Arc::new(authority);
        let authorities = Signer::ALL.into_iter().map(|signer| (signer, Arc::clone(&authority))).collect();
        Self { authorities, longest }
    }

    /// Uses separate authorities for these signers; other signers are disabled.
    ///
    /// # Errors
    /// See [`SigningError`].
    pub fn by_pairs(
        pairs: impl IntoIterator<Item = (Signer, Pair)>,
        longest: Duration,
    ) -> Result<Self, SigningError> {
        let open = |(signer, pair)| Ok((signer, Arc::new(Authority::open(pair)?)));
        Ok(Self { authorities: pairs.into_iter().map(open).collect::<Result<_, SigningError>>()?, longest })
    }

    /// Returns the authority of a signer; none if the signer is disabled.
    ///
    /// # Errors
    /// The authority is not usable at present.
    pub(crate) fn authority(&self, signer: Signer) -> Result<Option<Arc<CertificateAuthority>>, CaError> {
        let Some(authority) = self.authorities.get(&signer) else { return Ok(None) };
        match &**authority.current.load() {
            Current::Usable(authority) => Ok(Some(Arc::clone(authority))),
            Current::Ambiguous => Err(CaError::TooMany),
        }
    }

    /// Returns the maximum lifetime of certificates.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    /// Reloads changed files until the future is dropped (CS-72). An invalid pair changes nothing.
    pub async fn follow(self: Arc<Self>) {
        let mut followed: Vec<(Arc<Authority>, Pair, Vec<Vec<u8>>)> = Vec::new();
        for authority in self.authorities.values() {
            if let Some(pair) = &authority.source
                && !followed.iter().any(|(known, ..)| Arc::ptr_eq(known, authority))
            {
                followed.push((Arc::clone(authority), pair.clone(), Vec::new()));
            }
        }
        while !followed.is_empty() {
            for (authority, pair, last) in &mut followed {
                let (Ok(certificate), Ok(key)) =
                    (tokio::fs::read(&pair.certificate).await, tokio::fs::read(&pair.key).await)
                else {
                    if !last.is_empty() {
                        let path = pair.certificate.display();
                        tracing::error!(%path, "it or its key cannot be read; what was there before goes on signing");
                        last.clear();
                    }
                    continue;
                };
                let new = vec![certificate, key];
                if new != *last {
                    authority.take_up(&new, &pair.certificate, !last.is_empty());
                    *last = new;
                }
            }
            tokio::time::sleep(PERIOD).await;
        }
    }
}

impl Authority {
    fn open(pair: Pair) -> Result<Self, SigningError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| SigningError::File { path: path.to_owned(), source })
        };
        let authority =
            CertificateAuthority::from_single_pem(&read(&pair.certificate)?, &read(&pair.key)?).map_err(
                |source| SigningError::Authority { certificate: pair.certificate.clone(), source },
            )?;
        let current = ArcSwap::from_pointee(Current::Usable(Arc::new(authority)));
        Ok(Self { source: Some(pair), current })
    }

    fn take_up(&self, files: &[Vec<u8>], path: &Path, is_change: bool) {
        let [certificate, key] = files else { return };
        let path = path.display();
        let new = match CertificateAuthority::from_single_pem(certificate, key) {
            Ok(authority) => {
                if is_change {
                    tracing::info!(%path, "the signing certificate authority was reloaded");
                }
                Current::Usable(Arc::new(authority))
            }
            Err(error @ CaError::TooMany) => {
                tracing::error!(%path, %error, "nothing is signed until this is put right");
                Current::Ambiguous
            }
            Err(error) => {
                tracing::error!(%path, %error, "cannot be used; what was there before goes on signing");
                return;
            }
        };
        self.current.store(Arc::new(new));
    }
}
