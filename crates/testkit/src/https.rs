//! An HTTPS client that keeps its connection, for tests that send too many requests for curl. It reads only as much of
//! HTTP/1.1 as `portcullis serve` writes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use crate::protobuf;

/// How long a read waits for data before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

type Stream = BufReader<Raw>;

/// The authority that a client trusts, and its credential.
#[derive(Clone, Debug)]
pub struct Identity {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) token: Option<String>,
}

impl Identity {
    /// Reads PEM files: the authority of the server, and the client's certificate and key.
    pub fn read(authority: &Path, certificate: &Path, key: &Path) -> Self {
        Self::try_read(authority, certificate, key).unwrap()
    }

    /// Reads PEM files, as [`Identity::read`].
    ///
    /// # Errors
    /// A client should not use this certificate, or not with this key.
    pub fn try_read(authority: &Path, certificate: &Path, key: &Path) -> Result<Self, rustls::Error> {
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let config = trusting(authority).with_client_auth_cert(chain(certificate), key)?;
        Ok(Self { config: Arc::new(config), token: None })
    }

    /// Reads the authority of the server; the client sends a token with every request.
    pub fn with_token(authority: &Path, token: &str) -> Self {
        let config = trusting(authority).with_no_client_auth();
        Self { config: Arc::new(config), token: Some(token.to_owned()) }
    }

    /// Reads the authority of the server; the client has no credential.
    pub fn anonymous(authority: &Path) -> Self {
        Self { config: Arc::new(trusting(authority).with_no_client_auth()), token: None }
    }

    /// The administrator in a data directory of `portcullis serve`.
    pub fn admin(data: &Path) -> Self {
        Self::read(&data.join("ca.crt"), &data.join("admin.crt"), &data.join("admin.key"))
    }
}

fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
}

fn trusting(authority: &Path) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let mut roots = RootCertStore::empty();
    chain(authority).into_iter().for_each(|root| roots.add(root).unwrap());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    versions.unwrap().with_root_certificates(roots)
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status code.
    pub code: u16,
    /// Its media type, with parameters.
    pub media_type: String,
    /// Its header `Audit-Id`; empty if it has none.
    pub audit_id: String,
    /// Its header `Location`, if it has one.
    pub location: Option<String>,
    /// Its headers `Warning`.
    pub warnings: Vec<String>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Checks that the answer is a refusal with this code and reason, and returns it.
    #[track_caller]
    pub fn assert_status(&self, code: u16, reason: &str) -> Value {
        assert_eq!(self.code, code, "{}", self.text());
        let status = self.json();
        assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Failure")), "{status}");
        assert_eq!((&status["code"], &status["reason"]), (&json!(code), &json!(reason)), "{status}");
        status
    }

    /// The body as text, for messages of tests.
    pub fn text(&self) -> String {
        match self.media_type == protobuf::MEDIA_TYPE {
            true => self.json().to_string(),
            false => String::from_utf8_lossy(&self.body).into_owned(),
        }
    }

    /// The body, which is JSON or protobuf.
    #[track_caller]
    pub fn json(&self) -> Value {
        if self.media_type == protobuf::MEDIA_TYPE {
            return protobuf::decode(&self.body);
        }
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }
}

/// A connection on which every byte is written by hand.
pub type Raw = StreamOwned<ClientConnection, TcpStream>;

fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> io::Result<Raw> {
    secure(TcpStream::connect(address)?, address, config)
}

fn secure(tcp: TcpStream, address: SocketAddr, config: Arc<ClientConfig>) -> io::Result<Raw> {
    tcp.set_nodelay(true)?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    let name = ServerName::from(address.ip());
    let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut tcp = tcp;
    while tls.is_handshaking() {
        tls.complete_io(&mut tcp)?;
    }
    Ok(StreamOwned::new(tls, tcp))
}

/// Opens a connection on which every byte is written by hand, over a protocol that ALPN names. It comes from this address.
///
/// # Errors
/// The handshake failed.
pub fn raw(address: SocketAddr, from: SocketAddr, identity: &Identity, protocol: &str) -> io::Result<Raw> {
    let mut config = ClientConfig::clone(&identity.config);
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let socket = {
        let _entered = runtime.enter();
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(from)?;
        runtime.block_on(socket.connect(address))?.into_std()?
    };
    socket.set_nonblocking(false)?;
    secure(socket, address, Arc::new(config))
}

/// One connection, made when it is first needed and again after a failure.
pub struct Client {
    address: SocketAddr,
    identity: Identity,
    headers: String,
    /// Whether it sends and asks for protobuf, as kubelets and controllers do.
    is_protobuf: bool,
    stream: Option<Stream>,
    connections: usize,
}

impl Client {
    /// A client of the server at an address of this machine.
    pub fn new(address: SocketAddr, identity: &Identity) -> Self {
        let token = identity.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let headers = token.unwrap_or_default();
        Self {
            address,
            identity: identity.clone(),
            headers,
            is_protobuf: false,
            stream: None,
            connections: 0,
        }
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Sends this header, `name: value`, with every request from now on.
    #[must_use]
    pub fn header(mut self, header: &str) -> Self {
        self.headers.push_str(header);
        self.headers.push_str("\r\n");
        self
    }

    /// Speaks as a kubelet does from now on: bodies are protobuf, except for patches, and so are answers. A body without
    /// a kind gets that of its path, as client-go adds it.
    #[must_use]
    pub fn in_protobuf(self) -> Self {
        let client = self.header(&format!("Accept: {},application/json", protobuf::MEDIA_TYPE));
        Self { is_protobuf: true, ..client }
    }

    /// The body of a request with its media type.
    #[track_caller]
    fn body(&self, method: &str, path: &str, body: Option<&Value>) -> (&'static str, Vec<u8>) {
        let is_named = self.headers.contains("Content-Type:");
        let media_type = match method {
            _ if is_named => "",
            "PATCH" => "Content-Type: application/merge-patch+json\r\n",
            _ => "Content-Type: application/json\r\n",
        };
        let Some(body) = body else { return (media_type, Vec::new()) };
        if self.is_protobuf && !is_named && method != "PATCH" {
            let (version, kind) = match method {
                "DELETE" => ("v1".to_owned(), "DeleteOptions"),
                _ => protobuf::kind_of(path).unwrap_or_else(|| panic!("no kind is recorded for {path}")),
            };
            let mut document = json!({"apiVersion": version, "kind": kind});
            document.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            return ("Content-Type: application/vnd.kubernetes.protobuf\r\n", protobuf::encode(&document));
        }
        (media_type, body.to_string().into_bytes())
    }

    fn connected(&mut self) -> io::Result<&mut Stream> {
        if self.stream.is_none() {
            let stream = connect(self.address, Arc::clone(&self.identity.config))?;
            self.stream = Some(BufReader::new(stream));
            self.connections += 1;
        }
        self.stream.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Sends a request, and reads the whole answer.
    ///
    /// # Errors
    /// The connection broke. The server may have processed the request or not.
    #[track_caller]
    pub fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let (media_type, body) = self.body(method, path, body);
        let headers = format!("{}{media_type}", self.headers);
        self.exchange(method, path, &headers, &body)
    }

    /// Sends a request with these bytes as its body, and reads the whole answer.
    ///
    /// # Errors
    /// The connection broke. The server may have processed the request or not.
    pub fn send(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        let headers = self.headers.clone();
        self.exchange(method, path, &headers, body)
    }

    fn exchange(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> io::Result<Answer> {
        let answer = self.connected().and_then(|stream| {
            send(stream, method, path, headers, body)?;
            let head = Head::read(stream)?;
            let mut body = Vec::new();
            match head.length {
                _ if method == "HEAD" || head.code == 204 => {}
                Some(length) => {
                    body.resize(length, 0);
                    stream.read_exact(&mut body)?;
                }
                None => while chunk(stream, &mut body)? {},
            }
            let Head { code, media_type, audit_id, location, warnings, closes, .. } = head;
            Ok((Answer { code, media_type, audit_id, location, warnings, body }, closes))
        });
        match answer {
            Ok((answer, closes)) => {
                if closes {
                    self.stream = None;
                }
                Ok(answer)
            }
            Err(error) => {
                self.stream = None;
                Err(error)
            }
        }
    }

    /// Sends a request that must be answered with this status code, and returns the body.
    #[track_caller]
    pub fn must(&mut self, code: u16, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = self.ask(method, path, body).unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.text());
        answer.json()
    }

    /// Starts a watch, which takes the connection.
    ///
    /// # Errors
    /// The connection broke, or the answer is not a stream.
    pub fn watch(mut self, path: &str) -> io::Result<Events> {
        let headers = self.headers.clone();
        let stream = self.connected()?;
        send(stream, "GET", path, &headers, &[])?;
        let head = Head::read(stream)?;
        if (head.code, head.length) != (200, None) {
            return Err(io::Error::other(format!("{path} is answered {}", head.code)));
        }
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        let is_protobuf = head.media_type == "application/vnd.kubernetes.protobuf;stream=watch";
        Ok(Events { stream, is_protobuf, text: Vec::new(), ended: false })
    }
}

fn send(stream: &mut Stream, method: &str, path: &str, headers: &str, body: &[u8]) -> io::Result<()> {
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len(),
    )
    .into_bytes();
    request.extend(body);
    stream.get_mut().write_all(&request)?;
    stream.get_mut().flush()
}

#[derive(Default)]
struct Head {
    code: u16,
    media_type: String,
    location: Option<String>,
    audit_id: String,
    warnings: Vec<String>,
    /// Nothing for a body in chunks.
    length: Option<usize>,
    closes: bool,
}

impl Head {
    fn read(stream: &mut Stream) -> io::Result<Self> {
        let mut head = Self::default();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if let Some(rest) = line.strip_prefix("HTTP/1.1 ") {
                head.code = rest.get(..3).and_then(|code| code.parse().ok()).unwrap();
            } else if line.is_empty() {
                return Ok(head);
            }
            if let Some(warning) = line.strip_prefix("warning: ") {
                head.warnings.push(warning.to_owned());
            }
            match line.to_ascii_lowercase().split_once(": ") {
                Some(("content-type", media_type)) => media_type.clone_into(&mut head.media_type),
                Some(("audit-id", id)) => id.clone_into(&mut head.audit_id),
                Some(("location", location)) => head.location = Some(location.to_owned()),
                Some(("content-length", length)) => head.length = length.parse().ok(),
                Some(("connection", "close")) => head.closes = true,
                _ => {}
            }
        }
    }
}

/// Reads a chunk. False: it was the last, which is empty.
fn chunk(stream: &mut Stream, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let length = usize::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
    let start = into.len();
    into.resize(start + length + 2, 0);
    stream.read_exact(into.get_mut(start..).unwrap_or_default())?;
    into.truncate(start + length);
    Ok(length > 0)
}

/// The events of a watch, one after the other. Dropping this cuts the connection.
pub struct Events {
    stream: Stream,
    is_protobuf: bool,
    /// Bytes of incomplete events, and events that were not asked for yet.
    text: Vec<u8>,
    ended: bool,
}

impl Iterator for Events {
    type Item = io::Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.is_protobuf {
                if let Some(event) = protobuf::take_event(&mut self.text) {
                    return Some(Ok(event));
                }
            } else if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).map_err(io::Error::from));
            }
            if self.ended {
                assert!(self.text.is_empty(), "half an event: {}", String::from_utf8_lossy(&self.text));
                return None;
            }
            match chunk(&mut self.stream, &mut self.text) {
                Ok(more) => self.ended = !more,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
