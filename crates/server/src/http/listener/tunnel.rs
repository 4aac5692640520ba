//! Tunnels: the bytes in both directions after an upgrade, until one of the reasons of [`End`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::time::sleep;

/// The buffer size for each direction of a tunnel. In bytes.
const BUFFER: usize = 16 * 1024;

/// The other end of an upgraded connection.
pub(crate) struct Tunnel {
    pub(crate) far: Box<dyn Duplex>,
    /// The time without any byte after which the tunnel is closed; none for no limit.
    pub(crate) idle: Option<Duration>,
    /// Completes when the caller has lost the right to the tunnel.
    pub(crate) revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Called at the end.
    pub(crate) over: Box<dyn FnOnce(Carried) + Send>,
}

/// A bidirectional byte stream.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What a tunnel has carried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    /// The bytes to the far end.
    pub(crate) sent: u64,
    /// The bytes from the far end.
    pub(crate) received: u64,
    pub(crate) end: End,
}

/// Why a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both sides have closed it.
    Closed,
    /// One side broke it off.
    Broken,
    /// Nothing was sent for too long.
    Idle,
    /// The caller has lost the right to it.
    Revoked,
}

/// Copies bytes in both directions until both sides have closed; one may close long before the other.
pub(super) async fn pass(mut wire: impl Duplex, tunnel: Tunnel) {
    let Tunnel { far, idle, revoked, over } = tunnel;
    let traffic = Arc::new(Traffic::new());
    let mut far = Counted { inner: far, traffic: Arc::clone(&traffic) };
    let end = tokio::select! {
        carried = copy_bidirectional_with_sizes(&mut wire, &mut far, BUFFER, BUFFER) => match carried {
            Ok(_) => End::Closed,
            Err(error) => {
                tracing::debug!(%error, "a stream broke off");
                End::Broken
            }
        },
        () = traffic.idle(idle) => End::Idle,
        () = revoked => End::Revoked,
    };
    let [sent, received] = [&traffic.sent, &traffic.received].map(|count| count.load(Ordering::Relaxed));
    over(Carried { sent, received, end });
}

/// The bytes that went through a tunnel.
struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
    opened: Instant,
    /// When the last byte went through, in milliseconds since the tunnel was opened.
    last: AtomicU64,
}

impl Traffic {
    fn new() -> Self {
        Self {
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            opened: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    fn add(&self, count: &AtomicU64, bytes: usize) {
        if bytes > 0 {
            count.fetch_add(bytes as u64, Ordering::Relaxed);
            let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.last.store(now, Ordering::Relaxed);
        }
    }

    /// Waits until nothing has gone through for this long.
    async fn idle(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        loop {
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            let left = limit.saturating_sub(self.opened.elapsed().saturating_sub(last));
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }
}

/// A stream whose bytes are counted.
struct Counted {
    inner: Box<dyn Duplex>,
    traffic: Arc<Traffic>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(cx, into);
        self.traffic.add(&self.traffic.received, into.filled().len().saturating_sub(before));
        outcome
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = outcome {
            self.traffic.add(&self.traffic.sent, count);
        }
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
