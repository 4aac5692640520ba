//! The listening socket: connections, TLS, timeouts and graceful shutdown.
//!
//! Everything that a client can hold is bounded: handshakes, headers, bodies and idle periods in time; headers, bodies,
//! streams and connections in size or number.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pki::UnverifiedCertificate;
use pki::tls::ServerTls;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::Connection;
use super::handler::{self, Handler};
use super::http1;
use super::paced::paced;
use super::table::{ConnectionTable, Place, TLS_BYTES, http2_bytes};
use super::wire::Wire;
use crate::http::account::Account;
use crate::http::fair_queue::{FairQueue, Size};
use crate::metrics::Counted;

/// How long to wait when the system has no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections the kernel keeps until they are accepted. If there are more, clients try again after a second.
const BACKLOG: u32 = 4096;
/// What is held for a connection whose handshake has not begun. In bytes.
const ACCEPTED_BYTES: usize = 4 * 1024;
/// What a client may send of one body before it is read. In bytes.
const STREAM_WINDOW: u32 = 256 * 1024;
/// What a client may send of all bodies of a connection before they are read. In bytes.
const CONNECTION_WINDOW: u32 = 512 * 1024;
/// What is encrypted and not yet sent on a connection. In bytes.
const TLS_BUFFER: usize = 32 * 1024;
/// What is buffered of one response on HTTP/2. In bytes.
const SEND_BUFFER: usize = 64 * 1024;

/// A server that listens.
pub struct Server<H> {
    handler: Arc<H>,
    tcp: TcpListener,
    tls: ServerTls,
}

impl<H: Handler> Server<H> {
    /// Binds the address. No connection is accepted before the server is polled ([`Listening`]).
    ///
    /// # Errors
    /// The address is not available.
    pub async fn bind(address: SocketAddr, tls: ServerTls, handler: Arc<H>) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { handler, tcp: socket.listen(BACKLOG)?, tls })
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// The system does not return it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves while the result is polled, until that is told to stop.
    pub(crate) fn listen(self) -> Listening {
        let (stop, stopped) = oneshot::channel();
        let serving = self.serve(async {
            // A sender that is dropped means the same.
            let _ = stopped.await;
        });
        Listening { stop, serving: Box::pin(serving) }
    }

    /// Serves until `stop` completes, then lets the requests in progress finish within the shutdown timeout.
    async fn serve(self, stop: impl Future<Output = ()>) {
        let limits = self.handler.clients().limits;
        let acceptor = TlsAcceptor::from(self.tls.config());
        let closed = self.handler.clients().metrics.closed_for_others.clone();
        let table = ConnectionTable::new(limits.connections, limits.stranger_bytes, closed);
        let handshakes = handshakes();
        let (stopping, is_stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        tokio::pin!(stop);
        loop {
            let stream = tokio::select! {
                () = &mut stop => break,
                // What an ended connection has held is freed now, not when the next one is accepted.
                Some(_) = connections.join_next() => continue,
                accepted = self.tcp.accept() => accepted,
            };
            match stream {
                Ok((stream, remote)) => {
                    let guest = Guest {
                        remote: remote.ip(),
                        place: Arc::new(table.open(Some(remote.ip()), ACCEPTED_BYTES)),
                        handshakes: Arc::clone(&handshakes),
                    };
                    let acceptor = acceptor.clone();
                    let handling =
                        handle(Arc::clone(&self.handler), acceptor, stream, guest, is_stopping.clone());
                    connections.spawn(handling);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    table.relieve();
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(self.tcp);
        stopping.send_replace(true);
        self.handler.stop();
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(limits.shutdown, all).await.is_err() {
            tracing::warn!("requests were still in progress when the shutdown timeout ended");
        }
    }
}

/// A server that accepts connections while it is polled. Its connections are cut off when this is dropped.
///
/// Not a task of its own: the thread that polls it serves nobody, so that accepting connections and freeing what ended ones held
/// do not wait for the requests of others.
pub struct Listening {
    stop: oneshot::Sender<()>,
    serving: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Listening {
    /// Serves until some work is done.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => done,
            // It ends only when it is told to.
            () = &mut self.serving => work.await,
        }
    }

    /// Serves until `stop` completes, then lets the requests in progress finish within the shutdown timeout.
    pub async fn until(mut self, stop: impl Future<Output = ()>) {
        self.during(stop).await;
        let _ = self.stop.send(());
        self.serving.await;
    }
}

/// The queue of TLS handshakes: half of the processors work on them.
fn handshakes() -> Arc<FairQueue> {
    let seats = available_parallelism().map_or(1, |processors| processors.get().div_ceil(2));
    // The table bounds how many wait.
    FairQueue::new(Size { seats, seats_of_account: seats, waiting_of_account: usize::MAX })
}

/// A new connection.
struct Guest {
    remote: IpAddr,
    place: Arc<Place>,
    handshakes: Arc<FairQueue>,
}

/// Handles one connection from start to end.
async fn handle<H: Handler>(
    handler: Arc<H>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    guest: Guest,
    stopping: watch::Receiver<bool>,
) {
    let place = Arc::clone(&guest.place);
    tokio::select! {
        biased;
        () = place.ended() => tracing::debug!(remote = %guest.remote, "a connection is closed for others"),
        () = serve_guest(&handler, acceptor, stream, &guest, stopping) => {}
    }
}

async fn serve_guest<H: Handler>(
    handler: &Arc<H>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    guest: &Guest,
    stopping: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    // On the heap, so that it is freed: a handshake is short, and a connection may be long.
    let Some(stream) = Box::pin(shake_hands(&**handler, acceptor, stream, guest)).await else {
        handler.clients().metrics.handshake_failures.inc();
        return;
    };
    let _open = Counted::new(&handler.clients().metrics.open);
    run(handler, stream, guest, stopping).await;
}

async fn shake_hands<H: Handler>(
    handler: &H,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    guest: &Guest,
) -> Option<Box<TlsStream<TcpStream>>> {
    let account = Account::of_address(Some(guest.remote));
    let shaking = async {
        // Waits for its turn before anything is held.
        drop(guest.handshakes.enter(account).await);
        guest.place.holds(TLS_BYTES);
        paced(&guest.handshakes, account, acceptor.accept(stream)).await
    };
    match timeout(handler.clients().limits.handshake, shaking).await {
        Ok(None) => None,
        Ok(Some(Ok(mut stream))) => {
            stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER));
            Some(Box::new(stream))
        }
        Ok(Some(Err(error))) => {
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
    guest: &Guest,
    stopping: watch::Receiver<bool>,
) {
    let (_, session) = stream.get_ref();
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let certificate = session.peer_certificates().and_then(UnverifiedCertificate::from_chain);
    let connection = Arc::new(Connection {
        peer: handler.peer(certificate),
        remote: Some(guest.remote),
        place: Arc::clone(&guest.place),
        is_http2,
        activity: Arc::default(),
        tunnel: Mutex::default(),
    });
    let wire = Wire::new(stream, Arc::clone(&connection));
    if is_http2 {
        guest.place.holds(http2_bytes(&handler.clients().limits, 0));
        Box::pin(serve_http2(handler, &connection, wire, stopping)).await;
    } else {
        http1::serve(handler, &connection, wire, stopping).await;
    }
}

/// Runs a connection until it ends; ends it gracefully on shutdown, when it is idle too long, or when it was told to
/// close.
async fn serve_http2<H: Handler>(
    handler: &Arc<H>,
    connection: &Arc<Connection<H::Peer>>,
    wire: Wire<H::Peer>,
    mut stopping: watch::Receiver<bool>,
) {
    let limits = handler.clients().limits;
    let service = {
        let (handler, connection) = (Arc::clone(handler), Arc::clone(connection));
        service_fn(move |request| handler::answer(&handler, &connection, request))
    };
    let mut http = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
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
            () = connection.activity.stalled(limits.write) => return,
            _ = stopping.wait_for(|stop| *stop), if !is_ending => {}
            () = connection.activity.closed(), if !is_ending => {}
            () = connection.activity.idle(limits.idle) => {
                // A connection that does not end when asked to is dropped.
                if is_ending {
                    return;
                }
            }
        }
        is_ending = true;
        Pin::new(&mut http).graceful_shutdown();
    }
}
