//! A fake kubelet: its HTTPS API as a client or a proxy in front of it sees it, with real TLS, real protocol upgrades
//! and small plausible answers. It runs no pods. It shares no code with the product: its paths and its authorization
//! are written from the rules a second time, so that tests can compare both.

mod access;
mod body;
mod certificates;
mod channels;
mod endpoints;
mod faults;
mod handler;
mod mux;
mod options;
mod session;
mod spdy;
mod state;
mod streams;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderValue, LOCATION};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

pub use access::Holder;
pub use body::pattern;
pub use options::{Fault, Options, Pod, Then};
pub use state::Seen;

use access::Refused;
use body::Answer;
use certificates::{Peer, Tls};
use handler::{Asked, text};
use mux::Matched;
use state::{State, locked};

/// A running fake kubelet. Dropping it stops it and cuts its connections.
pub struct FakeKubelet {
    address: SocketAddr,
    folder: PathBuf,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeKubelet {
    /// Starts a kubelet with its certificates in this folder; those that exist are used again.
    pub fn start(folder: &Path, options: Options) -> Self {
        certificates::make(folder);
        let tls = Tls::read(folder, options.http2 && options.fault.is_none());
        let listener = listen(options.ip, options.port);
        listener.set_nonblocking(true).expect("a listener that does not block");
        let address = listener.local_addr().expect("the listener has an address");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads)
            .thread_name("fake-kubelet")
            .enable_all()
            .build()
            .expect("a runtime");
        let state = Arc::new(State {
            pod_list: pod_list(&options.pods),
            log: AtomicBool::new(options.log),
            options,
            seen: Mutex::default(),
            strays: Mutex::default(),
            connections: AtomicUsize::new(0),
            open: Arc::default(),
            received: AtomicU64::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&state);
        let thread = thread::spawn(move || {
            runtime.spawn(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a runtime is entered");
                accept(&listener, Arc::new(tls), shared).await;
            });
            // An error: whoever would say stop is gone.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(Duration::from_secs(5));
        });
        Self { address, folder: folder.to_owned(), state, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the local address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority of its serving certificate, which is for 127.0.0.1, localhost, node-1 and kubelet.example.com.
    pub fn authority(&self) -> PathBuf {
        self.folder.join("kubelet-ca.pem")
    }

    /// The authority of its clients; its key lies beside it as `client-ca-key.pem`.
    pub fn client_authority(&self) -> PathBuf {
        self.folder.join("client-ca.pem")
    }

    /// Makes a certificate of the client authority for a user (CN) and groups (O): the paths of the certificate
    /// `NAME.pem` and of its key.
    pub fn client_certificate(&self, name: &str, user: &str, groups: &[&str]) -> (PathBuf, PathBuf) {
        certificates::client(&self.folder, "client-ca", name, user, groups)
    }

    /// [`FakeKubelet::client_certificate`] of an authority that the kubelet does not take for its clients'.
    pub fn stranger_certificate(&self, name: &str, user: &str, groups: &[&str]) -> (PathBuf, PathBuf) {
        certificates::client(&self.folder, "kubelet-ca", name, user, groups)
    }

    /// The requests so far, as long as they were recorded.
    pub fn requests(&self) -> Vec<Seen> {
        locked(&self.state.seen).clone()
    }

    /// Forgets the recorded requests.
    pub fn forget(&self) {
        locked(&self.state.seen).clear();
    }

    /// Switches recording on or off.
    pub fn log(&self, on: bool) {
        self.state.log.store(on, Ordering::Relaxed);
    }

    /// How many connections were made, those that failed in the handshake included.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// How many followed logs and changed protocols are open now.
    pub fn open_streams(&self) -> usize {
        self.state.open.load(Ordering::Relaxed)
    }

    /// How many bytes came on connections whose protocol was changed.
    pub fn received(&self) -> u64 {
        self.state.received.load(Ordering::Relaxed)
    }

    /// What came on every connection that was kept open after a [`Fault`].
    pub fn strays(&self) -> Vec<Vec<u8>> {
        locked(&self.state.strays).clone()
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn pod_list(pods: &[Pod]) -> Bytes {
    let items = pods.iter().map(|pod| {
        let containers = pod.containers.iter().map(|name| json!({"name": name, "image": "example.com/image:1"}));
        json!({
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": "0b6f3a0e-0000-4000-8000-000000000001"},
            "spec": {"nodeName": "node-1", "containers": containers.collect::<Vec<_>>()},
            "status": {"phase": "Running"},
        })
    });
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items.collect::<Vec<_>>()})
        .to_string()
        .into()
}

/// Listens on a port. A port that was released a moment ago may still be in use, by a closing connection or by a
/// process that is about to be replaced, so this tries for a while.
fn listen(ip: IpAddr, port: u16) -> TcpListener {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match TcpListener::bind((ip, port)) {
            Ok(listener) => return listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                thread::sleep(Duration::from_millis(20));
            }
            Err(error) => panic!("{ip}:{port}: {error}"),
        }
    }
}

async fn accept(listener: &tokio::net::TcpListener, tls: Arc<Tls>, state: Arc<State>) {
    let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
    loop {
        let Ok((tcp, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        state.connections.fetch_add(1, Ordering::Relaxed);
        let (acceptor, tls, state) = (acceptor.clone(), Arc::clone(&tls), Arc::clone(&state));
        // A client that disconnects is no concern of a kubelet.
        tokio::spawn(async move { drop(serve(tcp, &acceptor, &tls, state).await) });
    }
}

async fn serve(
    tcp: TcpStream,
    acceptor: &TlsAcceptor,
    tls: &Tls,
    state: Arc<State>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    tcp.set_nodelay(true)?;
    let stream = acceptor.accept(tcp).await?;
    let connection = stream.get_ref().1;
    let peer = tls.peer(connection.peer_certificates());
    let h2 = connection.alpn_protocol() == Some(b"h2");
    if let Some(fault) = &state.options.fault {
        return Ok(faults::serve(stream, fault, &peer, &state).await?);
    }
    let shared = Arc::new((state, peer));
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(respond(&shared.0, &shared.1, request).await) }
    });
    let io = TokioIo::new(stream);
    if h2 {
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .serve_connection(io, service)
            .await?;
    } else {
        http1::Builder::new().serve_connection(io, service).with_upgrades().await?;
    }
    Ok(())
}

/// Answers one request: multiplexer, filter, handler (KA-6).
async fn respond(state: &Arc<State>, peer: &Peer, request: Request<Incoming>) -> Response<Answer> {
    let options = &state.options;
    state.note(|| seen(&request, peer));
    if !options.delay.is_zero() {
        tokio::time::sleep(options.delay).await;
    }
    let uri = request.uri().clone();
    let (sent, query) = (uri.path(), uri.query().unwrap_or_default());
    let method = request.method();
    let Some(path) = mux::decoded(sent) else { return text(StatusCode::BAD_REQUEST, "400 Bad Request") };
    match mux::find(sent, options.debugging_handlers, method == Method::CONNECT) {
        Matched::Handler => {}
        Matched::Nothing => return text(StatusCode::NOT_FOUND, "404 page not found\n"),
        Matched::Redirect(to) => {
            let to = uri.query().map_or(to.clone(), |query| format!("{to}?{query}"));
            let mut response = text(StatusCode::TEMPORARY_REDIRECT, "");
            response
                .headers_mut()
                .insert(LOCATION, HeaderValue::from_str(&to).expect("a path that was sent"));
            return response;
        }
    }
    let checked = match &options.grants {
        None if peer.trusted => Ok(()),
        None => Err(Refused::Unauthorized),
        Some(holders) => {
            access::check(holders, request.headers(), method.as_str(), &path, options.fine_grained)
        }
    };
    match checked {
        Ok(()) => endpoints::route(&Asked { state, path: &path, query }, request).await,
        Err(Refused::Unauthorized) => text(StatusCode::UNAUTHORIZED, "Unauthorized"),
        Err(Refused::Forbidden(body)) => text(StatusCode::FORBIDDEN, body),
    }
}

fn seen(request: &Request<Incoming>, peer: &Peer) -> Seen {
    let headers = request.headers().iter();
    let path = request.uri().path_and_query();
    Seen {
        method: request.method().to_string(),
        path: path.map_or_else(|| request.uri().to_string(), |path| path.to_string()),
        headers: headers
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
        certificate: peer.shown.clone(),
    }
}
