//! The kubelet behind the guard: connections to it, over which it is proved to be itself and the guard shows its own
//! certificate.

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
use portcullis_pki as pki;

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection that nobody needs is kept.
const IDLE: Duration = Duration::from_secs(60);
/// How many of them.
const SPARE: usize = 256;
/// How often the files are looked at.
const PERIOD: Duration = Duration::from_secs(10);

type Client = legacy::Client<HttpsConnector<HttpConnector>, Incoming>;

/// Where the kubelet is and how it is known.
#[derive(Clone, Debug)]
pub struct KubeletConfig {
    /// Where: host and port.
    pub authority: Authority,
    /// The name that its certificate must have.
    pub server_name: String,
    /// Who vouches for it: a file of certificates in PEM form. Its own certificate will do.
    pub certificate_authority: PathBuf,
    /// The guard's certificate, and its key, both in PEM form.
    pub client_certificate: PathBuf,
    /// See there.
    pub client_key: PathBuf,
}

/// A kubelet that cannot be connected to with what there is.
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
    /// The key is none.
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
        /// The file of who vouches for the kubelet.
        authority: PathBuf,
        /// The file of the guard's certificate.
        certificate: PathBuf,
        /// Why.
        source: TlsError,
    },
    /// The name is none.
    #[error("{0:?} is no name that a certificate could have")]
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
    /// A kubelet that is connected to when there is something to ask. Nothing is sent yet.
    ///
    /// # Errors
    /// See [`KubeletError`].
    pub fn new(config: KubeletConfig) -> Result<Self, KubeletError> {
        let files = Files::read(&config)?;
        let client = ArcSwap::from_pointee(connector(&config, &files)?);
        Ok(Self { config, client })
    }

    /// Where it is.
    pub fn authority(&self) -> &Authority {
        &self.config.authority
    }

    /// The URL of a path, as sent, with its query.
    pub(super) fn url(&self, path_and_query: &str) -> Result<Uri, http::Error> {
        let authority = self.config.authority.clone();
        Uri::builder().scheme("https").authority(authority).path_and_query(path_and_query).build()
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(&self, request: Request<Incoming>) -> Result<Response<Incoming>, legacy::Error> {
        let client = Client::clone(&self.client.load());
        client.request(request).await
    }

    /// Takes up certificates that are renewed, until it is dropped. What cannot be used changes nothing.
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
                    tracing::info!("connecting to the kubelet anew with what the files say now");
                }
                Err(error) => tracing::error!(%error, "the last connection to the kubelet stays in use"),
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
        // One file may hold both: then it is read once, and never torn by a renewal.
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
        .build(connector))
}
