//! The client side of TLS: trusted authorities, and our own certificate.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::{TlsError, certified};
use crate::cert::is_current;
use crate::key::KeyPair;
use crate::pem;

/// The bundles of trusted authorities on common systems.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The files that may hold the system's trusted authorities, in the order in which to try them.
pub fn system_bundles() -> &'static [&'static str] {
    &SYSTEM_BUNDLES
}

/// The configuration of a client that trusts these authorities and presents this certificate, both in PEM form.
///
/// # Errors
/// No usable authority, or a key that does not belong to the certificate.
pub fn client(roots_pem: &[u8], identity: Option<(&[u8], &KeyPair)>) -> Result<ClientConfig, TlsError> {
    let (provider, builder) = trusting(roots_pem)?;
    presenting(&provider, builder, identity)
}

/// The configuration of a client that encrypts, but accepts any certificate of the server, and presents this certificate, in
/// PEM form.
///
/// # Errors
/// A key that does not belong to the certificate.
pub fn unverified(identity: Option<(&[u8], &KeyPair)>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider.signature_verification_algorithms)));
    presenting(&provider, builder, identity)
}

/// Ends a configuration with the certificate that the client presents, if any.
fn presenting(
    provider: &CryptoProvider,
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: Option<(&[u8], &KeyPair)>,
) -> Result<ClientConfig, TlsError> {
    Ok(match identity {
        None => builder.with_no_client_auth(),
        Some((chain_pem, key)) => {
            // Checks that the key belongs to the certificate.
            certified(provider, chain_pem, key)?;
            builder.with_client_auth_cert(
                pem::certificates(chain_pem).collect(),
                key.private_der().clone_key(),
            )?
        }
    })
}

/// The beginning of a configuration that trusts these authorities.
pub(super) fn trusting(
    roots_pem: &[u8],
) -> Result<(Arc<CryptoProvider>, ConfigBuilder<ClientConfig, WantsClientCert>), TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let trusted: Vec<_> = pem::certificates(roots_pem).collect();
    let mut roots = RootCertStore::empty();
    // A system's bundle may hold certificates that the library cannot read; only an empty result is an error.
    let (added, _) = roots.add_parsable_certificates(trusted.iter().cloned());
    if added == 0 {
        return Err(TlsError::NoCertificate);
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| TlsError::Refused(Error::General(error.to_string())))?;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { verifier, trusted }));
    Ok((provider, builder))
}

/// A configuration that trusts nobody, for a service without TLS.
///
/// # Errors
/// None that this library's defaults allow.
pub fn plain() -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// Accepts any certificate whose key the server has.
#[derive(Debug)]
struct Anybody(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Verifies as usual, but also accepts a server certificate that is itself trusted although it is an authority's, as
/// self-signed certificates are. Its names and dates must be valid.
#[derive(Debug)]
struct Pinned {
    verifier: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Pinned {
    fn is_pinned(
        &self,
        shown: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<bool, Error> {
        if !self.trusted.iter().any(|trusted| trusted.as_ref() == shown.as_ref()) {
            return Ok(false);
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
        Ok(is_current(shown, SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs())))
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual =
            self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match usual {
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.is_pinned(end_entity, server_name, now)? =>
            {
                Ok(ServerCertVerified::assertion())
            }
            usual => usual,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
