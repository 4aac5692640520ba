//! The files by which a kubelet uses the proxy. They are new at each start.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use portcullis_pki::ca::{Template, Usage};
use portcullis_pki::{CertificateAuthority, KeyPair, pem};
use rustls_pki_types::CertificateDer;

use super::ProxyError;
use crate::node_certificate::files::{failed, write_private, write_public};

/// How long the certificates of a start are valid. A proxy that runs for longer starts again.
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The files for the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyFiles {
    /// A kubeconfig that names the others.
    pub kubeconfig: PathBuf,
    /// The certificate of the proxy's authority.
    pub authority: PathBuf,
    /// The certificate that callers present, and its key, in one file.
    pub client: PathBuf,
}

/// What the proxy keeps in memory.
pub(super) struct Secrets {
    pub(super) server_chain: String,
    pub(super) server_key: KeyPair,
    pub(super) client: CertificateDer<'static>,
}

impl ProxyFiles {
    /// Makes an authority, a serving certificate and a client certificate, and writes what the kubelet needs. The key of
    /// the authority is not kept.
    pub(super) fn write(dir: &Path, address: SocketAddr) -> Result<(Self, Secrets), ProxyError> {
        let certificate = |error: &dyn std::fmt::Display| ProxyError::Certificate(error.to_string());
        let now = SystemTime::now();
        let authority = CertificateAuthority::generate("portcullis-tpm-proxy-ca", now, LIFETIME)
            .map_err(|error| certificate(&error))?;
        let issue = |usage, name: &str| {
            let key = KeyPair::generate().map_err(|error| certificate(&error))?;
            let template = Template {
                common_name: name.to_owned(),
                organizations: Vec::new(),
                dns_names: vec!["localhost".to_owned()],
                ip_addresses: vec![address.ip()],
                usage,
                lifetime: LIFETIME,
            };
            let issued = authority.issue(&template, &key, now).map_err(|error| certificate(&error))?;
            Ok::<_, ProxyError>((issued, key))
        };
        let (server, server_key) = issue(Usage::Server, "portcullis-tpm-proxy")?;
        let (client, client_key) = issue(Usage::Client, "kubelet-of-this-machine")?;
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed("make", dir))?;
        let files = Self {
            kubeconfig: dir.join("proxy.kubeconfig"),
            authority: dir.join("proxy-ca.crt"),
            client: dir.join("proxy-client.pem"),
        };
        let pair = pem::encode("CERTIFICATE", &client) + &client_key.to_pem();
        write_public(&files.authority, authority.certificate_pem().as_bytes())?;
        write_private(&files.client, pair.as_bytes())?;
        write_private(&files.kubeconfig, files.kubeconfig_text(address).as_bytes())?;
        let secrets = Secrets { server_chain: pem::encode("CERTIFICATE", &server), server_key, client };
        Ok((files, secrets))
    }

    fn kubeconfig_text(&self, address: SocketAddr) -> String {
        let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
        let (authority, client) = (quoted(&self.authority), quoted(&self.client));
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: default-cluster\n  cluster:\n    server: \
             https://{address}\n    certificate-authority: {authority}\nusers:\n- name: default-auth\n  user:\n    \
             client-certificate: {client}\n    client-key: {client}\ncontexts:\n- name: default-context\n  context:\n    \
             cluster: default-cluster\n    namespace: default\n    user: default-auth\ncurrent-context: default-context\n"
        )
    }
}
