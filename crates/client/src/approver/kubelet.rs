//! The certificate with which a kubelet answers now (NB-110).

use std::sync::Arc;
use std::time::Duration;

use portcullis_pki::shown::Shown;
use portcullis_pki::tls;
use portcullis_policy::approval::machine::{DialTarget, Leaf};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::facts;

/// Connecting and the handshake together.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Dials a kubelet, verifies that its certificate comes from this authority and is for the address that was dialled,
/// and reads it. Nothing is sent and no credential is shown.
///
/// # Errors
/// Why there is no certificate to go by.
pub(super) async fn current(target: DialTarget, authority_pem: &str) -> Result<Leaf, String> {
    let config = tls::client(authority_pem.as_bytes(), None).map_err(|error| {
        format!("KubeletCAUnavailable: the authority of kubelets cannot be used: {error}")
    })?;
    let shaking = async {
        let stream = TcpStream::connect(target.socket()).await?;
        let name = ServerName::IpAddress(target.host.into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    let at = target.socket();
    let connected = tokio::time::timeout(TIMEOUT, shaking)
        .await
        .map_err(|_| format!("{at}: no answer in {} s", TIMEOUT.as_secs()))?
        .map_err(|error| format!("{at}: {error}"))?;
    let (_, session) = connected.get_ref();
    let leaf = session.peer_certificates().and_then(|chain| chain.first());
    let leaf = leaf.ok_or_else(|| format!("{at}: no certificate was shown"))?;
    let shown = Shown::read(leaf).map_err(|error| format!("{at}: {error}"))?;
    Ok(facts::leaf(shown))
}
