//! Makes sure that what is read in memory is current (ET-22, ET-33 to ET-35).
//!
//! A round asks etcd for its revision and waits until the watch has reached it. One round serves all who asked before it
//! began. If the watch does not reach the revision by itself, because the last change lies outside of what is watched, or
//! because the watch is slow, the round writes the tick key and waits for that: everything before a tick has arrived when the
//! tick arrives.
//!
//! DIVERGES: kube-apiserver asks for progress on the watch (ET-32). Versions of etcd in use answer that with a revision that
//! the watch has not delivered yet (ET-3); a tick is right with all versions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::client::{Client, Failure, NO_RESOURCE};
use super::follow::Trouble;
use super::shared::{Shared, revision};
use super::wire::{PutRequest, RangeRequest, Request, RequestOp, TxnRequest};
use crate::{Revision, StoreError};

/// How long a round may take.
const ROUND: Duration = Duration::from_secs(1);
/// How long a round waits for the watch before it writes a tick.
const NATURAL: Duration = Duration::from_millis(5);
/// How often a round is made when nobody asks, so that silence is noticed.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// How long a round waits at most for requests that have arrived already to join it.
const GATHER: Duration = Duration::from_millis(1);
/// The pause after a round that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// For how long memory may be used after it was current for the last time (ET-35).
const SILENCE: Duration = Duration::from_secs(5);

/// The outcome of the newest round.
#[derive(Clone, Debug, Default)]
struct Done {
    /// The number of the last request that the round covers.
    covers: u64,
    outcome: Option<Result<Revision, StoreError>>,
}

/// See the module documentation.
pub(super) struct Freshness {
    /// The number of requests so far.
    asked: AtomicU64,
    wanted: Notify,
    done: watch::Sender<Done>,
    /// When memory was current for the last time, in milliseconds since `began`.
    current_at: AtomicU64,
    began: Instant,
}

impl Freshness {
    /// Memory was current at `as_of`.
    pub(super) fn new(as_of: Instant) -> Self {
        Self {
            asked: AtomicU64::new(0),
            wanted: Notify::new(),
            done: watch::Sender::default(),
            current_at: AtomicU64::new(0),
            began: as_of,
        }
    }

    /// How long ago memory was current for the last time.
    fn age(&self) -> Duration {
        let at = Duration::from_millis(self.current_at.load(Ordering::Acquire));
        self.began.elapsed().saturating_sub(at)
    }

    /// Whether memory was current a short time ago (ET-35). Cheap.
    pub(super) fn is_current(&self) -> bool {
        self.age() <= SILENCE
    }

    /// Why no round has succeeded within this time after it was due, or for so long that memory may not be used; none if one has.
    pub(super) fn trouble(&self, within: Duration) -> Option<String> {
        if self.age() <= HEARTBEAT.saturating_add(within).min(SILENCE) {
            return None;
        }
        let done = self.done.borrow();
        let why = done.outcome.as_ref().and_then(|outcome| outcome.as_ref().err()).map(ToString::to_string);
        Some(why.unwrap_or_else(|| "etcd has not confirmed what is in memory".to_owned()))
    }

    /// Waits for a round that begins after this call. Returns the revision that memory has reached at least.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if etcd does not answer in time.
    pub(super) async fn fresh(&self) -> Result<Revision, StoreError> {
        let mut done = self.done.subscribe();
        let number = self.asked.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        self.wanted.notify_one();
        let closed = || StoreError::Broken("the store was closed".to_owned());
        // A round that runs already does not count, and the one after it takes as long again.
        let round = timeout(ROUND * 2, done.wait_for(|done| done.covers >= number)).await;
        let late = || StoreError::Unavailable("etcd does not answer in time".to_owned());
        let round = round.map_err(|_| late())?.map_err(|_| closed())?;
        round.outcome.clone().unwrap_or_else(|| Err(closed()))
    }

    /// Lets the requests that have arrived already join the next round, and returns the number of the last one. A round costs
    /// etcd and this server as much as some reads: without this, a busy server asks for a few readers at a time.
    async fn gather(&self) -> u64 {
        let began = Instant::now();
        let mut covers = self.asked.load(Ordering::Acquire);
        loop {
            // Until the next turn, all that is ready to run has run.
            yield_now().await;
            let asked = self.asked.load(Ordering::Acquire);
            if asked == covers || began.elapsed() >= GATHER {
                return asked;
            }
            covers = asked;
        }
    }

    /// Makes rounds, until the future is dropped.
    pub(super) async fn run(self: Arc<Self>, shared: Arc<Shared>, client: Arc<Client>) {
        let mut trouble = Trouble::default();
        loop {
            // The permit of a request that came during the last round is kept.
            let _ = timeout(HEARTBEAT, self.wanted.notified()).await;
            let covers = self.gather().await;
            let began = Instant::now();
            let outcome = match timeout(ROUND, round(&shared, &client)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(StoreError::Unavailable("etcd does not answer in time".to_owned())),
            };
            match &outcome {
                Ok(_) => {
                    let at = began.saturating_duration_since(self.began).as_millis();
                    self.current_at.store(u64::try_from(at).unwrap_or(u64::MAX), Ordering::Release);
                    if trouble.is_over() {
                        tracing::info!("etcd answers again");
                    }
                }
                Err(error) if trouble.is_due() => {
                    tracing::error!(%error, "what is in memory may be old: etcd does not confirm it");
                }
                Err(_) => {}
            }
            let is_failure = outcome.is_err();
            self.done.send_replace(Done { covers, outcome: Some(outcome) });
            if is_failure {
                sleep(PAUSE).await;
            }
        }
    }
}

/// Learns etcd's revision, and waits until memory has reached it.
async fn round(shared: &Shared, client: &Client) -> Result<Revision, StoreError> {
    // Read before the question, so that the answer cannot be older.
    let known = shared.readers.memory.revision();
    // The key need not exist: the answer has the revision in any case.
    let question = RangeRequest { count_only: true, ..RangeRequest::of(shared.keys.tick()) };
    let answer = client.range(question, NO_RESOURCE, ROUND).await?;
    let newest = revision(answer.header.map_or(0, |header| header.revision));
    if newest == Revision(0) {
        return Err(Failure::Unavailable("its answer has no revision".to_owned()).into());
    }
    if newest < known {
        return Err(StoreError::Broken(format!(
            "etcd went back from revision {} to {}: it was restored while this server ran; restart the server",
            known.0, newest.0
        )));
    }
    match timeout(NATURAL, shared.reached(newest)).await {
        Ok(reached) => reached?,
        Err(_) => match tick(shared, client).await {
            Ok(tick) => shared.reached(tick).await?,
            // A full etcd takes no tick. The watch is only slow, unless the last change lies outside of what is watched.
            Err(Failure::NoSpace(_)) => shared.reached(newest).await?,
            Err(failure) => return Err(failure.into()),
        },
    }
    Ok(newest)
}

/// Writes the tick key. Returns its revision.
async fn tick(shared: &Shared, client: &Client) -> Result<Revision, Failure> {
    let put = PutRequest { key: shared.keys.tick(), value: Bytes::new(), ..PutRequest::default() };
    let success = vec![RequestOp { request: Some(Request::Put(put)) }];
    let written = client.repeatable(TxnRequest { success, ..TxnRequest::default() }, ROUND).await?;
    Ok(revision(written.header.map_or(0, |header| header.revision)))
}
