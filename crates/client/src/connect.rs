//! Connections to an API server: from kubeconfig files as with kubectl, from the files of a pod's service account, or
//! from parts.
//!
//! A connection can be reloaded from its source, so that a renewed certificate comes into use.
//!
//! DIVERGES: proxies in environment variables are not used, and a cluster with a `proxy-url` is refused.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::ConfigExt as _;
use kube::config::{AuthInfo, Kubeconfig};
use portcullis_pki::pem;
use tower::{BoxError, ServiceBuilder};

use crate::kubeconfig::{self, Chosen};

pub use crate::connect_error::{ConnectError, describe};

/// The connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The parts of a connection that is not configured by a file.
#[derive(Clone)]
pub struct Parts {
    /// The URL of the API server, such as `https://10.0.0.1:6443`.
    pub server: String,
    /// The CA certificates of the server, in PEM.
    pub certificate_authority: Vec<u8>,
    /// Our credentials.
    pub credential: Credential,
}

/// The credentials of a client.
#[derive(Clone)]
pub enum Credential {
    /// No credentials.
    Anonymous,
    /// A client certificate and its key, both in PEM.
    Certificate {
        /// The certificate, with intermediate certificates.
        certificate: Vec<u8>,
        /// The key.
        key: Vec<u8>,
    },
    /// A bearer token.
    Token(String),
}

impl Credential {
    fn auth_info(&self) -> AuthInfo {
        let mut user = AuthInfo::default();
        match self {
            Self::Anonymous => {}
            Self::Certificate { certificate, key } => present(&mut user, certificate, key),
            Self::Token(token) => user.token = Some(token.clone().into()),
        }
        user
    }
}

/// Sets the client certificate and its key, both in PEM.
fn present(user: &mut AuthInfo, certificate: &[u8], key: &[u8]) {
    user.client_certificate_data = Some(STANDARD.encode(certificate));
    user.client_key_data = Some(STANDARD.encode(key).into());
}

/// The source of a connection, for reloading.
#[derive(Clone)]
enum Source {
    Kubeconfig {
        paths: Vec<PathBuf>,
        must_exist: bool,
        context: Option<String>,
        /// The credentials that replace those in the file.
        credential: Option<Credential>,
    },
    InCluster,
    Parts(Parts),
}

/// A connection to an API server. Clones share the connection.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    live: ArcSwap<Live>,
}

/// The current client.
struct Live {
    client: kube::Client,
    fingerprint: [u8; 32],
    server: String,
    certificate_authority: String,
    namespace: String,
    context: String,
}

impl Connection {
    /// Connects as kubectl would: by the given file; else by the existing files in the environment variable
    /// `KUBECONFIG`, of which the first definition of a name wins; else by `~/.kube/config`; else, inside a pod, by its
    /// service account files, whose token is reloaded when it was renewed. Nothing is sent yet.
    ///
    /// # Errors
    /// A file is invalid, or no configuration was found.
    pub async fn infer(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self, ConnectError> {
        if let Some(path) = kubeconfig {
            return Self::from_kubeconfig(path, context).await;
        }
        let (paths, looked) = usual_places(std::env::var_os("KUBECONFIG"), std::env::home_dir());
        if paths.iter().any(|path| path.exists()) {
            let context = context.map(str::to_owned);
            let source = Source::Kubeconfig { paths, must_exist: false, context, credential: None };
            return Self::from_source(source).await;
        }
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
            return Err(ConnectError::Nowhere { looked });
        }
        Self::from_source(Source::InCluster).await
    }

    /// The names of the contexts of the kubeconfig that [`Connection::infer`] uses.
    ///
    /// # Errors
    /// A file is invalid.
    pub fn contexts(kubeconfig: Option<&Path>) -> Result<Vec<String>, ConnectError> {
        Ok(usual_kubeconfig(kubeconfig)?.contexts.into_iter().map(|context| context.name).collect())
    }

    /// The namespace of a context of that kubeconfig, or of the current one; none if it names none.
    ///
    /// # Errors
    /// A file is invalid.
    pub fn namespace_of(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Option<String>, ConnectError> {
        let kubeconfig = usual_kubeconfig(kubeconfig)?;
        let name = context.or(kubeconfig.current_context.as_deref());
        let named = kubeconfig.contexts.iter().find(|context| Some(&*context.name) == name);
        Ok(named.and_then(|named| named.context.as_ref()?.namespace.clone()).filter(|name| !name.is_empty()))
    }

    /// Connects by a kubeconfig file, with the given or its current context.
    ///
    /// # Errors
    /// The file does not exist or is incomplete.
    pub async fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self, ConnectError> {
        let (paths, context) = (vec![path.to_owned()], context.map(str::to_owned));
        Self::from_source(Source::Kubeconfig { paths, must_exist: true, context, credential: None }).await
    }

    /// Connects to the server of a kubeconfig file with other credentials.
    ///
    /// # Errors
    /// The file does not exist or has no server, or the credentials are invalid.
    pub async fn to_server_of(path: &Path, credential: Credential) -> Result<Self, ConnectError> {
        let (paths, credential) = (vec![path.to_owned()], Some(credential));
        Self::from_source(Source::Kubeconfig { paths, must_exist: true, context: None, credential }).await
    }

    /// Connects to the same server with other credentials.
    ///
    /// # Errors
    /// The files of this connection are no longer valid, or the credentials are invalid.
    pub async fn with_credential(&self, credential: Credential) -> Result<Self, ConnectError> {
        let source = match &self.shared.source {
            Source::Kubeconfig { paths, must_exist, context, .. } => Source::Kubeconfig {
                paths: paths.clone(),
                must_exist: *must_exist,
                context: context.clone(),
                credential: Some(credential),
            },
            Source::InCluster | Source::Parts(_) => Source::Parts(Parts {
                server: self.server(),
                certificate_authority: self.certificate_authority().into_bytes(),
                credential,
            }),
        };
        Self::from_source(source).await
    }

    /// Connects by parts.
    ///
    /// # Errors
    /// The URL, certificate or key is invalid, or the key does not match the certificate.
    pub async fn from_parts(parts: Parts) -> Result<Self, ConnectError> {
        Self::from_source(Source::Parts(parts)).await
    }

    /// Makes a client with the same credentials for any number of other servers: requests have whole URLs. A server gets the
    /// credentials only if its certificate verifies, by the given CA certificates in PEM, or by those of the API server.
    ///
    /// # Errors
    /// A certificate is invalid, or the files of this connection are no longer valid.
    pub(crate) fn client_of_others(
        &self,
        certificate_authority: Option<&[u8]>,
    ) -> Result<kube::Client, ConnectError> {
        let source = &self.shared.source;
        let (mut config, _) = source.config()?;
        config.tls_server_name = None;
        config.accept_invalid_certs = false;
        if let Some(authority) = certificate_authority {
            let authority = certificates(authority);
            if authority.is_empty() {
                return Err(source.refuse("there is no certificate in the certificate authority"));
            }
            config.root_cert = Some(authority);
        }
        let refuse = |error: kube::Error| source.refuse(describe(&error));
        let (connector, credential) =
            (config.rustls_https_connector().map_err(refuse)?, config.auth_layer().map_err(refuse)?);
        // Each server is asked once: nothing is gained by open connections.
        let client = legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        let service = ServiceBuilder::new().option_layer(credential).map_err(BoxError::from).service(client);
        Ok(kube::Client::new(service, config.default_namespace))
    }

    /// Returns whether a token is sent, which every server that sees it can use.
    ///
    /// # Errors
    /// The files of this connection are no longer valid.
    pub fn sends_token(&self) -> Result<bool, ConnectError> {
        let user = self.shared.source.config()?.0.auth_info;
        Ok(user.token.is_some()
            || user.token_file.is_some()
            || user.exec.is_some()
            || user.auth_provider.is_some())
    }

    #[expect(
        clippy::unused_async,
        reason = "a client can be made inside a runtime only: callers must be in one"
    )]
    async fn from_source(source: Source) -> Result<Self, ConnectError> {
        let live = source.connect()?;
        Ok(Self { shared: Arc::new(Shared { source, live: ArcSwap::from_pointee(live) }) })
    }

    /// Reads the files again and, if they have changed, opens new connections; old ones end as soon as they are idle.
    /// Returns whether there was a change.
    ///
    /// # Errors
    /// The files are no longer valid. The connection does not change.
    #[expect(
        clippy::unused_async,
        reason = "a client can be made inside a runtime only: callers must be in one"
    )]
    pub async fn refresh(&self) -> Result<bool, ConnectError> {
        let old = self.shared.live.load();
        let new = self.shared.source.connect()?;
        if new.fingerprint == old.fingerprint {
            return Ok(false);
        }
        self.shared.live.store(Arc::new(new));
        Ok(true)
    }

    /// Returns the URL of the API server.
    pub fn server(&self) -> String {
        self.shared.live.load().server.clone()
    }

    /// Returns the CA certificates of the server, in PEM; empty if those of the system are used.
    pub fn certificate_authority(&self) -> String {
        self.shared.live.load().certificate_authority.clone()
    }

    /// Returns the default namespace.
    pub fn namespace(&self) -> String {
        self.shared.live.load().namespace.clone()
    }

    /// Returns the name of the context of the kubeconfig; empty without one.
    pub fn context(&self) -> String {
        self.shared.live.load().context.clone()
    }

    /// Returns the current client.
    pub(crate) fn client(&self) -> kube::Client {
        self.shared.live.load().client.clone()
    }
}

impl std::fmt::Debug for Connection {
    /// Shows the server, never the credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.server()).finish_non_exhaustive()
    }
}

/// Reads the given kubeconfig, or those that kubectl reads by default.
fn usual_kubeconfig(path: Option<&Path>) -> Result<Kubeconfig, ConnectError> {
    match path {
        Some(path) => kubeconfig::read(&[path.to_owned()], true),
        None => {
            let (paths, _) = usual_places(std::env::var_os("KUBECONFIG"), std::env::home_dir());
            kubeconfig::read(&paths, false)
        }
    }
}

/// Returns the files that kubectl reads by default, and a description of them for errors.
fn usual_places(variable: Option<OsString>, home: Option<PathBuf>) -> (Vec<PathBuf>, String) {
    let listed: Vec<PathBuf> =
        variable.iter().flat_map(std::env::split_paths).filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        let looked = format!("none of the files in KUBECONFIG exists: {}", list(&listed));
        return (listed, looked);
    }
    let usual: Vec<PathBuf> = home.map(|home| home.join(".kube").join("config")).into_iter().collect();
    let looked = format!("KUBECONFIG is not set, and there is no {}", list(&usual));
    (usual, looked)
}

fn list(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    if names.is_empty() { "home directory".to_owned() } else { names.join(", ") }
}

impl Source {
    fn connect(&self) -> Result<Live, ConnectError> {
        let (mut config, context) = self.config()?;
        if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
            return Err(self.refuse("there is no certificate in the certificate authority"));
        }
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // Callers know which of their requests may be retried.
        config.default_retry = false;
        let fingerprint = fingerprint(&config);
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = config.default_namespace.clone();
        let roots = config.root_cert.iter().flatten();
        let certificate_authority = roots.map(|der| pem::encode("CERTIFICATE", der)).collect();
        let client = kube::Client::try_from(config).map_err(|e| self.refuse(describe(&e)))?;
        Ok(Live { client, fingerprint, server, certificate_authority, namespace, context })
    }

    /// The configuration, and the name of the context.
    fn config(&self) -> Result<(Config, String), ConnectError> {
        match self {
            Self::Kubeconfig { paths, must_exist, context, credential } => {
                let mut kubeconfig = kubeconfig::read(paths, *must_exist)?;
                let chosen = Chosen::of(&kubeconfig, context.as_deref(), list(paths))?;
                check(&chosen)?;
                kubeconfig.current_context = Some(chosen.context.clone());
                let mut config = Config::try_from(kubeconfig).map_err(|e| self.refuse(describe(&e)))?;
                // It was taken from the environment, ignoring `NO_PROXY`.
                config.proxy_url = None;
                if let Some(credential) = credential {
                    config.auth_info = credential.auth_info();
                } else if let Some((certificate, key)) = chosen.identity()? {
                    // Read now, so that changes can be detected.
                    present(&mut config.auth_info, &certificate, &key);
                }
                Ok((config, chosen.context.clone()))
            }
            Self::InCluster => {
                let config = Config::incluster().map_err(|e| self.refuse(describe(&e)))?;
                Ok((config, String::new()))
            }
            Self::Parts(parts) => {
                let url = parts.server.parse().map_err(|e| self.refuse(format!("not a URL: {e}")))?;
                let mut config = Config::new(url);
                config.root_cert = Some(certificates(&parts.certificate_authority));
                config.auth_info = parts.credential.auth_info();
                Ok((config, String::new()))
            }
        }
    }

    fn refuse(&self, why: impl Into<String>) -> ConnectError {
        let why = why.into();
        match self {
            Self::Kubeconfig { paths, .. } => ConnectError::Kubeconfig { origin: list(paths), why },
            Self::InCluster => {
                ConnectError::Kubeconfig { origin: "this pod's service account".to_owned(), why }
            }
            Self::Parts(parts) => ConnectError::Parts { server: parts.server.clone(), why },
        }
    }
}

/// Checks that the settings of a cluster are supported and consistent.
fn check(chosen: &Chosen) -> Result<(), ConnectError> {
    let (context, cluster) = (&chosen.context, &chosen.cluster);
    let has_authority =
        cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
    if cluster.insecure_skip_tls_verify == Some(true) && has_authority {
        return Err(chosen.refuse(format!(
            "the cluster of context {context:?} has a certificate authority and insecure-skip-tls-verify: remove one"
        )));
    }
    match cluster.proxy_url.as_deref().filter(|url| !url.is_empty()) {
        Some(proxy) => Err(chosen.refuse(format!(
            "the cluster of context {context:?} is behind the proxy {proxy}, and proxies are not supported"
        ))),
        None => Ok(()),
    }
}

/// Returns the certificates in a PEM text.
fn certificates(text: &[u8]) -> Vec<Vec<u8>> {
    pem::blocks(text)
        .into_iter()
        .filter(|block| block.label == "CERTIFICATE")
        .map(|block| block.der)
        .collect()
}

/// Returns a hash that identifies a configuration.
fn fingerprint(config: &Config) -> [u8; 32] {
    let mut all = format!("{}\n{:?}\n", config.cluster_url, config.tls_server_name).into_bytes();
    for certificate in config.root_cert.iter().flatten() {
        all.extend_from_slice(certificate);
    }
    // Only this form contains the secrets.
    all.extend(serde_json::to_vec(&config.auth_info).unwrap_or_default());
    portcullis_pki::sha256(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_looked_for_where_kubectl_looks() {
        let home = Some(PathBuf::from("/me"));
        let usual = vec![PathBuf::from("/me/.kube/config")];
        assert_eq!(usual_places(None, home.clone()).0, usual);
        assert_eq!(usual_places(Some("".into()), home.clone()).0, usual);
        assert_eq!(usual_places(Some("::".into()), home.clone()).0, usual);
        assert_eq!(usual_places(Some("/a::/b".into()), home).0, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(usual_places(None, None).0, Vec::<PathBuf>::new());
    }
}
