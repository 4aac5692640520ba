//! A fake authorization and authentication webhook: HTTPS on the loopback interface, with an authority made by openssl.
//! The test decides how it answers: correctly, slowly, wrongly, or not at all.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::tool::{self, Finished};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// What the service does with one request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers with this code, type and body.
    Body(u16, &'static str, String),
    /// Answers with this code and these lines of head, and no body.
    Head(u16, String),
    /// Waits before it does something else.
    After(Duration, Box<Reply>),
    /// Closes the connection without an answer.
    Close,
}

impl Reply {
    /// The answer to a review, of the version that was asked in, with this status.
    pub fn status(asked: &Asked, status: &Value) -> Self {
        let answer = json!({
            "apiVersion": asked.review["apiVersion"], "kind": "SubjectAccessReview", "status": status,
        });
        Self::Body(200, "application/json", answer.to_string())
    }
}

/// What the service was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The request line.
    pub line: String,
    /// The lines of the head, in lower case.
    pub head: Vec<String>,
    /// The body.
    pub review: Value,
    /// Whether the caller showed a certificate of the authority.
    pub has_certificate: bool,
}

type Behaviour = Arc<dyn Fn(&Asked, usize) -> Reply + Send + Sync>;

/// A running service.
pub struct WebhookService {
    address: SocketAddr,
    folder: PathBuf,
    asked: Arc<Mutex<Vec<Asked>>>,
}

pub(crate) fn openssl(folder: &Path, arguments: &[&str]) {
    Finished::of(tool::command("openssl").args(arguments).current_dir(folder)).ok();
}

/// An authority, the service's certificate, and one for the API server, as PEM files in a folder.
pub fn certificates(folder: &Path) {
    fs::write(folder.join("openssl.cnf"), "[req]\ndistinguished_name = dn\n[dn]\n")
        .expect("the folder is writable");
    certificate(folder, "ca", "/CN=webhook-ca", &["-addext", "basicConstraints=critical,CA:TRUE"]);
    let names = "subjectAltName=DNS:authz.example.com,DNS:hook.default.svc,IP:127.0.0.1";
    certificate(folder, "service", "/CN=authz", &[&ISSUED[..], &[names]].concat());
    client_certificate(folder, "apiserver");
    certificate(folder, "selfsigned", "/CN=other", &["-addext", names]);
}

/// Makes the certificate of a client, and its key, with the authority in a folder of [`certificates`].
pub fn client_certificate(folder: &Path, name: &str) {
    let usage = ["extendedKeyUsage=clientAuth"];
    certificate(folder, name, &format!("/CN={name}"), &[&ISSUED[..], &usage].concat());
}

/// The arguments of a certificate that the authority issues. Another extension follows.
const ISSUED: [&str; 7] =
    ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-addext", "basicConstraints=critical,CA:FALSE", "-addext"];

fn certificate(folder: &Path, name: &str, subject: &str, more: &[&str]) {
    let (key, out) = (format!("{name}-key.pem"), format!("{name}.pem"));
    let common = [
        "req",
        "-x509",
        "-config",
        "openssl.cnf",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        subject,
        "-keyout",
        &key,
        "-out",
        &out,
    ];
    openssl(folder, &[&common, more].concat());
}

impl WebhookService {
    /// Starts a service whose certificates lie in a folder of its own below this one. The behaviour is told what is
    /// asked and how much was asked before.
    pub fn start(below: &Path, behaviour: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_as(below, "service", behaviour)
    }

    /// [`WebhookService::start`] with one of the certificates made: `service`, or `selfsigned`.
    pub fn start_as(
        below: &Path,
        certificate: &str,
        behaviour: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("the listener has an address");
        let folder = below.join(format!("webhook-{}", address.port()));
        fs::create_dir_all(&folder).expect("the folder is writable");
        certificates(&folder);
        let config = tls(&folder, certificate);
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let behaviour: Behaviour = Arc::new(behaviour);
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, behaviour, log) =
                    (Arc::clone(&config), Arc::clone(&behaviour), Arc::clone(&log));
                // A client that disconnects is no concern of a test.
                thread::spawn(move || drop(serve(stream, config, &behaviour, &log)));
            }
        });
        Self { address, folder, asked }
    }

    /// Returns the local address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A file beside the certificates.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// All that was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a connection file in the form of the authorization guide, for this service.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_with(&format!("https://{}/authorize", self.address), "certificate-authority: ca.pem")
    }

    /// [`WebhookService::kubeconfig`] with another server, and these fields for its cluster.
    pub fn kubeconfig_with(&self, server: &str, fields: &str) -> PathBuf {
        let text = format!(
            "# clusters refers to the remote service.
clusters:
  - name: name-of-remote-authz-service
    cluster:
      {fields}
      server: {server}
users:
  - name: name-of-api-server
    user:
      client-certificate: apiserver.pem
      client-key: apiserver-key.pem
current-context: webhook
contexts:
- context:
    cluster: name-of-remote-authz-service
    user: name-of-api-server
  name: webhook
"
        );
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.file(&format!("kubeconfig-{count}.yaml"));
        fs::write(&path, text).expect("the folder is writable");
        path
    }
}

pub(crate) fn tls(folder: &Path, certificate: &str) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let read = |name: &str| CertificateDer::from_pem_file(folder.join(name)).expect("openssl wrote it");
    let mut roots = RootCertStore::empty();
    roots.add(read("ca.pem")).expect("an authority");
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .expect("a verifier");
    let key = PrivateKeyDer::from_pem_file(folder.join(format!("{certificate}-key.pem")))
        .expect("openssl wrote it");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the defaults are safe")
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![read(&format!("{certificate}.pem"))], key)
        .expect("the key belongs to the certificate");
    Arc::new(config)
}

fn serve(
    tcp: TcpStream,
    config: Arc<ServerConfig>,
    behaviour: &Behaviour,
    log: &Mutex<Vec<Asked>>,
) -> io::Result<()> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, tcp));
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let line = lines.remove(0);
        let head: Vec<String> = lines.iter().map(|line| line.to_lowercase()).collect();
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body)?;
        let has_certificate = stream.get_ref().conn.peer_certificates().is_some();
        let review = serde_json::from_slice(&body).unwrap_or_default();
        let asked = Asked { line, head, review, has_certificate };
        let before = {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push(asked.clone());
            log.len() - 1
        };
        let mut reply = behaviour(&asked, before);
        while let Reply::After(delay, then) = reply {
            thread::sleep(delay);
            reply = *then;
        }
        let answer = match reply {
            Reply::Close | Reply::After(..) => return Ok(()),
            Reply::Head(code, lines) => format!("HTTP/1.1 {code} Code\r\n{lines}Content-Length: 0\r\n\r\n"),
            Reply::Body(code, media, body) => {
                let length = body.len();
                format!(
                    "HTTP/1.1 {code} Code\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n{body}"
                )
            }
        };
        stream.get_mut().write_all(answer.as_bytes())?;
        stream.get_mut().flush()?;
    }
}
