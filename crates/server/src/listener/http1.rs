//! HTTP/1.1 over one connection: requests, rests between them, and what comes after an upgrade.
//!
//! A connection that rests keeps its TLS session and nothing else: the buffers of HTTP are made when the next request
//! comes. That is what lets a server hold ten thousand of them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::sync::watch;
use tokio::time::timeout;

use super::wire::Wire;
use super::{Connection, Handler, Tunnel};

/// After how long without a request the buffers are given back.
const REST: Duration = Duration::from_millis(250);
/// How long to wait for the peer to take the end of a connection.
const GOODBYE: Duration = Duration::from_secs(1);
/// What is read at once from either side of a tunnel. Bytes.
const TUNNEL_BUFFER: usize = 16 * 1024;

/// What has become of the HTTP on a connection.
enum Ended {
    /// The connection is over.
    Broken,
    /// Nothing more is to come.
    Closed(Wire),
    /// Nothing has come for a while.
    Resting(Wire),
    /// It goes on as something else.
    Upgraded(Wire, Tunnel),
}

/// Serves a connection until it ends.
pub(super) async fn serve<H: Handler>(
    handler: &Arc<H>,
    connection: &Arc<Connection>,
    mut wire: Wire,
    mut stopping: watch::Receiver<bool>,
) {
    let idle = handler.limits().idle;
    loop {
        // On the heap, which is given back while the connection rests.
        let ended = Box::pin(speak(handler, connection, wire, &mut stopping)).await;
        wire = match ended {
            Ended::Broken => return,
            Ended::Closed(wire) => return end(wire).await,
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
    connection: &Arc<Connection>,
    wire: Wire,
    stopping: &mut watch::Receiver<bool>,
) -> Ended {
    let limits = *handler.limits();
    let activity = &connection.activity;
    // Half a head that was rewound must not get the time of a whole one again and again.
    let mut may_rest = !wire.is_rewound();
    let service = service_fn(|request| {
        let answering = Arc::clone(handler).answer(Arc::clone(connection), request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
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
                    return Ended::Broken;
                }
                let parts = http.into_parts();
                let wire = parts.io.into_inner().outliving(false).rewound(parts.read_buf);
                return match connection.take_tunnel() {
                    Some(tunnel) => Ended::Upgraded(wire, tunnel),
                    None => Ended::Closed(wire),
                };
            }
            _ = stopping.wait_for(|stop| *stop), if !is_ending => {}
            () = activity.closed(), if !is_ending => {}
            () = activity.idle(pause) => {
                // One that does not end when asked to is dropped.
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

/// Carries bytes both ways until both sides have ended; one side may end long before the other.
async fn pass(mut wire: Wire, mut tunnel: Tunnel) {
    let carried =
        copy_bidirectional_with_sizes(&mut wire, &mut tunnel.far, TUNNEL_BUFFER, TUNNEL_BUFFER).await;
    (tunnel.over)(carried.inspect_err(|error| tracing::debug!(%error, "a stream broke off")).ok());
}

async fn end(mut wire: Wire) {
    // Who has gone already cannot be told.
    let _ = timeout(GOODBYE, wire.end()).await;
}
