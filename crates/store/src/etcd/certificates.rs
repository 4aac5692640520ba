//! The certificates of connections to etcd, which can be replaced while the store is open.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::StoreError;

/// The certificates of connections to etcd, in PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The authorities that etcd's certificate is verified with.
    pub authority: Option<Vec<u8>>,
    /// The client certificate with its chain, and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for Tls {
    /// Never shows the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("has_identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

impl Tls {
    fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new();
        if let Some(authority) = &self.authority {
            config = config.ca_certificate(Certificate::from_pem(authority));
        }
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        config
    }
}

/// The certificates in force. New calls are made with those of that moment, on new connections; calls in progress and watches go
/// on.
#[derive(Debug, Default)]
pub struct LiveTls(ArcSwap<Tls>);

impl From<Tls> for Arc<LiveTls> {
    fn from(tls: Tls) -> Self {
        Self::new(LiveTls(ArcSwap::from_pointee(tls)))
    }
}

impl LiveTls {
    /// Replaces the certificates.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for what cannot be used, such as a key that is not that of the certificate. The ones in force stay.
    pub fn replace(&self, tls: Tls) -> Result<(), StoreError> {
        secured(Endpoint::from_static("https://etcd.invalid"), &tls)
            .map_err(|error| StoreError::Refused(error.to_string()))?;
        self.0.store(Arc::new(tls));
        Ok(())
    }

    /// The certificates in force now.
    pub(super) fn current(&self) -> Arc<Tls> {
        self.0.load_full()
    }

    /// Whether these are in force.
    pub(super) fn is_current(&self, tls: &Arc<Tls>) -> bool {
        Arc::ptr_eq(&self.0.load(), tls)
    }
}

/// An address with what is needed to connect to it.
pub(super) fn secured(endpoint: Endpoint, tls: &Tls) -> Result<Endpoint, tonic::transport::Error> {
    match endpoint.uri().scheme_str() {
        Some("https") => endpoint.tls_config(tls.config()),
        _ => Ok(endpoint),
    }
}
