//! The files by which a kubelet uses the proxy. They are new after each boot of the machine.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use portcullis_pki::ca::{Template, Usage};
use portcullis_pki::{CertificateAuthority, KeyPair, Pair, Request, pem};
use rustls_pki_types::CertificateDer;

use super::ProxyError;
use crate::node_certificate::files::{failed, read, read_private, write_private, write_public};

/// How long the certificates of a start are valid. A proxy that runs for longer starts again.
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Changes when the machine boots.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What the serving certificate is for, but for the address.
fn serving_request() -> Request {
    Request {
        common_name: "portcullis-tpm-proxy".to_owned(),
        dns_names: vec!["localhost".to_owned()],
        ..Request::default()
    }
}

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
    /// Writes what the kubelet needs: an authority, a serving certificate and a client certificate. Those of an earlier start
    /// are used again until the machine boots, so that the kubelet need not start again. The key of the authority is not
    /// kept.
    pub(super) fn write(dir: &Path, address: SocketAddr) -> Result<(Self, Secrets), ProxyError> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed("make", dir))?;
        let files = Self {
            kubeconfig: dir.join("proxy.kubeconfig"),
            authority: dir.join("proxy-ca.crt"),
            client: dir.join("proxy-client.pem"),
        };
        let (server, boot) = (dir.join("proxy-server.pem"), dir.join("proxy-boot-id"));
        let now = read(Path::new(BOOT_ID))?.unwrap_or_default();
        let is_of_this_boot = !now.is_empty() && read(&boot)? == Some(now.clone());
        let kept = if is_of_this_boot { files.kept(&server, address)? } else { None };
        let secrets = match kept {
            Some(secrets) => secrets,
            None => {
                let secrets = files.make(&server, address)?;
                // Written last, so that the files of an interrupted start are not used.
                write_private(&boot, &now)?;
                secrets
            }
        };
        write_private(&files.kubeconfig, files.kubeconfig_text(address).as_bytes())?;
        Ok((files, secrets))
    }

    /// The secrets of an earlier start; none if they cannot be used, or are for another address.
    fn kept(&self, server: &Path, address: SocketAddr) -> Result<Option<Secrets>, ProxyError> {
        let (Some(server), Some(client)) = (read_private(server)?, read_private(&self.client)?) else {
            return Ok(None);
        };
        let pair = |text: &[u8]| Pair::from_pem(text, text).ok();
        let (Some(serving), Some(calling)) = (pair(&server), pair(&client)) else { return Ok(None) };
        let template = Request { ip_addresses: vec![address.ip()], ..serving_request() };
        let client = pem::first(&client).filter(|block| block.label == "CERTIFICATE");
        let (Ok(server_key), Some(client), true) =
            (KeyPair::from_pem(&server), client, self.authority.exists())
        else {
            return Ok(None);
        };
        let client = CertificateDer::from(client.der);
        let until = SystemTime::now().checked_add(LIFETIME / 2).unwrap_or(SystemTime::UNIX_EPOCH);
        let is_good =
            serving.satisfies(&template) && calling.is_unexpired(until) && serving.is_unexpired(until);
        let server_chain = serving.certificates_pem();
        Ok(is_good.then_some(Secrets { server_chain, server_key, client }))
    }

    /// Makes new secrets.
    fn make(&self, server_file: &Path, address: SocketAddr) -> Result<Secrets, ProxyError> {
        let certificate = |error: &dyn std::fmt::Display| ProxyError::Certificate(error.to_string());
        let now = SystemTime::now();
        let authority = CertificateAuthority::generate("portcullis-tpm-proxy-ca", now, LIFETIME)
            .map_err(|error| certificate(&error))?;
        let issue = |usage, name: String| {
            let key = KeyPair::generate().map_err(|error| certificate(&error))?;
            let template = Template {
                common_name: name,
                organizations: Vec::new(),
                dns_names: vec!["localhost".to_owned()],
                ip_addresses: vec![address.ip()],
                usage,
                lifetime: LIFETIME,
            };
            let issued = authority.issue(&template, &key, now).map_err(|error| certificate(&error))?;
            Ok::<_, ProxyError>((issued, key))
        };
        let (server, server_key) = issue(Usage::Server, serving_request().common_name)?;
        let (client, client_key) = issue(Usage::Client, "kubelet-of-this-machine".to_owned())?;
        let server_chain = pem::encode("CERTIFICATE", &server);
        let pair = pem::encode("CERTIFICATE", &client) + &client_key.to_pem();
        write_public(&self.authority, authority.certificate_pem().as_bytes())?;
        write_private(&self.client, pair.as_bytes())?;
        write_private(server_file, (server_chain.clone() + &server_key.to_pem()).as_bytes())?;
        Ok(Secrets { server_chain, server_key, client })
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
