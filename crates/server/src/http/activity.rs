//! Tracks the activity of a connection: its requests, and what its client has not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::budget::Charge;

/// The number of requests of one connection whose rest is discarded at a time.
const DRAINS: usize = 16;

/// A request whose rest is discarded, until this is dropped.
pub(crate) struct Draining<'a>(&'a AtomicUsize);

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See the module.
pub(crate) struct Activity {
    closing: Notify,
    is_closing: AtomicBool,
    opened: Instant,
    /// When the last request ended, in milliseconds since the connection was opened.
    last: AtomicU64,
    under_way: AtomicUsize,
    /// Whether the buffers contain data that the peer has not received.
    unsent: AtomicBool,
    draining: AtomicUsize,
    /// The number of requests that were received.
    received: AtomicUsize,
    /// The number of open streams.
    streams: AtomicUsize,
    /// The number of streams that are open, or were so when the buffers were last empty.
    buffered_streams: AtomicUsize,
    /// The largest number of these.
    most_streams: AtomicUsize,
    /// The number of responses that go on when the client reads.
    waiting: AtomicUsize,
    /// When the client last took a part of a response, in milliseconds since the connection was opened.
    taken: AtomicU64,
}

/// A stream of an HTTP/2 connection that is open, until this is dropped.
pub(crate) struct OpenStream(Arc<Activity>);

impl OpenStream {
    /// Counts a stream. Also returns the number of streams that are open or have responses in the buffers, if there were
    /// never so many.
    pub(crate) fn count(activity: &Arc<Activity>) -> (Self, Option<usize>) {
        activity.streams.fetch_add(1, Ordering::Relaxed);
        let open = activity.buffered_streams.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let is_most = activity.most_streams.fetch_max(open, Ordering::Relaxed) < open;
        (Self(Arc::clone(activity)), is_most.then_some(open))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A response that is being sent.
pub(crate) struct Sending {
    activity: Arc<Activity>,
    /// The account that is charged for what is held of it, if any.
    charge: Option<Charge>,
    /// Whether it goes on when the client reads.
    is_waiting: bool,
}

/// A part of a response, charged as long as any of it is in memory, also in the buffers of the connection.
struct Charged {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Sending {
    /// Starts to send a response.
    pub(crate) fn new(activity: &Arc<Activity>, charge: Option<Charge>) -> Self {
        activity.waiting.fetch_add(1, Ordering::Relaxed);
        activity.took();
        Self { activity: Arc::clone(activity), charge, is_waiting: true }
    }

    /// Records that the connection asks for more of the response.
    pub(crate) fn asked(&mut self) {
        if self.is_waiting {
            self.is_waiting = false;
            self.activity.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        self.activity.took();
    }

    /// Records that the connection got a part of the response. It asks for more when the client has read.
    pub(crate) fn gave(&mut self) {
        if !self.is_waiting {
            self.is_waiting = true;
            self.activity.waiting.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the charge for the request, of which nothing is held any more.
    pub(crate) fn answered(&mut self) {
        if let Some(charge) = &mut self.charge {
            charge.set(0);
        }
    }

    /// Charges for a part of the response until all of it has left the buffers of the connection.
    pub(crate) fn charged(&self, bytes: Bytes) -> Bytes {
        match &self.charge {
            Some(charge) if !bytes.is_empty() => {
                let charge = charge.another(bytes.len());
                Bytes::from_owner(Charged { bytes, _charge: charge })
            }
            _ => bytes,
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.is_waiting {
            self.activity.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            closing: Notify::new(),
            is_closing: AtomicBool::new(false),
            opened: Instant::now(),
            last: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            unsent: AtomicBool::new(false),
            draining: AtomicUsize::new(0),
            received: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            buffered_streams: AtomicUsize::new(0),
            most_streams: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
        }
    }
}

impl Activity {
    /// Returns the time since the connection was opened, in milliseconds.
    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn took(&self) {
        self.taken.store(self.now(), Ordering::Relaxed);
    }

    /// Records the start of a request.
    pub(crate) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the end of a request, when its response was sent.
    pub(crate) fn end(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a received request. Returns the number of all.
    pub(crate) fn receive(&self) -> usize {
        self.received.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Allows to discard the rest of a request; none if there are too many of them.
    pub(crate) fn drain(&self) -> Option<Draining<'_>> {
        let draining = Draining(&self.draining);
        (self.draining.fetch_add(1, Ordering::Relaxed) < DRAINS).then_some(draining)
    }

    /// Closes the connection once the requests in progress are answered.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        self.closing.notify_one();
    }

    /// Returns whether the connection is to be closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Waits for a call of [`Self::close`].
    pub(crate) async fn closed(&self) {
        self.closing.notified().await;
    }

    /// Records that data was written, or that the system has taken all of it.
    pub(crate) fn wrote(&self, unsent: bool) {
        self.unsent.store(unsent, Ordering::Relaxed);
        if !unsent {
            self.buffered_streams.store(self.streams.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Returns whether no request is in progress and no data is unsent.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_zero = |number: &AtomicUsize| number.load(Ordering::Relaxed) == 0;
        is_zero(&self.under_way) && is_zero(&self.waiting) && !self.unsent.load(Ordering::Relaxed)
    }

    /// Waits until the client has read nothing for this long, although there are responses for it.
    pub(crate) async fn stalled(&self, limit: Duration) {
        loop {
            let taken = Duration::from_millis(self.taken.load(Ordering::Relaxed));
            let since = self.opened.elapsed().saturating_sub(taken);
            let is_waiting = self.waiting.load(Ordering::Relaxed) > 0;
            if is_waiting && since >= limit {
                return;
            }
            sleep(if is_waiting { limit.saturating_sub(since) } else { limit }).await;
        }
    }

    /// Returns the time since the last request ended, or since the connection was opened.
    pub(crate) fn quiet(&self) -> Duration {
        self.opened.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }

    /// Waits until there was no request for this long.
    pub(crate) async fn idle(&self, limit: Duration) {
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
