//! Whether a connection is in use.

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
    /// Whether there is something in the buffers that the peer has not taken.
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

    /// Waits for [`Self::close`].
    pub(super) async fn closed(&self) {
        self.closing.notified().await;
    }

    /// Bytes were written, or all that were have been taken by the system.
    pub(super) fn wrote(&self, unsent: bool) {
        self.unsent.store(unsent, Ordering::Relaxed);
    }

    /// Whether nothing is under way and nothing waits to be sent.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0 && !self.unsent.load(Ordering::Relaxed)
    }

    /// How long ago the last request ended; since the connection was opened, if there was none.
    pub(super) fn quiet(&self) -> Duration {
        self.opened.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    /// Waits until there has been no request for so long.
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
