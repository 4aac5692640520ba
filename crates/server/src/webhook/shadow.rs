//! `POST /audit` and `GET /shadow`: a rehearsal over the audit events of an API server (BC-50, BC-51).
//!
//! Events are queued and answered at once, and judged by a thread of its own. They decide nothing and change no answer. What does
//! not fit into the queue is counted and dropped: an API server never waits.

use std::hash::RandomState;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::Bytes;
use http::request::Parts as Head;
use http::{StatusCode, Uri};
use hyper::body::Incoming;
use policy::rehearsal::{Lost, Rehearsal, Report, each_event};

use super::cluster::Cluster;
use super::shadow_metrics::Counts;
use crate::http::account::Account;
use crate::http::budget::{Budget, Charge};
use crate::http::limits::Limits;
use crate::http::query::Query;
use crate::http::request_body;
use crate::http::status::{Answer, Status, json_bytes, text};

/// The maximum size of a body: what API servers send at most if they truncate events
/// (`--audit-webhook-truncate-max-batch-size`), and some more. In bytes.
const BODY_BYTES: usize = (10 << 20) + (64 << 10);
/// The maximum size of the bodies of one caller that arrive or wait. In bytes.
const CALLER_BYTES: usize = 32 << 20;
/// The maximum size of the bodies of all callers that wait. In bytes.
const QUEUE_BYTES: usize = 64 << 20;
/// The maximum number of bodies that wait.
const QUEUE: usize = 4096;

/// See the module.
pub(super) struct Shadow {
    queue: SyncSender<Waiting>,
    /// What each caller makes this hold. Apart from what reviews hold: no review is refused because events wait.
    held: Arc<Budget>,
    /// What waits, of all callers.
    waiting: Arc<Budget>,
    judged: Arc<Judged>,
}

/// A body that waits, and its charges.
struct Waiting {
    body: Bytes,
    _charges: (Charge, Charge),
}

/// What was counted so far.
struct Judged {
    rehearsal: Mutex<Rehearsal>,
    unreadable: AtomicU64,
    overflowed: AtomicU64,
    overflowed_bytes: AtomicU64,
}

impl Shadow {
    /// Starts the thread. It ends when this is dropped.
    ///
    /// # Errors
    /// The system has no threads left.
    pub(super) fn start(cluster: Arc<Cluster>) -> io::Result<Self> {
        let (queue, waiting) = sync_channel(QUEUE);
        let judged = Arc::new(Judged {
            rehearsal: Mutex::new(Rehearsal::new(cluster.gates(), RandomState::new())),
            unreadable: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            overflowed_bytes: AtomicU64::new(0),
        });
        let judging = Arc::clone(&judged);
        thread::Builder::new().name("shadow".to_owned()).spawn(move || judging.run(&cluster, &waiting))?;
        Ok(Self { queue, held: Budget::new(CALLER_BYTES), waiting: Budget::new(QUEUE_BYTES), judged })
    }

    /// Takes the body of a request of an API server, and answers without looking at it.
    ///
    /// # Errors
    /// The body is too large, or did not arrive. If there is no room for it, that is no error for the API server: it would try
    /// again, and keep more and more events.
    pub(super) async fn take(
        &self,
        head: &Head,
        body: &mut Incoming,
        account: Account,
        limits: &Limits,
    ) -> Result<Answer, Status> {
        let limits = Limits { body_bytes: BODY_BYTES, held_bytes: CALLER_BYTES, ..*limits };
        let mut held = self.held.nothing(account);
        match request_body::read(head, body, &limits, &mut held).await {
            Ok(body) => self.enqueue(body, held),
            Err(status) if status.code() == StatusCode::TOO_MANY_REQUESTS => self.judged.overflow(0),
            Err(status) => {
                match status.code() {
                    StatusCode::PAYLOAD_TOO_LARGE => self.judged.overflow(0),
                    _ => self.judged.cannot_be_read(),
                }
                return Err(status);
            }
        }
        Ok(text(StatusCode::OK, Bytes::new()))
    }

    fn enqueue(&self, body: Bytes, held: Charge) {
        let size = body.len();
        let everybody = Account::of_address(None);
        let waiting = self.waiting.charge(everybody, size);
        let sent = waiting.map(|all| self.queue.try_send(Waiting { body, _charges: (held, all) }));
        if !matches!(sent, Some(Ok(()))) {
            self.judged.overflow(size);
        }
    }

    /// Reports what was counted so far, and returns its size in bytes: `?output=json`, `table` or `wide`, and for tables
    /// `?width=COLUMNS`.
    ///
    /// # Errors
    /// 400 for another output or width.
    pub(super) fn report(&self, target: &Uri) -> Result<(Answer, usize), Status> {
        let query = Query::parse(target.query().unwrap_or_default());
        let width = query.first("width").map(str::parse::<usize>).transpose();
        let width = width.map_err(|_| Status::bad_request("width: must be a number of columns"))?;
        let rehearsal = self.judged.rehearsal();
        let report = Report::new(rehearsal.tally(), self.judged.lost());
        let table = |is_wide| {
            let text = report.table(width, is_wide).to_string();
            (text.len(), text)
        };
        let (size, table) = match query.first("output").unwrap_or("table") {
            "json" => {
                let document = serde_json::to_vec(&report);
                let document = document
                    .map_err(|error| Status::internal(format_args!("cannot write the report: {error}")))?;
                let size = document.len();
                return Ok((json_bytes(StatusCode::OK, document.into()), size));
            }
            "table" => table(false),
            "wide" => table(true),
            _ => return Err(Status::bad_request("output: must be table, wide or json")),
        };
        Ok((text(StatusCode::OK, table), size))
    }

    /// The counts for metrics.
    pub(super) fn counts(&self) -> Counts {
        Counts::new(self.judged.rehearsal().tally(), self.judged.lost())
    }
}

impl Judged {
    fn rehearsal(&self) -> MutexGuard<'_, Rehearsal> {
        self.rehearsal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn overflow(&self, bytes: usize) {
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        self.overflowed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn cannot_be_read(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
    }

    fn lost(&self) -> Lost {
        Lost {
            unreadable: self.unreadable.load(Ordering::Relaxed),
            overflowed: self.overflowed.load(Ordering::Relaxed),
            overflowed_bytes: self.overflowed_bytes.load(Ordering::Relaxed),
        }
    }

    /// Judges the events of one body after the other. Reports are made between two events.
    fn run(&self, cluster: &Cluster, queue: &Receiver<Waiting>) {
        let candidate = cluster.chain().clone().with_masters();
        for waiting in queue {
            let chain = cluster.is_known().then_some(&candidate);
            let read = each_event(&waiting.body, &mut |event| {
                if let Some(example) = self.rehearsal().take(event, chain) {
                    let event = serde_json::to_string(example).unwrap_or_default();
                    tracing::info!(event, "the first event of its kind in a rehearsal");
                }
            });
            if let Err(error) = read {
                self.cannot_be_read();
                tracing::debug!(%error, "a body of audit events cannot be read");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use policy::{FeatureGates, User};

    use super::*;

    /// A queue with this room whose bodies nobody takes yet.
    fn shadow(bodies: usize, bytes: usize) -> (Shadow, Receiver<Waiting>) {
        let (queue, waiting) = sync_channel(bodies);
        let judged = Judged {
            rehearsal: Mutex::new(Rehearsal::new(FeatureGates::default(), RandomState::new())),
            unreadable: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            overflowed_bytes: AtomicU64::new(0),
        };
        let (held, all) = (Budget::new(CALLER_BYTES), Budget::new(bytes));
        (Shadow { queue, held, waiting: all, judged: Arc::new(judged) }, waiting)
    }

    fn post(shadow: &Shadow, body: &'static str) {
        let account = Account::of_user(&User::new("apiserver", [""; 0]));
        let held = shadow.held.charge(account, body.len()).unwrap();
        shadow.enqueue(Bytes::from_static(body.as_bytes()), held);
    }

    fn overflowed(shadow: &Shadow) -> (u64, u64) {
        let Lost { overflowed, overflowed_bytes, .. } = shadow.judged.lost();
        (overflowed, overflowed_bytes)
    }

    #[test]
    fn what_does_not_fit_into_the_queue_is_counted_and_nobody_waits_bc_50() {
        let (shadow, waiting) = shadow(2, 1000);
        ["a", "bb", "ccc"].into_iter().for_each(|body| post(&shadow, body));
        assert_eq!(overflowed(&shadow), (1, 3));
        // There is room again when a body is taken.
        assert_eq!(waiting.recv().unwrap().body, "a");
        post(&shadow, "dddd");
        assert_eq!(overflowed(&shadow), (1, 3));
        drop(waiting);
        post(&shadow, "eeeee");
        assert_eq!(overflowed(&shadow), (2, 8), "the thread has ended");
    }

    #[test]
    fn the_bytes_of_the_queue_are_bounded_and_given_back_bc_50() {
        let (shadow, waiting) = shadow(100, 10);
        ["aaaaaa", "bbbbbb"].into_iter().for_each(|body| post(&shadow, body));
        assert_eq!(overflowed(&shadow), (1, 6));
        drop(waiting.recv().unwrap());
        post(&shadow, "cccccc");
        assert_eq!(overflowed(&shadow), (1, 6));
    }
}
