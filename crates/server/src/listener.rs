//! The socket: connections, TLS, time limits, and stopping in good order.
//!
//! No client can hold more than its share: handshake, head, body and idleness are all bounded in time, and heads,
//! bodies, streams and connections in number.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pki::UnverifiedCertificate;
use pki::tls::ServerTls;
use portcullis_pki as pki;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::authn::Peer;
use crate::service::{self, App, Connection};

/// How long to wait when the system has no more sockets to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A server that listens.
pub struct Server {
    app: Arc<App>,
    tcp: TcpListener,
    tls: ServerTls,
}

impl Server {
    /// Binds the address. Nothing is accepted before [`Server::serve`].
    ///
    /// # Errors
    /// The address cannot be had.
    pub async fn bind(address: SocketAddr, tls: ServerTls, app: Arc<App>) -> io::Result<Self> {
        Ok(Self { app, tcp: TcpListener::bind(address).await?, tls })
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
        let limits = *self.app.limits();
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
                    let handling =
                        handle(Arc::clone(&self.app), acceptor.clone(), stream, slot, is_stopping.clone());
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
        self.app.stop();
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(limits.shutdown, all).await.is_err() {
            tracing::warn!("requests were still under way when the time to stop was over");
        }
    }
}

/// One connection, from accepted to closed.
async fn handle(
    app: Arc<App>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    _slot: OwnedSemaphorePermit,
    stopping: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let stream = match timeout(app.limits().handshake, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            app.metrics().handshake_failures.inc();
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
        Err(_) => {
            app.metrics().handshake_failures.inc();
            tracing::debug!("TLS handshake took too long");
            return;
        }
    };
    let open = app.metrics().connections.clone();
    open.inc();
    run(app, stream, stopping).await;
    open.dec();
}

async fn run(app: Arc<App>, stream: TlsStream<TcpStream>, stopping: watch::Receiver<bool>) {
    let (socket, session) = stream.get_ref();
    let remote = socket.peer_addr().ok().map(|address| address.ip());
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let certificate = session.peer_certificates().and_then(UnverifiedCertificate::from_chain);
    let limits = *app.limits();
    let connection = Arc::new(Connection {
        peer: Peer::new(certificate),
        remote,
        is_http2,
        activity: Activity::default(),
    });
    let service = {
        let connection = Arc::clone(&connection);
        service_fn(move |request| service::serve(Arc::clone(&app), Arc::clone(&connection), request))
    };
    let io = TokioIo::new(stream);
    if is_http2 {
        let serving = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(limits.header_read)
            .keep_alive_timeout(limits.header_read)
            .serve_connection(io, service);
        drive(serving, |c| c.graceful_shutdown(), &connection.activity, limits.idle, stopping).await;
    } else {
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_read)
            .max_buf_size(limits.head_bytes)
            .serve_connection(io, service);
        drive(serving, |c| c.graceful_shutdown(), &connection.activity, limits.idle, stopping).await;
    }
}

/// Runs a connection until it ends, and asks it to end when the server stops, the client idles, or it has been told
/// to close.
async fn drive<C, E>(
    connection: C,
    shut_down: impl Fn(Pin<&mut C>),
    activity: &Activity,
    idle: Duration,
    mut stopping: watch::Receiver<bool>,
) where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    tokio::pin!(connection);
    let mut is_ending = false;
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            _ = stopping.wait_for(|stop| *stop), if !is_ending => {}
            () = activity.closing.notified(), if !is_ending => {}
            () = activity.idle(idle) => {
                // One that does not end when asked to is dropped.
                if is_ending {
                    return;
                }
            }
        }
        is_ending = true;
        shut_down(connection.as_mut());
    }
}

/// Whether a connection is in use.
pub(crate) struct Activity {
    closing: Notify,
    opened: Instant,
    /// When the last request ended, in milliseconds since the connection was opened.
    last: AtomicU64,
    under_way: AtomicUsize,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            closing: Notify::new(),
            opened: Instant::now(),
            last: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
        }
    }
}

impl Activity {
    /// A request is under way.
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// A request is over, its answer sent.
    pub(crate) fn end(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Lets the connection end once the requests under way are answered.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    /// Waits until there has been no request for so long.
    async fn idle(&self, limit: Duration) {
        loop {
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            let quiet = self.opened.elapsed().saturating_sub(last);
            let is_busy = self.under_way.load(Ordering::Relaxed) > 0;
            if !is_busy && quiet >= limit {
                return;
            }
            sleep(if is_busy { limit } else { limit.saturating_sub(quiet) }).await;
        }
    }
}
