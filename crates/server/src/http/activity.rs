//! Tracks the activity of a connection.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep;

/// See the module.
pub(crate) struct Activity {
    closing: Notify,
    opened: Instant,
    /// When the last request ended, in milliseconds since the connection was opened.
    last: AtomicU64,
    under_way: AtomicUsize,
    /// Whether the buffers contain data that the peer has not received.
    unsent: AtomicBool,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            closing: Notify::new(),
            opened: Instant::now(),
            last: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            unsent: AtomicBool::new(false),
        }
    }
}

impl Activity {
    /// Records the start of a request.
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the end of a request, when its response was sent.
    pub(crate) fn end(&self) {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Closes the connection once the requests in progress are answered.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    /// Waits for a call of [`Self::close`].
    pub(super) async fn closed(&self) {
        self.closing.notified().await;
    }

    /// Records that data was written, or that the system has taken all of it.
    pub(super) fn wrote(&self, unsent: bool) {
        self.unsent.store(unsent, Ordering::Relaxed);
    }

    /// Returns whether no request is in progress and no data is unsent.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0 && !self.unsent.load(Ordering::Relaxed)
    }

    /// Returns the time since the last request ended, or since the connection was opened.
    pub(super) fn quiet(&self) -> Duration {
        self.opened.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    /// Waits until there was no request for this long.
    pub(super) async fn idle(&self, limit: Duration) {
        loop {
            let quiet = self.quiet();
            let is_busy = self.under_way.load(Ordering::Relaxed) > 0;
            if !is_busy && quiet >= limit {
                return;
            }
            sleep(if is_busy { limit } else { limit.saturating_sub(quiet) }).await;
        }
    }
}
