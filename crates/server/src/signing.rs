//! Which authority signs for which signer (CS-71, CS-72). Files are read again when they change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use pki::CertificateAuthority;
use pki::ca::CaError;
use policy::approval::Signer;
use portcullis_pki as pki;
use portcullis_policy as policy;

/// How often files are looked at. They are small, and a mounted one changes in ways that a watch does not see.
const PERIOD: Duration = Duration::from_secs(1);

/// The longest that a certificate is valid, unless `--cluster-signing-duration` says otherwise.
pub const USUAL_LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A certificate authority in two files, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, one only.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// An authority that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The files do not make an authority.
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

/// An authority, and where it comes from.
#[derive(Debug)]
struct Authority {
    source: Option<Pair>,
    current: ArcSwap<Current>,
}

#[derive(Debug)]
enum Current {
    Usable(Arc<CertificateAuthority>),
    /// The file holds more than one certificate: nobody knows which is meant.
    Ambiguous,
}

impl Signing {
    /// One authority signs for all signers, for at most this long.
    pub fn by_one(authority: CertificateAuthority, longest: Duration) -> Self {
        let authority =
            Authority { source: None, current: ArcSwap::from_pointee(Current::Usable(Arc::new(authority))) };
        Self::shared(authority, longest)
    }

    /// As [`Self::by_one`], with an authority in files.
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

    /// Each of these signers has an authority of its own; others do not sign.
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

    /// Who signs for a signer; nothing if nobody does.
    ///
    /// # Errors
    /// Somebody does, but cannot at present.
    pub(crate) fn authority(&self, signer: Signer) -> Result<Option<Arc<CertificateAuthority>>, CaError> {
        let Some(authority) = self.authorities.get(&signer) else { return Ok(None) };
        match &**authority.current.load() {
            Current::Usable(authority) => Ok(Some(Arc::clone(authority))),
            Current::Ambiguous => Err(CaError::TooMany),
        }
    }

    /// The longest that a certificate is valid.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    /// Reads files again that have changed, until it is dropped (CS-72). A pair that cannot be used changes nothing.
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
                    tracing::info!(%path, "the authority that signs certificates has changed");
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
