//! A proxy on the node through which a kubelet uses a client certificate whose key never leaves the TPM (AT-118).
//!
//! The kubelet connects to a loopback address, over TLS, with a certificate that the proxy made after the last boot. The proxy
//! connects to the API server as the node, and passes bytes in both directions. It does not read what it passes: watches,
//! upgrades and HTTP/2 work as without it, and it adds no authority.
//!
//! Nobody but one user of the machine is let in, by the user of the connection and by the certificate.

mod files;
mod peer;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use portcullis_pki::tls::{ClientConfig, RemoteIdentity, RemoteKey, ServerTls, TlsError, client_of};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::node_certificate::error::FileError;
pub use files::ProxyFiles;

/// How many connections there are at once. A kubelet has a few.
const MOST: usize = 256;
/// How long a handshake may take. The TPM may take a second.
const HANDSHAKE: Duration = Duration::from_secs(20);
/// How long to wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// What a proxy is for.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Where it listens: a loopback address.
    pub listen: SocketAddr,
    /// The URL of the API server.
    pub server: String,
    /// The authorities of the API server, in PEM.
    pub certificate_authority: Vec<u8>,
    /// The only user whose connections are accepted.
    pub allowed_uid: u32,
    /// The directory of the files for the kubelet.
    pub dir: PathBuf,
}

/// The proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The address is not one of this machine alone.
    #[error("{0} is not a loopback address: everybody in the network could reach the proxy")]
    NotLoopback(SocketAddr),
    /// The address cannot be bound.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The URL of the API server cannot be used.
    #[error("{0:?} is not the URL of an API server: expected https://HOST:PORT")]
    Server(String),
    /// A certificate cannot be made or used.
    #[error("{0}")]
    Certificate(String),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<TlsError> for ProxyError {
    fn from(error: TlsError) -> Self {
        Self::Certificate(error.to_string())
    }
}

/// A proxy that listens.
pub struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    files: ProxyFiles,
    shared: Arc<Shared>,
}

struct Shared {
    acceptor: TlsAcceptor,
    /// The certificate that callers must present.
    client: CertificateDer<'static>,
    identity: Arc<RemoteIdentity>,
    /// The client sides for HTTP/2, HTTP/1.1, and without a protocol.
    connectors: [(Option<&'static [u8]>, TlsConnector); 3],
    host: String,
    port: u16,
    name: ServerName<'static>,
    allowed_uid: u32,
    /// Changes when the identity does.
    generation: watch::Sender<u64>,
}

/// Replaces the certificate of a proxy.
#[derive(Clone)]
pub struct ProxyIdentity {
    shared: Arc<Shared>,
}

impl ProxyIdentity {
    /// Replaces the certificate, in PEM form, and its key. Open connections end, as those of a kubelet do when it rotates
    /// its certificate.
    ///
    /// # Errors
    /// There is no certificate in the text.
    pub fn replace(&self, chain_pem: &[u8], key: Arc<dyn RemoteKey>) -> Result<(), ProxyError> {
        self.shared.identity.replace(chain_pem, key)?;
        self.shared.generation.send_modify(|generation| *generation = generation.wrapping_add(1));
        Ok(())
    }
}

impl Proxy {
    /// Listens, and writes the files for the kubelet. Until there is a certificate, connections are closed.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub async fn listen(options: &ProxyOptions) -> Result<Self, ProxyError> {
        if !options.listen.ip().is_loopback() {
            return Err(ProxyError::NotLoopback(options.listen));
        }
        let bad = || ProxyError::Server(options.server.clone());
        let url: http::Uri = options.server.parse().map_err(|_| bad())?;
        let is_https = url.scheme_str() == Some("https");
        let host = url.host().filter(|_| is_https).ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host.clone()).map_err(|_| bad())?;
        let listen = |source| ProxyError::Listen { address: options.listen, source };
        let listener = TcpListener::bind(options.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (files, secrets) = ProxyFiles::write(&options.dir, address)?;
        let tls = ServerTls::new(secrets.server_chain.as_bytes(), &secrets.server_key)?;
        let identity = Arc::new(RemoteIdentity::default());
        let base = client_of(&options.certificate_authority, Arc::clone(&identity))?;
        let connector = |protocol: Option<&'static [u8]>| {
            let mut config: ClientConfig = base.clone();
            config.alpn_protocols = protocol.iter().map(|protocol| protocol.to_vec()).collect();
            (protocol, TlsConnector::from(Arc::new(config)))
        };
        let shared = Arc::new(Shared {
            acceptor: TlsAcceptor::from(tls.config()),
            client: secrets.client,
            identity,
            connectors: [connector(Some(b"h2")), connector(Some(b"http/1.1")), connector(None)],
            host,
            port: url.port_u16().unwrap_or(443),
            name,
            allowed_uid: options.allowed_uid,
            generation: watch::Sender::new(0),
        });
        Ok(Self { listener, address, files, shared })
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The files for the kubelet.
    pub fn files(&self) -> &ProxyFiles {
        &self.files
    }

    /// What replaces the certificate.
    pub fn identity(&self) -> ProxyIdentity {
        ProxyIdentity { shared: Arc::clone(&self.shared) }
    }

    /// Passes connections on until the future is dropped.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(MOST));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, peer)) = self.listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let (shared, address) = (Arc::clone(&self.shared), self.address);
            connections.spawn(async move {
                if let Err(why) = shared.pass(stream, peer, address).await {
                    tracing::warn!(%peer, why, "a connection to the TPM proxy ended");
                }
                drop(place);
            });
        }
    }
}

impl Shared {
    /// Passes one connection on.
    async fn pass(&self, stream: TcpStream, peer: SocketAddr, own: SocketAddr) -> Result<(), String> {
        let mut replaced = self.generation.subscribe();
        let uid = tokio::task::spawn_blocking(move || peer::uid(peer, own));
        let uid = uid.await.map_err(|error| error.to_string())?;
        if uid != Some(self.allowed_uid) {
            return Err(format!("it is of user {uid:?}, not of user {}", self.allowed_uid));
        }
        let accepted = tokio::time::timeout(HANDSHAKE, self.acceptor.accept(stream)).await;
        let mut near = accepted.map_err(|_| "the handshake takes too long")?.map_err(|e| e.to_string())?;
        let (_, session) = near.get_ref();
        let shown = session.peer_certificates().and_then(<[_]>::first);
        if shown != Some(&self.client) {
            return Err("the caller does not present the certificate of this boot".to_owned());
        }
        let protocol = session.alpn_protocol().map(<[u8]>::to_vec);
        let connector = self.connectors.iter().find(|(known, _)| *known == protocol.as_deref());
        let (_, connector) = connector.ok_or("an unknown protocol")?;
        let connecting = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            connector.connect(self.name.clone(), stream).await
        };
        let far = tokio::time::timeout(HANDSHAKE, connecting).await;
        let mut far = far
            .map_err(|_| "the API server does not answer in time")?
            .map_err(|error| format!("the API server: {error}"))?;
        if far.get_ref().1.alpn_protocol() != protocol.as_deref() {
            return Err("the API server does not speak the protocol that was agreed on".to_owned());
        }
        tokio::select! {
            // Either side may end the connection at any time.
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            _ = replaced.changed() => {}
        }
        Ok(())
    }
}
