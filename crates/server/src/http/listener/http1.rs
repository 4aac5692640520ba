//! HTTP/1.1 over one connection: requests, idle periods between them, and upgraded streams.
//!
//! An idle connection keeps its TLS session only; the HTTP buffers are allocated when the next request arrives. So a
//! server can hold ten thousand idle connections.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio::time::timeout;

use super::connection::Connection;
use super::handler::{self, Handler};
use super::tunnel::{Tunnel, pass};
use super::wire::Wire;

/// The idle time after which the buffers are freed.
const REST: Duration = Duration::from_millis(250);
/// How long to wait for the peer to acknowledge the end of a connection.
const GOODBYE: Duration = Duration::from_secs(1);

/// The way in which HTTP on a connection ended.
enum Ended<P> {
    /// The connection is broken.
    Broken,
    /// Nothing more is to come.
    Closed(Wire<P>),
    /// The headers of a request are too large. The peer may still be sending them.
    Refused(Wire<P>),
    /// Nothing has come for a while.
    Resting(Wire<P>),
    /// It goes on as something else.
    Upgraded(Wire<P>, Tunnel),
}

/// Serves a connection until it ends.
pub(super) async fn serve<H: Handler>(
    handler: &Arc<H>,
    connection: &Arc<Connection<H::Peer>>,
    mut wire: Wire<H::Peer>,
    mut stopping: watch::Receiver<bool>,
) {
    let idle = handler.clients().limits.idle;
    loop {
        // On the heap, so that it can be freed while the connection is idle.
        let ended = Box::pin(speak(handler, connection, wire, &mut stopping)).await;
        wire = match ended {
            Ended::Broken => {
                // It holds this connection, which holds it.
                drop(connection.take_tunnel());
                return;
            }
            Ended::Closed(wire) => return end(wire).await,
            Ended::Refused(wire) => return end_unread(wire).await,
            Ended::Upgraded(wire, tunnel) => return Box::pin(pass(wire, tunnel)).await,
            Ended::Resting(wire) => wire,
        };
        if wire.is_rewound() {
            continue;
        }
        let left = idle.saturating_sub(connection.activity.quiet());
        let wakes = tokio::select! {
            readable = wire.readable() => readable.is_ok(),
            _ = stopping.wait_for(|stop| *stop) => false,
            () = connection.activity.closed() => false,
            () = tokio::time::sleep(left) => false,
        };
        if !wakes {
            return end(wire).await;
        }
    }
}

async fn speak<H: Handler>(
    handler: &Arc<H>,
    connection: &Arc<Connection<H::Peer>>,
    wire: Wire<H::Peer>,
    stopping: &mut watch::Receiver<bool>,
) -> Ended<H::Peer> {
    let limits = handler.clients().limits;
    let activity = &connection.activity;
    // Partial headers that were read again must not get the full timeout each time.
    let mut may_rest = !wire.is_rewound();
    let service = service_fn(|request| handler::answer(handler, connection, request));
    let mut http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read)
        .max_buf_size(limits.head_bytes)
        .serve_connection(TokioIo::new(wire.outliving(true)), service);
    let mut is_ending = false;
    loop {
        let pause = if may_rest { REST.min(limits.idle) } else { limits.idle };
        tokio::select! {
            ended = &mut http => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended");
                    return match error.is_parse_too_large() {
                        true => Ended::Refused(http.into_parts().io.into_inner().outliving(false)),
                        false => Ended::Broken,
                    };
                }
                let parts = http.into_parts();
                let wire = parts.io.into_inner().outliving(false).rewound(parts.read_buf);
                return match connection.take_tunnel() {
                    Some(tunnel) => Ended::Upgraded(wire, tunnel),
                    None => Ended::Closed(wire),
                };
            }
            () = activity.stalled(limits.write) => return Ended::Broken,
            _ = stopping.wait_for(|stop| *stop), if !is_ending => {}
            () = activity.closed(), if !is_ending => {}
            () = activity.idle(pause) => {
                // A connection that does not end when asked to is dropped.
                if is_ending {
                    return Ended::Broken;
                }
                if may_rest {
                    may_rest = false;
                    if activity.is_quiet() {
                        let parts = http.into_parts();
                        return Ended::Resting(parts.io.into_inner().outliving(false).rewound(parts.read_buf));
                    }
                    continue;
                }
            }
        }
        is_ending = true;
        Pin::new(&mut http).graceful_shutdown();
    }
}

async fn end<P>(mut wire: Wire<P>) {
    // The peer may already be gone.
    let _ = timeout(GOODBYE, wire.end()).await;
}

async fn end_unread<P>(mut wire: Wire<P>) {
    // The peer may already be gone.
    let _ = timeout(GOODBYE, wire.end_unread()).await;
}
