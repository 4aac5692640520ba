//! The connection to a service that is not an API server: a kubeconfig with its address and our credentials (WH-1 to
//! WH-6).
//!
//! All files that the current context names are read once, here. An unsupported setting is an error, and is never
//! ignored silently.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use kube::config::Kubeconfig;
use portcullis_pki::KeyPair;
use portcullis_pki::tls::{self, ClientConfig};

use super::{Chosen, read_file};
use crate::connect::ConnectError;

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

impl fmt::Debug for Connection {
    /// Shows the server, never the credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Connection {
    /// Uses the current context of a kubeconfig in JSON, and reads the files that it names. `path` is that of the
    /// kubeconfig: relative paths in it start at its folder (WH-4).
    ///
    /// # Errors
    /// The kubeconfig is invalid or its settings are not supported, or a file cannot be read.
    pub fn from_json(json: &str, path: &Path) -> Result<Self, ConnectError> {
        let (chosen, server) = choose(json, path)?;
        let invalid = |why: String| chosen.refuse(why);
        let roots = match chosen.authority()? {
            Some(pem) => pem,
            None if server.scheme_str() == Some("http") => Vec::new(),
            None => tls::system_bundles()
                .iter()
                .find_map(|path| std::fs::read(path).ok())
                .ok_or("no certificate-authority, and this system has no bundle of trusted authorities")
                .map_err(|why| chosen.refuse(why))?,
        };
        let identity = match chosen.identity()? {
            None => None,
            Some((certificate, key)) => {
                let key = KeyPair::from_pem(&key).map_err(|error| invalid(format!("client-key: {error}")))?;
                Some((certificate, key))
            }
        };
        let tls = match server.scheme_str() {
            Some("http") => tls::plain(),
            _ => tls::client(&roots, identity.as_ref().map(|(chain, key)| (chain.as_slice(), key))),
        };
        let tls =
            tls.map_err(|error| invalid(format!("certificate-authority, client-certificate: {error}")))?;
        let server_name = chosen.cluster.tls_server_name.clone().filter(|name| !name.is_empty());
        Ok(Self { server, server_name, tls, credentials: credentials(&chosen)? })
    }
}

/// Checks a kubeconfig in JSON without reading the files that it names.
///
/// # Errors
/// It is invalid, or its settings are not supported.
pub fn check(json: &str) -> Result<(), ConnectError> {
    choose(json, Path::new("")).map(drop)
}

/// Chooses the current context and checks its settings, without reading the files that it names. Returns the URL of the
/// service.
///
/// DIVERGES: exec plug-ins and auth providers are refused.
fn choose(json: &str, path: &Path) -> Result<(Chosen, Uri), ConnectError> {
    let origin = path.display().to_string();
    let invalid = |why: String| ConnectError::Kubeconfig { origin: origin.clone(), why };
    let file: Kubeconfig = serde_json::from_str(json).map_err(|error| invalid(error.to_string()))?;
    let is = |found: &Option<String>, expected: &str| {
        found.as_deref().is_none_or(|found| found.is_empty() || found == expected)
    };
    if !is(&file.api_version, "v1") || !is(&file.kind, "Config") {
        return Err(invalid("not a kubeconfig: apiVersion must be v1 and kind must be Config".to_owned()));
    }
    once("clusters", file.clusters.iter().map(|entry| &*entry.name)).map_err(invalid)?;
    once("users", file.auth_infos.iter().map(|entry| &*entry.name)).map_err(invalid)?;
    once("contexts", file.contexts.iter().map(|entry| &*entry.name)).map_err(invalid)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let chosen = Chosen::of(&file, None, origin.clone())?.within(folder);
    let server = server(&chosen).map_err(invalid)?;
    for (plugin, is_there) in [
        ("exec plug-ins are", chosen.user.exec.is_some()),
        ("auth-provider is", chosen.user.auth_provider.is_some()),
    ] {
        if is_there {
            let why = format!("{plugin} not supported: use a client certificate, token or tokenFile");
            return Err(invalid(why));
        }
    }
    Ok((chosen, server))
}

fn once<'a>(list: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(format!("{list}: the name {name:?} is given twice"));
        }
    }
    Ok(())
}

/// WH-5.
///
/// DIVERGES: `http` is refused except for this machine, because anybody on the network could otherwise decide requests.
/// So is `insecure-skip-tls-verify`.
fn server(chosen: &Chosen) -> Result<Uri, String> {
    let cluster = &chosen.cluster;
    let text = cluster.server.as_deref().unwrap_or_default();
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

/// A token file takes precedence over a token, and both over a password.
fn credentials(chosen: &Chosen) -> Result<Credentials, ConnectError> {
    if let Some(path) = chosen.path(chosen.user.token_file.as_ref()) {
        read_file(&path)?;
        return Ok(Credentials::TokenFile(path));
    }
    if let Some(token) = chosen.secret("token") {
        return Ok(Credentials::Header(format!("Bearer {token}")));
    }
    Ok(match chosen.secret("username") {
        Some(name) => {
            let pair = format!("{name}:{}", chosen.secret("password").unwrap_or_default());
            Credentials::Header(format!("Basic {}", STANDARD.encode(pair)))
        }
        None => Credentials::None,
    })
}
