//! One request to a server that a test has started, on a connection of its own.
//!
//! It is sent with the headers that curl would send, but by this process: starting curl for each of thousands of requests
//! takes longer than the requests. curl itself sends what no library sends: a request with further arguments of curl, one
//! that [`http`] or `rustls` refuses to make, and one whose handshake failed, to report what curl says about it.

use std::io::Write as _;
use std::net::ToSocketAddrs as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{https, tool};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The headers that are about the connection rather than the request. A test that gives one means curl.
const OF_CONNECTIONS: [HeaderName; 6] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A client certificate: two files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate in PEM.
    pub certificate: PathBuf,
    /// Its key in PEM.
    pub key: PathBuf,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    url: String,
    ca: PathBuf,
    identity: Option<Identity>,
    headers: Vec<String>,
    body: Option<Vec<u8>>,
    /// More arguments of curl.
    words: Vec<String>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status code.
    pub code: u16,
    /// Status line and headers in lower case.
    pub head: String,
    /// Its headers `Warning`.
    pub warnings: Vec<String>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request to a server whose authority is in the file `ca`.
    pub fn new(method: &str, url: String, ca: PathBuf) -> Self {
        Self {
            method: method.to_owned(),
            url,
            ca,
            identity: None,
            headers: vec![],
            body: None,
            words: vec![],
        }
    }

    /// With the headers and the body of a recorded request.
    #[must_use]
    pub fn recorded(mut self, case: &Value) -> Self {
        for (name, value) in case["headers"].as_object().into_iter().flatten() {
            self = self.header(&format!("{name}: {}", value.as_str().unwrap()));
        }
        match &case["body"] {
            Value::Null => self,
            Value::String(text) => self.body(text.as_bytes()),
            other => self.body(other.to_string()),
        }
    }

    /// With a client certificate.
    #[must_use]
    pub fn by(mut self, identity: &Identity) -> Self {
        self.identity = Some(identity.clone());
        self
    }

    /// With a header as curl takes it: `name: value`, `name;` for one without a value, and `name:` to leave one out that is
    /// otherwise sent.
    #[must_use]
    pub fn header(mut self, header: &str) -> Self {
        self.headers.push(header.to_owned());
        self
    }

    /// With an argument of curl, which sends it then.
    #[must_use]
    pub fn word(mut self, word: &str) -> Self {
        self.words.push(word.to_owned());
        self
    }

    /// With a body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sends it, and returns the answer.
    ///
    /// # Panics
    /// There is none.
    #[track_caller]
    pub fn send(self) -> Answer {
        self.try_send().unwrap_or_else(|e| panic!("{e}"))
    }

    /// Sends it.
    ///
    /// # Errors
    /// There is no answer: the text says why.
    pub fn try_send(self) -> Result<Answer, String> {
        if self.words.is_empty()
            && let Some(request) = self.built()
        {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let sent = async {
                let Some(connection) = self.connected().await else { return Ok(None) };
                answered(connection, request).await.map(Some)
            };
            let sent = runtime.block_on(async { tokio::time::timeout(PATIENCE, sent).await });
            if let Some(answer) = sent.map_err(|_| format!("no answer within {PATIENCE:?}"))?? {
                return Ok(answer);
            }
        }
        self.by_curl()
    }

    /// The request with the headers that curl adds; nothing if it is for curl alone.
    fn built(&self) -> Option<http::Request<Full<Bytes>>> {
        let body = self.body.clone().unwrap_or_default();
        let mut request = http::Request::builder()
            .method(self.method.as_bytes())
            .uri(&self.url)
            .body(Full::new(Bytes::from(body)))
            .ok()?;
        let headers = request.headers_mut();
        let mut left_out = Vec::new();
        for given in &self.headers {
            let (name, value) = match given.strip_suffix(';').filter(|name| !name.contains(':')) {
                Some(name) => (name, Some("")),
                None => given
                    .split_once(':')
                    .map(|(name, value)| (name, Some(value.trim()).filter(|v| !v.is_empty())))?,
            };
            let name: HeaderName = name.parse().ok()?;
            if OF_CONNECTIONS.contains(&name) {
                return None;
            }
            match value {
                Some(value) => drop(headers.append(name, HeaderValue::from_bytes(value.as_bytes()).ok()?)),
                None => left_out.push(name),
            }
        }
        let mut usual = vec![(header::ACCEPT, "*/*"), (header::USER_AGENT, "curl/7.88.1")];
        if self.body.is_some() {
            usual.push((header::CONTENT_TYPE, "application/x-www-form-urlencoded"));
        }
        for (name, value) in usual {
            if !left_out.contains(&name) && !headers.contains_key(&name) {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
        Some(request)
    }

    /// A connection over HTTP/2, or HTTP/1.1 with a server that does not have it; nothing if there is none.
    async fn connected(&self) -> Option<tokio_rustls::client::TlsStream<TcpStream>> {
        let url: http::Uri = self.url.parse().ok()?;
        let host = url.host()?.trim_matches(['[', ']']);
        let address = (host, url.port_u16()?).to_socket_addrs().ok()?.next()?;
        let identity = match &self.identity {
            Some(Identity { certificate, key }) => {
                https::Identity::try_read(&self.ca, certificate, key).ok()?
            }
            None => https::Identity::anonymous(&self.ca),
        };
        let mut config = ClientConfig::clone(&identity.config);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = TcpStream::connect(address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let name = ServerName::try_from(host.to_owned()).ok()?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()
    }

    fn by_curl(self) -> Result<Answer, String> {
        let mut command = tool::command("curl");
        command.args([
            "-sS",
            "-i",
            "--path-as-is",
            "--globoff",
            "--max-time",
            &PATIENCE.as_secs().to_string(),
        ]);
        command.arg("--cacert").arg(&self.ca).args(["-X", &self.method]);
        if let Some(Identity { certificate, key }) = &self.identity {
            command.arg("--cert").arg(certificate).arg("--key").arg(key);
        }
        for header in &self.headers {
            command.args(["-H", header]);
        }
        command.args(&self.words);
        if self.body.is_some() {
            command.args(["--data-binary", "@-"]);
        }
        if self.method == "HEAD" {
            command.arg("--head");
        }
        command.arg(&self.url).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let body = self.body.unwrap_or_default();
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&body);
        });
        let out = child.wait_with_output().unwrap();
        writer.join().unwrap();
        if out.stdout.is_empty() {
            return Err(format!("curl: {}", String::from_utf8_lossy(&out.stderr)));
        }
        let mut rest = out.stdout.as_slice();
        loop {
            let end = rest.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
            let head = String::from_utf8_lossy(&rest[..end]).into_owned();
            rest = &rest[end + 4..];
            let code = head.split(' ').nth(1).unwrap().parse().unwrap();
            if code != 100 {
                return Ok(Answer::new(code, &head, rest.to_vec()));
            }
        }
    }
}

/// Sends a request on a connection, and reads its answer as far as it comes.
async fn answered(
    connection: tokio_rustls::client::TlsStream<TcpStream>,
    mut request: http::Request<Full<Bytes>>,
) -> Result<Answer, String> {
    let is_http2 = connection.get_ref().1.alpn_protocol() == Some(b"h2");
    let io = TokioIo::new(connection);
    let failed = |error: hyper::Error| format!("no answer: {error}");
    let answer: http::Response<Incoming> = if is_http2 {
        let (mut sender, driver) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.map_err(failed)?;
        tokio::spawn(driver);
        sender.send_request(request).await.map_err(failed)?
    } else {
        let authority = request.uri().authority().map_or("", http::uri::Authority::as_str);
        let host = HeaderValue::from_str(authority).map_err(|error| error.to_string())?;
        request.headers_mut().insert(header::HOST, host);
        *request.uri_mut() =
            request.uri().path_and_query().map_or("/", |path| path.as_str()).parse().unwrap();
        let (mut sender, driver) = hyper::client::conn::http1::handshake(io).await.map_err(failed)?;
        tokio::spawn(driver);
        sender.send_request(request).await.map_err(failed)?
    };
    let (parts, mut incoming) = answer.into_parts();
    let mut head = format!("{:?} {}", parts.version, parts.status.as_u16());
    for (name, value) in &parts.headers {
        head += &format!("\r\n{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    let mut body = Vec::new();
    while let Some(Ok(frame)) = incoming.frame().await {
        body.extend(frame.into_data().unwrap_or_default());
    }
    Ok(Answer::new(parts.status.as_u16(), &head, body))
}

impl Answer {
    fn new(code: u16, head: &str, body: Vec<u8>) -> Self {
        let warnings = head.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("Warning").then(|| value.trim().to_owned())
        });
        Self { code, warnings: warnings.collect(), head: head.to_lowercase(), body }
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The media type without parameters.
    pub fn media_type(&self) -> &str {
        self.header("content-type").split(';').next().unwrap()
    }

    /// The value of a header, named in lower case; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.head.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": ")).unwrap_or("").trim()
    }

    /// Panics unless this is a Status of the given code and reason.
    #[track_caller]
    pub fn assert_status(&self, code: u16, reason: &str) -> Value {
        assert_eq!(self.code, code, "{}\n{}", self.head, String::from_utf8_lossy(&self.body));
        assert_eq!(self.media_type(), "application/json");
        let status = self.json();
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["apiVersion"], "v1");
        assert_eq!(status["metadata"], serde_json::json!({}));
        assert_eq!(status["status"], "Failure");
        assert_eq!(status["code"], code);
        assert_eq!(status["reason"], reason);
        status
    }
}
