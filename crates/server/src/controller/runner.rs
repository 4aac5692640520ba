//! Runs a controller: lists first, then watches, and lists again when changes were lost.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use portcullis_store::{Event, List, Store as _, StoreError, Watch as _};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::queue::Queue;
use crate::http::status::Status;
use crate::registry::backend::Backend;

/// The delay before listing again.
const PAUSE: Duration = Duration::from_millis(500);
/// How many existing objects are reported before other tasks get their turn.
const STRIDE: usize = 256;

/// When to reconcile a key again without another event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Never.
    OnChange,
    /// After this time.
    After(Duration),
    /// With backoff, because no event reports the awaited change.
    Later,
}

/// Reconciles objects of one kind.
pub(super) trait Controller: Send + Sync + 'static {
    /// The name for the log.
    const NAME: &'static str;
    /// The key prefix of the objects that are listed at startup.
    const LISTED: &'static str;
    /// The key prefix of the changes that are watched.
    const WATCHED: &'static str;
    /// The number of keys that are reconciled concurrently; each key by only one worker.
    const WORKERS: usize = 1;

    /// The keys that one event concerns. One is enough for most controllers.
    type Keys: IntoIterator<Item = String>;

    /// Returns the keys to reconcile after an event. Existing objects are reported as if they had just been created. Every
    /// event is reported, in order, and must be handled fast.
    fn concerns(&self, event: &Event) -> Self::Keys;

    /// Forgets what events have told, because all existing objects are about to be reported, and others were missed.
    fn forget(&self) {}

    /// Reconciles a key with its current state.
    fn reconcile(&self, item: &str) -> impl Future<Output = Result<Next, Status>> + Send;
}

/// Why the watch ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A worker panicked, and its key is unknown.
    #[error("a fault: {0}")]
    Worker(JoinError),
}

/// Runs a controller until the future is dropped or the store closes. `looked` is notified once all existing objects
/// were reconciled.
pub(super) async fn run<C: Controller>(controller: Arc<C>, backend: &Backend, looked: oneshot::Sender<()>) {
    let mut looked = Some(looked);
    loop {
        match follow(&controller, backend, &mut looked).await {
            Err(Ended::Store(error @ (StoreError::Compacted { .. } | StoreError::Future { .. }))) => {
                tracing::info!(controller = C::NAME, %error, "changes were missed: listing again");
            }
            Err(error) => {
                tracing::error!(controller = C::NAME, %error, "the watch failed; listing again");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn follow<C: Controller>(
    controller: &Arc<C>,
    backend: &Backend,
    looked: &mut Option<oneshot::Sender<()>>,
) -> Result<Infallible, Ended> {
    let listing = backend.list(&List { prefix: C::LISTED.into(), ..List::default() }).await?;
    let mut watch = backend.watch(C::WATCHED, listing.revision).await?;
    let mut queue = Queue::default();
    controller.forget();
    let take_in = |queue: &mut Queue, event: &Event| {
        for item in controller.concerns(event) {
            queue.add(item, Instant::now());
        }
    };
    for entries in listing.entries.chunks(STRIDE) {
        for entry in entries {
            let entry = Arc::clone(entry);
            take_in(&mut queue, &Event { revision: entry.modified, previous: None, entry: Some(entry) });
        }
        tokio::task::yield_now().await;
    }
    // Dropping this set stops the workers.
    let mut working = JoinSet::new();
    loop {
        while working.len() < C::WORKERS
            && let Some(item) = queue.take(Instant::now())
        {
            let controller = Arc::clone(controller);
            working.spawn(async move {
                let outcome = controller.reconcile(&item).await;
                (item, outcome)
            });
        }
        let is_free = working.len() < C::WORKERS;
        if working.is_empty()
            && let Some(looked) = looked.take()
        {
            // The receiver may have been dropped.
            let _ = looked.send(());
        }
        let next = queue.next().filter(|_| is_free);
        let due = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            events = watch.next() => events?.iter().for_each(|event| take_in(&mut queue, event)),
            Some(done) = working.join_next() => match done {
                Ok((item, outcome)) => settle(C::NAME, &mut queue, item, outcome),
                Err(error) => return Err(Ended::Worker(error)),
            },
            () = due => {}
        }
    }
}

/// Requeues a key after it was reconciled.
fn settle(controller: &'static str, queue: &mut Queue, item: String, outcome: Result<Next, Status>) {
    match outcome {
        Ok(Next::Later) => queue.failed(item, Instant::now()),
        Ok(Next::OnChange) => queue.succeeded(&item),
        Ok(Next::After(pause)) => {
            queue.succeeded(&item);
            queue.add(item, Instant::now() + pause);
        }
        Err(status) => {
            tracing::warn!(controller, item, error = status.message(), "will be tried again");
            queue.failed(item, Instant::now());
        }
    }
}
