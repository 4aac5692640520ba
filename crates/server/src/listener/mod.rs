//! The socket: connections, TLS, time limits, and stopping in good order.
//!
//! No client can hold more than its share: handshake, head, body and idleness are all bounded in time, and heads,
//! bodies, streams and connections in number.

mod activity;
mod http1;
mod wire;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pki::UnverifiedCertificate;
use pki::tls::ServerTls;
use portcullis_pki as pki;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use self::activity::Activity;
use self::wire::Wire;
use crate::authn::Peer;
use crate::body::Body;
use crate::config::Limits;
use crate::service::App;

/// How long to wait when the system has no more sockets to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What answers the requests that a [`Server`] takes in.
pub trait Handler: Send + Sync + 'static {
    /// What one client may take up.
    fn limits(&self) -> &Limits;

    /// Connections that are open.
    fn connections(&self) -> &Gauge;

    /// Connections that never got through the handshake.
    fn handshake_failures(&self) -> &Counter;

    /// Answers one request.
    fn answer(
        self: Arc<Self>,
        connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// Ends what would go on for as long as the client likes. Everything else is let finish.
    fn stop(&self) {}
}

/// What one connection knows about itself.
pub struct Connection {
    pub(crate) peer: Peer,
    /// The address at the other end.
    pub(crate) remote: Option<IpAddr>,
    pub(crate) is_http2: bool,
    pub(crate) activity: Activity,
    /// What comes after the answer that is being given.
    tunnel: Mutex<Option<Tunnel>>,
}

impl Connection {
    /// After the answer that is being given, which says 101, bytes are carried to and fro.
    pub(crate) fn tunnel_to(&self, tunnel: Tunnel) {
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    fn take_tunnel(&self) -> Option<Tunnel> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The far end of an upgraded connection.
pub(crate) struct Tunnel {
    pub(crate) far: Box<dyn Duplex>,
    /// Told when it is over: how many bytes went there, and how many came back, if that is known.
    pub(crate) over: Box<Over>,
}

/// What is told when a tunnel is over.
type Over = dyn FnOnce(Option<(u64, u64)>) + Send;

/// Bytes both ways.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A request under way, until this is dropped.
pub(crate) struct Busy(Arc<Connection>);

impl Busy {
    pub(crate) fn begin(connection: &Arc<Connection>) -> Self {
        connection.activity.begin();
        Self(Arc::clone(connection))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.activity.end();
    }
}

/// A server that listens.
pub struct Server<H = App> {
    handler: Arc<H>,
    tcp: TcpListener,
    tls: ServerTls,
}

impl<H: Handler> Server<H> {
    /// Binds the address. Nothing is accepted before [`Server::serve`].
    ///
    /// # Errors
    /// The address cannot be had.
    pub async fn bind(address: SocketAddr, tls: ServerTls, handler: Arc<H>) -> io::Result<Self> {
        Ok(Self { handler, tcp: TcpListener::bind(address).await?, tls })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stop` is done, then lets the requests under way finish, within the limit for that.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let limits = *self.handler.limits();
        let acceptor = TlsAcceptor::from(self.tls.config());
        let slots = Arc::new(Semaphore::new(limits.connections));
        let (stopping, is_stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let slot = tokio::select! {
                () = &mut stop => break,
                slot = Arc::clone(&slots).acquire_owned() => slot,
            };
            // The semaphore is never closed.
            let Ok(slot) = slot else { break };
            let stream = tokio::select! {
                () = &mut stop => break,
                accepted = self.tcp.accept() => accepted,
            };
            match stream {
                Ok((stream, _)) => {
                    let handling = handle(
                        Arc::clone(&self.handler),
                        acceptor.clone(),
                        stream,
                        slot,
                        is_stopping.clone(),
                    );
                    connections.spawn(handling);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
        drop(self.tcp);
        stopping.send_replace(true);
        self.handler.stop();
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(limits.shutdown, all).await.is_err() {
            tracing::warn!("requests were still under way when the time to stop was over");
        }
    }
}

/// One connection, from accepted to closed.
async fn handle<H: Handler>(
    handler: Arc<H>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    _slot: OwnedSemaphorePermit,
    stopping: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    // On the heap, which is given back: a handshake is short, and a connection may be long.
    let Some(stream) = Box::pin(shake_hands(&*handler, acceptor, stream)).await else {
        handler.handshake_failures().inc();
        return;
    };
    let open = handler.connections().clone();
    open.inc();
    run(&handler, stream, stopping).await;
    open.dec();
}

async fn shake_hands<H: Handler>(
    handler: &H,
    acceptor: TlsAcceptor,
    stream: TcpStream,
) -> Option<Box<TlsStream<TcpStream>>> {
    match timeout(handler.limits().handshake, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(Box::new(stream)),
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("TLS handshake took too long");
            None
        }
    }
}

async fn run<H: Handler>(
    handler: &Arc<H>,
    stream: Box<TlsStream<TcpStream>>,
    stopping: watch::Receiver<bool>,
) {
    let (socket, session) = stream.get_ref();
    let remote = socket.peer_addr().ok().map(|address| address.ip());
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let certificate = session.peer_certificates().and_then(UnverifiedCertificate::from_chain);
    let connection = Arc::new(Connection {
        peer: Peer::new(certificate),
        remote,
        is_http2,
        activity: Activity::default(),
        tunnel: Mutex::default(),
    });
    let wire = Wire::new(stream, Arc::clone(&connection));
    if is_http2 {
        Box::pin(serve_http2(handler, &connection, wire, stopping)).await;
    } else {
        http1::serve(handler, &connection, wire, stopping).await;
    }
}

/// Runs a connection until it ends, and asks it to end when the server stops, the client idles, or it has been told
/// to close.
async fn serve_http2<H: Handler>(
    handler: &Arc<H>,
    connection: &Arc<Connection>,
    wire: Wire,
    mut stopping: watch::Receiver<bool>,
) {
    let limits = *handler.limits();
    let service = {
        let (handler, connection) = (Arc::clone(handler), Arc::clone(connection));
        service_fn(move |request| {
            let answering = Arc::clone(&handler).answer(Arc::clone(&connection), request);
            async move { Ok::<_, Infallible>(answering.await) }
        })
    };
    let mut http = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(limits.header_read)
        .keep_alive_timeout(limits.header_read)
        .serve_connection(TokioIo::new(wire), service);
    let mut is_ending = false;
    loop {
        tokio::select! {
            ended = &mut http => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            _ = stopping.wait_for(|stop| *stop), if !is_ending => {}
            () = connection.activity.closed(), if !is_ending => {}
            () = connection.activity.idle(limits.idle) => {
                // One that does not end when asked to is dropped.
                if is_ending {
                    return;
                }
            }
        }
        is_ending = true;
        Pin::new(&mut http).graceful_shutdown();
    }
}
