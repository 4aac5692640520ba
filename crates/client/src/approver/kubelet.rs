//! Reads the current serving certificate of a kubelet (NB-110).

use std::sync::Arc;
use std::time::Duration;

use portcullis_pki::shown::Shown;
use portcullis_pki::tls;
use portcullis_policy::approval::machine::{DialTarget, Leaf};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::facts;

/// The timeout for connecting and the handshake together.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Connects to a kubelet, verifies that its certificate is issued by this CA and valid for the dialled address, and
/// returns it. No request is sent and no credentials are presented.
///
/// # Errors
/// There is no valid certificate, with the reason.
pub(super) async fn current(target: DialTarget, authority_pem: &str) -> Result<Leaf, String> {
    let config = tls::client(authority_pem.as_bytes(), None)
        .map_err(|error| format!("KubeletCAUnavailable: the kubelet CA is invalid: {error}"))?;
    let shaking = async {
        let stream = TcpStream::connect(target.socket()).await?;
        let name = ServerName::IpAddress(target.host.into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    let at = target.socket();
    let connected = tokio::time::timeout(TIMEOUT, shaking)
        .await
        .map_err(|_| format!("{at}: no response in {} s", TIMEOUT.as_secs()))?
        .map_err(|error| format!("{at}: {error}"))?;
    let (_, session) = connected.get_ref();
    let leaf = session.peer_certificates().and_then(|chain| chain.first());
    let leaf = leaf.ok_or_else(|| format!("{at}: no certificate was presented"))?;
    let shown = Shown::read(leaf).map_err(|error| format!("{at}: {error}"))?;
    Ok(facts::leaf(shown))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::SystemTime;

    use portcullis_pki::ca::{CertificateAuthority, Template, Usage};
    use portcullis_pki::key::KeyPair;
    use portcullis_pki::pem;
    use portcullis_pki::tls::ServerTls;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn authority(now: SystemTime) -> CertificateAuthority {
        CertificateAuthority::generate("kubelets", now, DAY * 100).unwrap()
    }

    /// A kubelet at this address, with a certificate for that host, issued at that time.
    async fn kubelet(
        at: &str,
        host: &str,
        issuer: &CertificateAuthority,
        made: SystemTime,
    ) -> Option<DialTarget> {
        let template = Template {
            common_name: "system:node:worker-0".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            dns_names: vec!["worker-0".to_owned()],
            ip_addresses: vec![host.parse().unwrap()],
            usage: Usage::Server,
            lifetime: DAY,
        };
        let key = KeyPair::generate().unwrap();
        let certificate = issuer.issue(&template, &key, made).unwrap();
        let tls = ServerTls::new(pem::encode("CERTIFICATE", &certificate).as_bytes(), &key).unwrap();
        let host: IpAddr = at.parse().unwrap();
        // Skipped on a machine without IPv6.
        let listener = TcpListener::bind((host, 0)).await.ok()?;
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let acceptor = TlsAcceptor::from(tls.config());
            while let Ok((stream, _)) = listener.accept().await {
                let _ = acceptor.accept(stream).await;
            }
        });
        Some(DialTarget { host, port })
    }

    #[tokio::test]
    async fn the_certificate_of_a_kubelet_is_read_over_ipv4_and_ipv6_nb_110_nb_158() {
        let now = SystemTime::now();
        let trusted = authority(now);
        for host in ["127.0.0.1", "::1"] {
            let Some(target) = kubelet(host, host, &trusted, now).await else { continue };
            let leaf = current(target, &trusted.certificate_pem()).await.unwrap();
            assert_eq!(leaf.common_name, "system:node:worker-0");
            assert_eq!((leaf.dns, leaf.ip), (vec!["worker-0".to_owned()], vec![target.host]));
        }
    }

    #[tokio::test]
    async fn what_is_expired_foreign_or_for_another_host_counts_for_nothing_nb_110_nb_158_t18() {
        let now = SystemTime::now();
        let (trusted, foreign) = (authority(now - DAY * 10), authority(now));
        let expired = kubelet("127.0.0.1", "127.0.0.1", &trusted, now - DAY * 3).await.unwrap();
        let other_host = kubelet("127.0.0.1", "10.0.0.1", &trusted, now).await.unwrap();
        let other_issuer = kubelet("127.0.0.1", "127.0.0.1", &foreign, now).await.unwrap();
        for target in [expired, other_host, other_issuer] {
            let why = current(target, &trusted.certificate_pem()).await.unwrap_err();
            assert!(why.contains(&target.socket().to_string()) && why.contains("certificate"), "{why}");
        }
    }

    #[tokio::test]
    async fn nobody_there_and_no_authority_are_told_apart_nb_58() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target =
            DialTarget { host: "127.0.0.1".parse().unwrap(), port: free.local_addr().unwrap().port() };
        drop(free);
        let authority = authority(SystemTime::now()).certificate_pem();
        assert!(current(target, &authority).await.unwrap_err().contains("refused"));
        assert!(current(target, "no certificate").await.unwrap_err().contains("KubeletCAUnavailable"));
    }
}
