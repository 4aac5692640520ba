//! A client certificate whose key is elsewhere, such as in a TPM (AT-118).

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{ClientConfig, Error, SignatureAlgorithm, SignatureScheme};

use super::TlsError;
use super::client::trusting;
use crate::hash::sha256;
use crate::pem;

/// A private key on P-256 that is elsewhere.
pub trait RemoteKey: Send + Sync {
    /// Signs the SHA-256 digest of a message. The signature is in DER form. It may block the thread.
    ///
    /// # Errors
    /// Why it cannot.
    fn sign(&self, digest: &[u8; 32]) -> Result<Vec<u8>, String>;
}

/// The certificate that a client presents, with its key. It can be replaced; new handshakes use the new one.
#[derive(Default)]
pub struct RemoteIdentity {
    current: ArcSwapOption<CertifiedKey>,
}

impl RemoteIdentity {
    /// Replaces the certificate chain, in PEM form, and its key.
    ///
    /// # Errors
    /// There is no certificate in the text.
    pub fn replace(&self, chain_pem: &[u8], key: Arc<dyn RemoteKey>) -> Result<(), TlsError> {
        let chain: Vec<_> = pem::certificates(chain_pem).collect();
        if chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = Arc::new(Remote(key));
        self.current.store(Some(Arc::new(CertifiedKey::new(chain, key))));
        Ok(())
    }
}

impl fmt::Debug for RemoteIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteIdentity(..)")
    }
}

impl ResolvesClientCert for RemoteIdentity {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let is_possible = schemes.contains(&SignatureScheme::ECDSA_NISTP256_SHA256);
        is_possible.then(|| self.current.load_full()).flatten()
    }

    fn has_certs(&self) -> bool {
        self.current.load().is_some()
    }
}

/// The configuration of a client that trusts these authorities, in PEM form, and presents the current certificate of an
/// identity. Sessions are not resumed: a ticket would be a credential that works without the key.
///
/// # Errors
/// No usable authority.
pub fn client_of(roots_pem: &[u8], identity: Arc<RemoteIdentity>) -> Result<ClientConfig, TlsError> {
    let (_, builder) = trusting(roots_pem)?;
    let mut config = builder.with_client_cert_resolver(identity);
    config.resumption = Resumption::disabled();
    Ok(config)
}

struct Remote(Arc<dyn RemoteKey>);

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Remote(..)")
    }
}

impl SigningKey for Remote {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = offered.contains(&SignatureScheme::ECDSA_NISTP256_SHA256);
        is_offered.then(|| Box::new(Self(Arc::clone(&self.0))) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for Remote {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        self.0.sign(&sha256(message)).map_err(Error::General)
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP256_SHA256
    }
}
