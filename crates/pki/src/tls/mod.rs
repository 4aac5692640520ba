//! The TLS handshake: serves our certificate, asks clients for theirs, and verifies that they have its key.
//!
//! Client certificates are not verified here: authentication does that, and answers 401 (AN-40).

mod client;
mod remote;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WantsServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    ConfigBuilder, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    WantsVerifier,
};
use rustls_pki_types::{CertificateDer, UnixTime};

use crate::cert::{VerifyError, not_after_der};
use crate::key::KeyPair;
use crate::pem;

pub use client::{client, plain, system_bundles, unverified};
pub use remote::{RemoteIdentity, RemoteKey, client_of};
pub use rustls::ClientConfig;

/// A serving certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate in the text.
    #[error("no certificate in PEM form")]
    NoCertificate,
    /// The key does not belong to the certificate, or the TLS library does not support it.
    #[error("the serving certificate cannot be used: {0}")]
    Refused(#[from] Error),
}

/// The server side of TLS. Clones share the certificate.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    serving: Arc<Serving>,
}

impl ServerTls {
    /// A server with this certificate chain, in PEM form, and its key.
    ///
    /// # Errors
    /// A key that does not belong to the certificate.
    pub fn new(chain_pem: &[u8], key: &KeyPair) -> Result<Self, TlsError> {
        Self::with(chain_pem, key, |builder, verifier| builder.with_client_cert_verifier(Arc::new(verifier)))
    }

    /// As [`Self::new`], but does not ask clients for a certificate (KA-5): for servers without authorities of clients.
    ///
    /// # Errors
    /// A key that does not belong to the certificate.
    pub fn asking_nobody(chain_pem: &[u8], key: &KeyPair) -> Result<Self, TlsError> {
        Self::with(chain_pem, key, |builder, _| builder.with_no_client_auth())
    }

    fn with(
        chain_pem: &[u8],
        key: &KeyPair,
        ask: impl FnOnce(
            ConfigBuilder<ServerConfig, WantsVerifier>,
            PossessionOnly,
        ) -> ConfigBuilder<ServerConfig, WantsServerCert>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let serving = Arc::new(Serving {
            current: ArcSwap::from_pointee(certified(&provider, chain_pem, key)?),
            provider: Arc::clone(&provider),
        });
        let verifier = PossessionOnly { algorithms: provider.signature_verification_algorithms };
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config =
            ask(builder, verifier).with_cert_resolver(Arc::clone(&serving) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), serving })
    }

    /// Changes the certificate for new handshakes. An unusable certificate changes nothing.
    ///
    /// # Errors
    /// A key that does not belong to the certificate.
    pub fn reload(&self, chain_pem: &[u8], key: &KeyPair) -> Result<(), TlsError> {
        self.serving.current.store(Arc::new(certified(&self.serving.provider, chain_pem, key)?));
        Ok(())
    }

    /// When the certificate that is served expires.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub fn not_after(&self) -> Result<SystemTime, VerifyError> {
        let serving = self.serving.current.load();
        not_after_der(serving.cert.first().map_or(&[], |leaf| leaf))
    }

    /// The configuration for the TLS library.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls(..)")
    }
}

fn certified(provider: &CryptoProvider, chain_pem: &[u8], key: &KeyPair) -> Result<CertifiedKey, TlsError> {
    let chain: Vec<_> = pem::certificates(chain_pem).collect();
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    Ok(CertifiedKey::from_der(chain, key.private_der().clone_key(), provider)?)
}

/// The certificate that is served, whatever server name the client sends.
struct Serving {
    current: ArcSwap<CertifiedKey>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Serving(..)")
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// Asks for a certificate, accepts any or none, and verifies the handshake signature alone.
#[derive(Debug)]
struct PossessionOnly {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for PossessionOnly {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // Says nothing about the certificate: see the module's documentation.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
