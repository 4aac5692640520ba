//! The listening socket: connections, TLS, timeouts and graceful shutdown.
//!
//! Everything that a client can hold is bounded: handshakes, headers, bodies and idle periods in time; headers, bodies,
//! streams and connections in size or number.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pki::UnverifiedCertificate;
use pki::tls::ServerTls;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::activity::Activity;
use super::connection::Connection;
use super::handler::Handler;
use super::http1;
use super::wire::Wire;

/// How long to wait when the system has no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that listens.
pub struct Server<H> {
    handler: Arc<H>,
    tcp: TcpListener,
    tls: ServerTls,
}

impl<H: Handler> Server<H> {
    /// Binds the address. No connection is accepted before [`Server::serve`].
    ///
    /// # Errors
    /// The address is not available.
    pub async fn bind(address: SocketAddr, tls: ServerTls, handler: Arc<H>) -> io::Result<Self> {
        Ok(Self { handler, tcp: TcpListener::bind(address).await?, tls })
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// The system does not return it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stop` completes, then lets the requests in progress finish within the shutdown timeout.
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
            tracing::warn!("requests were still in progress when the shutdown timeout ended");
        }
    }
}

/// Handles one connection from start to end.
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
    // On the heap, so that it is freed: a handshake is short, and a connection may be long.
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
        peer: handler.peer(certificate),
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

/// Runs a connection until it ends; ends it gracefully on shutdown, when it is idle too long, or when it was told to
/// close.
async fn serve_http2<H: Handler>(
    handler: &Arc<H>,
    connection: &Arc<Connection<H::Peer>>,
    wire: Wire<H::Peer>,
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
