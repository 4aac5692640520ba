//! Connections of the API server to kubelets, pods and services: credentials, verification, addresses and timeouts.
//!
//! DIVERGES: kube-apiserver verifies certificates of kubelets only if `--kubelet-certificate-authority` is given. Here they are
//! always verified, names as well: without that flag by the authority that signs serving certificates of kubelets.
//! `--kubelet-insecure-tls` is kube-apiserver's behavior.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{Request, Response};
use hyper::body::Incoming;
use pki::tls::ClientConfig;
use policy::approval::machine::Cidr;

use super::addresses::{Addresses, Resolve, SystemResolver};
use super::dial::{self, Destination, DialError};
use super::tls_files::{Source, Texts, TlsFiles, TlsFilesError};
use crate::http::account::Account;
use crate::http::passed_body::PassedBody;

/// The user that the server is to kubelets if no certificate is given.
pub const USER: &str = "kube-apiserver-kubelet-client";
/// The port of kubelets.
pub const PORT: u16 = 10250;
/// The default of `--kubelet-preferred-address-types`, as in kube-apiserver.
pub const ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
/// The default of `--kubelet-timeout`, as in kube-apiserver.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// The settings for connections to kubelets. Names follow the flags of kube-apiserver.
#[derive(Clone)]
pub struct KubeletSettings {
    /// The files of the client certificate and its key (`--kubelet-client-certificate`, `--kubelet-client-key`). If none, the
    /// server's own authority issues one for [`USER`], without groups.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The file of the authority of kubelets (`--kubelet-certificate-authority`). If none, the authority that signs for
    /// `kubernetes.io/kubelet-serving`.
    pub authority: Option<PathBuf>,
    /// Whether certificates of kubelets are not verified (`--kubelet-insecure-tls`).
    pub is_insecure: bool,
    /// The types of addresses of nodes in the order in which they are taken (`--kubelet-preferred-address-types`).
    pub address_types: Vec<String>,
    /// The port of kubelets whose nodes do not tell theirs (`--kubelet-port`).
    pub port: u16,
    /// How long connecting may take (`--kubelet-timeout`).
    pub timeout: Duration,
    /// Addresses that are connected to although they are loopback, link-local or other special addresses
    /// (`--kubelet-allowed-cidrs`).
    pub allowed: Vec<Cidr>,
    /// Whether an upgrade over `nodes/proxy` needs the right to `create` (`--node-proxy-upgrade-requires-create`).
    pub upgrade_creates: bool,
    /// Resolves the names of nodes.
    pub resolver: Arc<dyn Resolve>,
}

impl Default for KubeletSettings {
    fn default() -> Self {
        Self {
            client: None,
            authority: None,
            is_insecure: false,
            address_types: ADDRESS_TYPES.map(str::to_owned).to_vec(),
            port: PORT,
            timeout: TIMEOUT,
            allowed: Vec::new(),
            upgrade_creates: true,
            resolver: Arc::new(SystemResolver),
        }
    }
}

impl fmt::Debug for KubeletSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeletSettings").field("authority", &self.authority).finish_non_exhaustive()
    }
}

/// The server's own credentials, for what the settings do not name.
pub(crate) struct Own {
    /// The authority that signs serving certificates of kubelets, in PEM, as it is now; empty if there is none.
    pub(crate) authority: Arc<dyn Fn() -> Vec<u8> + Send + Sync>,
    /// A certificate for [`USER`], and its key; none if the settings name one.
    pub(crate) client: Option<(String, String)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Kubelets {
    pub(crate) settings: KubeletSettings,
    pub(crate) addresses: Addresses,
    files: TlsFiles,
    tls: ArcSwap<Tls>,
    /// TLS with what is no kubelet: without a certificate, and without verification, because pods and services have none that
    /// the server could verify.
    stranger: Arc<ClientConfig>,
}

/// TLS with kubelets.
#[derive(Debug)]
struct Tls {
    /// The reason for which certificates cannot be verified, if they cannot.
    verifying: Result<Arc<ClientConfig>, String>,
    unverified: Arc<ClientConfig>,
}

impl Kubelets {
    /// Reads the files. Nothing is connected to yet.
    ///
    /// # Errors
    /// A file of the settings cannot be used.
    pub(crate) fn new(settings: KubeletSettings, own: Own) -> Result<Self, TlsFilesError> {
        let (certificate, key) = match &settings.client {
            Some((certificate, key)) => (Source::File(certificate.clone()), Source::File(key.clone())),
            None => {
                let (certificate, key) = own.client.unwrap_or_default();
                let name = "the client certificate of the server's own authority";
                (Source::fixed(name, certificate), Source::fixed("its key", key))
            }
        };
        let authority = match &settings.authority {
            Some(file) => Source::File(file.clone()),
            None => Source::Held("the authority of kubernetes.io/kubelet-serving", own.authority),
        };
        let files = TlsFiles { authority, certificate, key };
        let texts = files.read()?;
        let tls = Tls::of(&files, &texts, settings.authority.is_some())?;
        let stranger = pki::tls::unverified(None).map_err(|source| files.refused(source))?;
        Ok(Self {
            addresses: Addresses::new(Arc::clone(&settings.resolver), settings.allowed.clone()),
            settings,
            files,
            tls: ArcSwap::from_pointee(tls),
            stranger: Arc::new(stranger),
        })
    }

    /// Takes changed certificates up, until the future is dropped.
    pub(crate) async fn follow(self: Arc<Self>) {
        let take_up = |texts: &Texts| {
            let tls = Tls::of(&self.files, texts, self.settings.authority.is_some())?;
            self.tls.store(Arc::new(tls));
            Ok(())
        };
        self.files.follow(take_up).await;
    }

    /// TLS with a kubelet. `skips`: the caller wants its certificate not to be verified.
    ///
    /// # Errors
    /// Its certificate cannot be verified.
    pub(crate) fn tls(&self, skips: bool) -> Result<Arc<ClientConfig>, DialError> {
        let tls = self.tls.load();
        if skips || self.settings.is_insecure {
            return Ok(Arc::clone(&tls.unverified));
        }
        tls.verifying.clone().map_err(DialError::Tls)
    }

    /// TLS with what is no kubelet.
    pub(crate) fn stranger(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.stranger)
    }

    /// Connects on behalf of this account, sends a request, and waits for the head of the answer.
    ///
    /// # Errors
    /// See [`DialError`].
    pub(crate) async fn send(
        &self,
        to: (&Destination, Account),
        request: Request<PassedBody>,
    ) -> Result<Response<Incoming>, DialError> {
        let line = dial::connect(&self.addresses, to, self.settings.timeout).await?;
        line.send(request).await
    }
}

impl Tls {
    /// Without a file, the authority may be missing: then nothing can be verified.
    fn of(files: &TlsFiles, texts: &Texts, has_file: bool) -> Result<Self, TlsFilesError> {
        let verifying = match files.verifying(texts) {
            Ok(config) => Ok(Arc::new(config)),
            Err(error @ TlsFilesError::Tls { .. }) if !has_file => {
                Err(format!("{error}: set --kubelet-certificate-authority"))
            }
            Err(error) => return Err(error),
        };
        Ok(Self { verifying, unverified: Arc::new(files.unverified(texts)?) })
    }
}
