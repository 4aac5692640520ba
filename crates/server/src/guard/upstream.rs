//! Connections to the kubelet behind the guard: its serving certificate is verified, and the guard presents its own
//! client certificate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::uri::Authority;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pki::KeyPair;
use pki::key::KeyError;
use pki::tls::TlsError;

use crate::http::passed_body::PassedBody;

/// The connect timeout.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(60);
/// The maximum number of idle connections.
const SPARE: usize = 256;
/// What is read of one answer before it is passed on, and the maximum size of its headers. In bytes.
const READ_BUFFER: usize = 16 * 1024;
/// What the system holds of one answer before it is read. In bytes. The kubelet is on the same machine: more would not
/// be faster, and would be held for every client that does not read.
const SOCKET_BUFFER: usize = 256 * 1024;
/// The interval at which the files are checked.
const PERIOD: Duration = Duration::from_secs(10);

type Client = legacy::Client<HttpsConnector<HttpConnector>, PassedBody>;

/// The address and the credentials of the kubelet connection.
#[derive(Clone, Debug)]
pub struct KubeletConfig {
    /// The host and port of the kubelet.
    pub authority: Authority,
    /// The name that the kubelet's certificate must contain.
    pub server_name: String,
    /// The CA file of the kubelet, in PEM. It may be the kubelet's own certificate.
    pub certificate_authority: PathBuf,
    /// The guard's client certificate and its key, both in PEM.
    pub client_certificate: PathBuf,
    /// See `client_certificate`.
    pub client_key: PathBuf,
}

/// An invalid kubelet configuration.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// A file cannot be read.
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
        /// The CA file of the kubelet.
        authority: PathBuf,
        /// The file of the guard's certificate.
        certificate: PathBuf,
        /// Why.
        source: TlsError,
    },
    /// The name is invalid.
    #[error("{0:?} is not a valid certificate name")]
    Name(String),
}

/// See the module.
pub struct Kubelet {
    config: KubeletConfig,
    client: ArcSwap<Client>,
}

/// The contents of the three files.
#[derive(PartialEq, Eq)]
struct Files {
    authority: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Kubelet {
    /// Creates a client that connects to the kubelet on demand. Nothing is sent yet.
    ///
    /// # Errors
    /// See [`KubeletError`].
    pub fn new(config: KubeletConfig) -> Result<Self, KubeletError> {
        let files = Files::read(&config)?;
        let client = ArcSwap::from_pointee(connector(&config, &files)?);
        Ok(Self { config, client })
    }

    /// Returns the host and port.
    pub fn authority(&self) -> &Authority {
        &self.config.authority
    }

    /// Returns the URL of a path with its query, unchanged.
    pub(super) fn url(&self, path_and_query: &str) -> Result<Uri, http::Error> {
        let authority = self.config.authority.clone();
        Uri::builder().scheme("https").authority(authority).path_and_query(path_and_query).build()
    }

    /// Sends a request and waits for the response headers.
    pub(super) async fn send(
        &self,
        request: Request<PassedBody>,
    ) -> Result<Response<Incoming>, legacy::Error> {
        let client = Client::clone(&self.client.load());
        client.request(request).await
    }

    /// Reloads renewed certificates until the future is dropped. Invalid files change nothing.
    pub async fn follow(self: Arc<Self>) {
        let mut last = Files::read(&self.config).ok();
        loop {
            tokio::time::sleep(PERIOD).await;
            let Ok(new) = Files::read(&self.config) else { continue };
            if last.as_ref() == Some(&new) {
                continue;
            }
            match connector(&self.config, &new) {
                Ok(client) => {
                    self.client.store(Arc::new(client));
                    tracing::info!("the files have changed; reconnecting to the kubelet");
                }
                Err(error) => {
                    tracing::error!(%error, "the previous connection to the kubelet remains in use")
                }
            }
            last = Some(new);
        }
    }
}

impl Files {
    fn read(config: &KubeletConfig) -> Result<Self, KubeletError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| KubeletError::File { path: path.to_owned(), source })
        };
        let certificate = read(&config.client_certificate)?;
        // One file may contain both: it is then read once, so that a renewal cannot cause a mismatch.
        let key = match config.client_key == config.client_certificate {
            true => certificate.clone(),
            false => read(&config.client_key)?,
        };
        Ok(Self { authority: read(&config.certificate_authority)?, certificate, key })
    }
}

fn connector(config: &KubeletConfig, files: &Files) -> Result<Client, KubeletError> {
    let key = KeyPair::from_pem(&files.key)
        .map_err(|source| KubeletError::Key { path: config.client_key.clone(), source })?;
    let tls = pki::tls::client(&files.authority, Some((&files.certificate, &key))).map_err(|source| {
        KubeletError::Tls {
            authority: config.certificate_authority.clone(),
            certificate: config.client_certificate.clone(),
            source,
        }
    })?;
    let name =
        config.server_name.clone().try_into().map_err(|_| KubeletError::Name(config.server_name.clone()))?;
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT));
    http.set_recv_buffer_size(Some(SOCKET_BUFFER));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        .enable_http1()
        .wrap_connector(http);
    Ok(legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(SPARE)
        .pool_timer(TokioTimer::new())
        .http1_max_buf_size(READ_BUFFER)
        .build(connector))
}
