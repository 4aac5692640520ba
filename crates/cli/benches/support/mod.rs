//! Clients of the benchmarks: many nodes, each with a connection and a certificate of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use portcullis_pki::ca::{Template, Usage};
use portcullis_pki::{CertificateAuthority, KeyPair};
use portcullis_testkit::protobuf;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Connections that are made at a time.
pub(crate) const AT_ONCE: usize = 64;

/// The header `Accept` of kubelets.
pub(crate) const ACCEPT: &str = "application/vnd.kubernetes.protobuf,application/json";

/// A client with one HTTP/2 connection.
#[derive(Clone)]
pub(crate) struct Client(SendRequest<Full<Bytes>>);

impl Client {
    /// Connects with a certificate.
    pub(crate) async fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> Self {
        let tcp = TcpStream::connect(address).await.unwrap();
        tcp.set_nodelay(true).unwrap();
        let name = ServerName::from(address.ip());
        let tls = TlsConnector::from(config).connect(name, tcp).await.unwrap();
        let (client, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(tls)).await.unwrap();
        tokio::spawn(async move {
            // It ends when the client is dropped, or the server gone.
            let _ = connection.await;
        });
        Self(client)
    }

    /// Asks for what must be granted.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let (content, body) = match body {
            Value::Null => ("", Bytes::new()),
            body if method == "PATCH" => ("application/strategic-merge-patch+json", body.to_string().into()),
            body => (protobuf::MEDIA_TYPE, protobuf::encode(body).into()),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("https://127.0.0.1{path}"))
            .header("content-type", content)
            .header("accept", ACCEPT)
            .body(Full::new(body))
            .unwrap();
        let answer = self.send(request).await;
        let code = answer.status();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(code.is_success(), "{method} {path}: {code}: {}", String::from_utf8_lossy(&bytes));
        protobuf::decode(&bytes)
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let what = format!("{} {}", request.method(), request.uri().path());
        let mut client = self.0.clone();
        client.ready().await.unwrap();
        client.send_request(request).await.unwrap_or_else(|e| panic!("{what}: {e}"))
    }

    /// The body of a watch whose events are in one of these media types.
    pub(crate) async fn events(&self, path: &str, accept: &str) -> Incoming {
        let request = Request::get(format!("https://127.0.0.1{path}")).header("accept", accept);
        let answer = self.send(request.body(Full::default()).unwrap()).await;
        assert_eq!(answer.status(), 200, "{path}");
        answer.into_body()
    }
}

fn config(
    roots: &RootCertStore,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots.clone())
        .with_client_auth_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// The authority, so that certificates of nodes can be made without asking for each.
pub(crate) struct Issuer {
    authority: CertificateAuthority,
    roots: RootCertStore,
    key: KeyPair,
    key_der: PrivateKeyDer<'static>,
}

impl Issuer {
    /// Reads the authority in the data directory of a server.
    pub(crate) fn read(data: &Path) -> Self {
        let read = |name: &str| std::fs::read(data.join(name)).unwrap();
        let authority = CertificateAuthority::from_pem(&read("ca.crt"), &read("ca.key")).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(data.join("ca.crt")).unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let key_der = PrivateKeyDer::from_pem_slice(key.to_pem().as_bytes()).unwrap();
        Self { authority, roots, key, key_der }
    }

    /// A new certificate of a node.
    pub(crate) fn node(&self, number: u32) -> Arc<ClientConfig> {
        let template = Template {
            common_name: format!("system:node:node-{number}"),
            organizations: vec!["system:nodes".to_owned()],
            dns_names: vec![],
            ip_addresses: vec![],
            usage: Usage::Client,
            lifetime: Duration::from_secs(86_400),
        };
        let certificate = self.authority.issue(&template, &self.key, SystemTime::now()).unwrap();
        config(&self.roots, vec![certificate], self.key_der.clone_key())
    }

    /// The certificate of the administrator.
    pub(crate) fn admin(&self, data: &Path) -> Arc<ClientConfig> {
        let chain = vec![CertificateDer::from_pem_file(data.join("admin.crt")).unwrap()];
        config(&self.roots, chain, PrivateKeyDer::from_pem_file(data.join("admin.key")).unwrap())
    }
}
