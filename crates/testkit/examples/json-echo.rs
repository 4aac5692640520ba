//! The least that a webhook does: HTTPS, a JSON document in, a small one out, and no decision. The limit for
//! `benches/webhook`.
//!
//! `json-echo CERTIFICATE KEY`, both in PEM. Listens on a free port of the loopback interface and prints its URL.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a program for measurements")]

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

#[tokio::main]
async fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    assert_eq!(files.len(), 2, "json-echo CERTIFICATE KEY");
    let certificates = CertificateDer::pem_file_iter(&files[0]).expect("a file");
    let certificates = certificates.map(|certificate| certificate.expect("a certificate")).collect();
    let key = PrivateKeyDer::from_pem_file(&files[1]).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the defaults are safe")
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .expect("the key belongs to the certificate");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
    println!("Echoing at https://{}", listener.local_addr().expect("an address"));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let Ok(stream) = acceptor.accept(stream).await else { return };
            // A client that disconnects is not an error.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let document: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer =
        json!({"apiVersion": document["apiVersion"], "kind": document["kind"], "status": {"allowed": true}});
    let response = Response::builder().header("content-type", "application/json");
    Ok(response.body(Full::from(answer.to_string())).expect("a response"))
}
