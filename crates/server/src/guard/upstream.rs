//! Connections to the kubelet behind the guard: its serving certificate is verified, and the guard presents its own
//! client certificate.

use std::path::PathBuf;
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
use pki::tls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::http::passed_body::PassedBody;
use crate::proxy::tls_files::{Source, Texts, TlsFiles, TlsFilesError};

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
    /// A file cannot be used.
    #[error(transparent)]
    Files(#[from] TlsFilesError),
    /// The name is invalid.
    #[error("{0:?} is not a valid certificate name")]
    Name(String),
}

/// See the module.
pub struct Kubelet {
    authority: Authority,
    name: ServerName<'static>,
    files: TlsFiles,
    client: ArcSwap<Client>,
}

impl Kubelet {
    /// Creates a client that connects to the kubelet on demand. Nothing is sent yet.
    ///
    /// # Errors
    /// See [`KubeletError`].
    pub fn new(config: KubeletConfig) -> Result<Self, KubeletError> {
        let files = TlsFiles {
            authority: Source::File(config.certificate_authority),
            certificate: Source::File(config.client_certificate),
            key: Source::File(config.client_key),
        };
        let name = config.server_name;
        let name = ServerName::try_from(name.clone()).map_err(|_| KubeletError::Name(name))?;
        let client = connector(&name, files.verifying(&files.read()?)?);
        Ok(Self { authority: config.authority, name, files, client: ArcSwap::from_pointee(client) })
    }

    /// Returns the host and port.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the URL of a path with its query, unchanged.
    pub(super) fn url(&self, path_and_query: &str) -> Result<Uri, http::Error> {
        let authority = self.authority.clone();
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
        let take_up = |texts: &Texts| {
            let tls = self.files.verifying(texts)?;
            self.client.store(Arc::new(connector(&self.name, tls)));
            Ok(())
        };
        self.files.follow(take_up).await;
    }
}

fn connector(name: &ServerName<'static>, tls: ClientConfig) -> Client {
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT));
    http.set_recv_buffer_size(Some(SOCKET_BUFFER));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name.clone()))
        .enable_http1()
        .wrap_connector(http);
    legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(SPARE)
        .pool_timer(TokioTimer::new())
        .http1_max_buf_size(READ_BUFFER)
        .build(connector)
}
