//! The connection file of a webhook: a kubeconfig with its address and credentials (WH-1 to WH-6).
//!
//! All files that the selected context names are read once, here. An unsupported setting is an error, and is never
//! ignored silently.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use pki::KeyPair;
use pki::tls::{self, ClientConfig};
use portcullis_apimachinery::json;
use serde::Deserialize;

use crate::state::yaml;

/// The maximum size of a file.
const MAX_BYTES: usize = 4 << 20;

/// The server, its trusted CAs and our credentials.
#[derive(Clone)]
pub struct Connection {
    /// The complete URL (WH-5).
    pub server: Uri,
    /// The name that the server's certificate must contain, if it differs from that of the URL.
    pub server_name: Option<String>,
    /// The TLS configuration, with the trusted CAs and the client certificate.
    pub tls: ClientConfig,
    /// The credentials for the header `Authorization`.
    pub credentials: Credentials,
}

/// Credentials other than a client certificate.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Nothing.
    #[default]
    None,
    /// The value of the header.
    Header(String),
    /// A file with a bearer token, which is read for each call because it may be renewed at any time.
    TokenFile(PathBuf),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Header(_) => "Header(..)",
            Self::TokenFile(_) => "TokenFile(..)",
        })
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.server)
            .field("server_name", &self.server_name)
            .field("credentials", &self.credentials)
            .finish_non_exhaustive()
    }
}

/// A connection file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    /// The file, or a file that it names, cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file is not a valid kubeconfig.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// Which.
        path: PathBuf,
        /// What is wrong, and how to fix it.
        reason: String,
    },
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct File {
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    kind: Option<String>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
    contexts: Option<Vec<NamedContext>>,
    current_context: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Option<Cluster>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: Option<User>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Option<Context>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: Option<String>,
    user: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: Option<String>,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: Option<bool>,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    username: Option<String>,
    password: Option<String>,
    exec: Option<serde_json::Value>,
    auth_provider: Option<serde_json::Value>,
}

impl Connection {
    /// Loads a file and everything that its current context names.
    ///
    /// # Errors
    /// See [`KubeconfigError`].
    pub fn load(path: &Path) -> Result<Self, KubeconfigError> {
        let bytes = read(path)?;
        let invalid = |reason: String| KubeconfigError::Invalid { path: path.to_owned(), reason };
        let file = parse(&bytes).map_err(invalid)?;
        let (cluster, user) = selected(file).map_err(invalid)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        connection(cluster, user, folder).map_err(|fault| match fault {
            Fault::File(error) => error,
            Fault::Reason(reason) => invalid(reason),
        })
    }
}

/// Checks that a text is a kubeconfig with a usable context, without reading the files that it names.
///
/// # Errors
/// A description of the error.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let (cluster, _) = selected(parse(bytes)?)?;
    server(&cluster).map(|_| ())
}

fn read(path: &Path) -> Result<Vec<u8>, KubeconfigError> {
    std::fs::read(path)
        .map_err(|error| KubeconfigError::Unreadable { path: path.to_owned(), reason: error.to_string() })
}

fn parse(bytes: &[u8]) -> Result<File, String> {
    if bytes.len() > MAX_BYTES {
        return Err(format!("larger than {MAX_BYTES} bytes"));
    }
    let text = json::utf8(bytes).map_err(|error| error.to_string())?;
    let json = yaml::to_json(text).map_err(|error| error.to_string())?;
    if json.trim().is_empty() {
        return Err(
            "the file is empty: write a kubeconfig with clusters, users, contexts and current-context"
                .to_owned(),
        );
    }
    json::check(&json).map_err(|error| format!("must be one kubeconfig: {error}"))?;
    let file: File = policy::objects::strict::from_str(&json).map_err(|error| error.to_string())?;
    let is = |found: &Option<String>, expected: &str| {
        found.as_deref().is_none_or(|found| found.is_empty() || found == expected)
    };
    if !is(&file.api_version, "v1") || !is(&file.kind, "Config") {
        return Err("not a kubeconfig: apiVersion must be v1 and kind must be Config".to_owned());
    }
    Ok(file)
}

/// WH-2, WH-3: returns the cluster and user of the current context. Others are ignored.
fn selected(file: File) -> Result<(Cluster, User), String> {
    let (clusters, users, contexts) = (
        file.clusters.unwrap_or_default(),
        file.users.unwrap_or_default(),
        file.contexts.unwrap_or_default(),
    );
    once("clusters", clusters.iter().map(|entry| entry.name.as_str()))?;
    once("users", users.iter().map(|entry| entry.name.as_str()))?;
    once("contexts", contexts.iter().map(|entry| entry.name.as_str()))?;
    let current = file.current_context.filter(|name| !name.is_empty()).ok_or(
        "no current-context: name the context of the webhook in it (a file without context is not used)",
    )?;
    let context = contexts
        .into_iter()
        .find(|entry| entry.name == current)
        .ok_or_else(|| format!("current-context {current:?} names no context"))?
        .context
        .unwrap_or_default();
    let cluster = context.cluster.unwrap_or_default();
    let cluster = clusters
        .into_iter()
        .find(|entry| entry.name == cluster)
        .ok_or_else(|| format!("context {current:?}: there is no cluster {cluster:?}"))?
        .cluster
        .unwrap_or_default();
    let user = context.user.unwrap_or_default();
    let user =
        users.into_iter().find(|entry| entry.name == user).and_then(|entry| entry.user).unwrap_or_default();
    Ok((cluster, user))
}

fn once<'a>(list: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("{list}: the name {name:?} is given twice"));
        }
    }
    Ok(())
}

/// An error in the file, or in one that it names.
enum Fault {
    File(KubeconfigError),
    Reason(String),
}

impl From<KubeconfigError> for Fault {
    fn from(error: KubeconfigError) -> Self {
        Self::File(error)
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Reason(reason)
    }
}

/// WH-5.
///
/// DIVERGES: `http` is refused except for this machine, because anybody on the network could otherwise decide requests.
/// So is `insecure-skip-tls-verify`.
fn server(cluster: &Cluster) -> Result<Uri, String> {
    let text =
        cluster.server.as_deref().filter(|text| !text.is_empty()).ok_or("the cluster has no server")?;
    let without_fragment = text.split('#').next().unwrap_or_default();
    let without_query = without_fragment.split('?').next().unwrap_or_default();
    let uri: Uri = without_query.parse().map_err(|error| format!("server {text:?}: {error}"))?;
    let host = uri.host().ok_or_else(|| format!("server {text:?}: no host; write https://HOST:PORT/PATH"))?;
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if is_here => {}
        Some("http") => {
            return Err(format!(
                "server {text:?}: http is not safe for answers that decide who may do what; use https"
            ));
        }
        _ => return Err(format!("server {text:?}: write https://HOST:PORT/PATH")),
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("server: credentials do not belong in the URL; write them under users".to_owned());
    }
    if cluster.insecure_skip_tls_verify == Some(true) {
        return Err("insecure-skip-tls-verify is not supported: give certificate-authority or \
                    certificate-authority-data (the server's own certificate will do), and tls-server-name if the \
                    name differs"
            .to_owned());
    }
    if cluster.proxy_url.as_deref().is_some_and(|url| !url.is_empty()) {
        return Err("proxy-url is not supported: the webhook must be reachable directly".to_owned());
    }
    Ok(uri)
}

fn connection(cluster: Cluster, user: User, folder: &Path) -> Result<Connection, Fault> {
    let server = server(&cluster)?;
    let authority = material(
        "certificate-authority",
        cluster.certificate_authority,
        cluster.certificate_authority_data,
        folder,
    )?;
    let certificate =
        material("client-certificate", user.client_certificate, user.client_certificate_data, folder)?;
    let key = material("client-key", user.client_key, user.client_key_data, folder)?;
    if user.exec.is_some_and(|value| !value.is_null()) {
        return Err("exec plug-ins are not supported: use a client certificate, token or tokenFile"
            .to_owned()
            .into());
    }
    if user.auth_provider.is_some_and(|value| !value.is_null()) {
        return Err("auth-provider is not supported: use a client certificate, token or tokenFile"
            .to_owned()
            .into());
    }
    let roots = match authority {
        Some(pem) => pem,
        None if server.scheme_str() == Some("http") => Vec::new(),
        None => system_roots()?,
    };
    let identity = match (certificate, key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => {
            Some((certificate, KeyPair::from_pem(&key).map_err(|error| format!("client-key: {error}"))?))
        }
        (Some(_), None) => return Err("client-certificate without client-key".to_owned().into()),
        (None, Some(_)) => return Err("client-key without client-certificate".to_owned().into()),
    };
    let tls = match server.scheme_str() {
        Some("http") => tls::plain(),
        _ => tls::client(&roots, identity.as_ref().map(|(chain, key)| (chain.as_slice(), key))),
    };
    let tls = tls.map_err(|error| format!("certificate-authority, client-certificate: {error}"))?;
    Ok(Connection {
        server,
        server_name: cluster.tls_server_name.filter(|name| !name.is_empty()),
        tls,
        credentials: credentials(user.token, user.token_file, user.username, user.password, folder)?,
    })
}

/// Inline data takes precedence over a file, as in every kubeconfig (WH-6). Relative paths are relative to the
/// kubeconfig (WH-4).
fn material(
    what: &str,
    path: Option<PathBuf>,
    data: Option<String>,
    folder: &Path,
) -> Result<Option<Vec<u8>>, Fault> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let compact: String = data.split_whitespace().collect();
        let bytes = STANDARD.decode(compact).map_err(|error| format!("{what}-data: not base64: {error}"))?;
        return Ok(Some(bytes));
    }
    match path.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) => Ok(Some(read(&folder.join(path))?)),
        None => Ok(None),
    }
}

fn system_roots() -> Result<Vec<u8>, Fault> {
    let found = tls::system_bundles().iter().find_map(|path| std::fs::read(path).ok());
    found.ok_or_else(|| {
        Fault::Reason(
            "no certificate-authority, and this system has no bundle of trusted authorities".to_owned(),
        )
    })
}

/// A token file takes precedence over a token, and both over a password.
fn credentials(
    token: Option<String>,
    token_file: Option<PathBuf>,
    username: Option<String>,
    password: Option<String>,
    folder: &Path,
) -> Result<Credentials, Fault> {
    if let Some(path) = token_file.filter(|path| !path.as_os_str().is_empty()) {
        let path = folder.join(path);
        read(&path)?;
        return Ok(Credentials::TokenFile(path));
    }
    if let Some(token) = token.filter(|token| !token.is_empty()) {
        return Ok(Credentials::Header(format!("Bearer {token}")));
    }
    Ok(match username.filter(|name| !name.is_empty()) {
        Some(name) => {
            let pair = format!("{name}:{}", password.unwrap_or_default());
            Credentials::Header(format!("Basic {}", STANDARD.encode(pair)))
        }
        None => Credentials::None,
    })
}
