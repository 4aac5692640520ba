//! The authorities and certificates of a kubelet, and how it verifies client certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme};
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;

use crate::webhook::openssl;

/// The names that the serving certificate is for.
const NAMES: &str = "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:node-1,DNS:kubelet.example.com";

/// Creates what does not exist yet: the authority of the kubelet's serving certificate, that certificate, and the
/// authority of its clients.
pub(super) fn make(folder: &Path) {
    fs::create_dir_all(folder).expect("the folder is writable");
    if folder.join("kubelet.pem").exists() {
        return;
    }
    fs::write(folder.join("openssl.cnf"), "[req]\ndistinguished_name = dn\n[dn]\n")
        .expect("the folder is writable");
    let authority = ["-addext", "basicConstraints=critical,CA:TRUE"];
    new(folder, "client-ca", "/CN=kubelet-client-ca", &authority);
    new(folder, "kubelet-ca", "/CN=kubelet-ca", &authority);
    let usage = ["-addext", "extendedKeyUsage=serverAuth", "-addext", NAMES];
    new(
        folder,
        "kubelet",
        "/O=system:nodes/CN=system:node:node-1",
        &[&issued("kubelet-ca")[..], &usage.map(str::to_owned)].concat(),
    );
}

/// A certificate that a client may show, of an authority in this folder, for a name (CN) and groups (O):
/// the files `NAME.pem` and `NAME-key.pem`.
pub(super) fn client(
    folder: &Path,
    authority: &str,
    name: &str,
    user: &str,
    groups: &[&str],
) -> (PathBuf, PathBuf) {
    let groups: String = groups.iter().map(|group| format!("/O={group}")).collect();
    let usage = ["-addext", "extendedKeyUsage=clientAuth"].map(str::to_owned);
    new(folder, name, &format!("{groups}/CN={user}"), &[&issued(authority)[..], &usage].concat());
    (folder.join(format!("{name}.pem")), folder.join(format!("{name}-key.pem")))
}

fn issued(authority: &str) -> [String; 6] {
    let (file, key) = (format!("{authority}.pem"), format!("{authority}-key.pem"));
    ["-CA", &file, "-CAkey", &key, "-addext", "basicConstraints=critical,CA:FALSE"].map(str::to_owned)
}

fn new(folder: &Path, name: &str, subject: &str, more: &[impl AsRef<str>]) {
    let (key, out) = (format!("{name}-key.pem"), format!("{name}.pem"));
    let request =
        "req -x509 -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let mut arguments: Vec<&str> = request.split(' ').collect();
    arguments.extend(["-subj", subject, "-keyout", &key, "-out", &out]);
    arguments.extend(more.iter().map(AsRef::as_ref));
    openssl(folder, &arguments);
}

/// How a kubelet asks for certificates: every one is taken in the handshake, and looked at per request (KA-5, KA-41).
#[derive(Debug)]
struct Requested(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Requested {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// The client of a connection.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// The CN of the certificate shown; empty if it has none.
    pub(super) shown: Option<String>,
    /// Whether the certificate is one of the client authority.
    pub(super) trusted: bool,
}

/// The TLS side of a kubelet.
pub(super) struct Tls {
    pub(super) config: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Tls {
    pub(super) fn read(folder: &Path, http2: bool) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let read = |name: &str| CertificateDer::from_pem_file(folder.join(name)).expect("openssl wrote it");
        let mut roots = RootCertStore::empty();
        roots.add(read("client-ca.pem")).expect("an authority");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .expect("a verifier");
        let key = PrivateKeyDer::from_pem_file(folder.join("kubelet-key.pem")).expect("openssl wrote it");
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the defaults are safe")
            .with_client_cert_verifier(Arc::new(Requested(Arc::clone(&verifier))))
            .with_single_cert(vec![read("kubelet.pem")], key)
            .expect("the key belongs to the certificate");
        let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Self { config: Arc::new(config), verifier }
    }

    /// Looks at the certificates that a client showed.
    pub(super) fn peer(&self, certificates: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some((leaf, others)) = certificates.and_then(<[_]>::split_first) else { return Peer::default() };
        let trusted = self.verifier.verify_client_cert(leaf, others, UnixTime::now()).is_ok();
        Peer { shown: Some(common_name(leaf).unwrap_or_default()), trusted }
    }
}

fn common_name(certificate: &[u8]) -> Option<String> {
    const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
    let certificate = x509_cert::Certificate::from_der(certificate).ok()?;
    let subject = certificate.tbs_certificate().subject().clone();
    let names = subject.iter().filter(|part| part.oid == COMMON_NAME);
    let texts = names.filter_map(|part| String::from_utf8(part.value.value().to_vec()).ok());
    texts.last()
}
