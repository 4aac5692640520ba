//! Runs a controller: what is there first, then every change, and again from the beginning when changes were lost.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use portcullis_store::{Event, List, Store as _, StoreError, Watch as _};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use super::queue::Queue;
use crate::backend::Backend;
use crate::status::Status;

/// Before all is listed again.
const PAUSE: Duration = Duration::from_millis(500);

/// When to look at a thing again if nothing happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Never.
    OnChange,
    /// After so long.
    After(Duration),
    /// Later each time: what it waits for cannot be seen to happen.
    Later,
}

/// Brings things of one sort to where they should be.
pub(super) trait Controller: Send + Sync + 'static {
    /// For the log.
    const NAME: &'static str;
    /// Under which prefix the things are that are looked at in the beginning.
    const LISTED: &'static str;
    /// Under which prefix the changes are that matter.
    const WATCHED: &'static str;
    /// How many things are looked at at the same time, each by one at most.
    const WORKERS: usize = 1;

    /// The thing that a change concerns. What is there in the beginning comes as if it had just been made.
    fn concerns(&self, event: &Event) -> Option<String>;

    /// Looks at a thing as it is now, and does what there is to do.
    fn reconcile(&self, item: &str) -> impl Future<Output = Result<Next, Status>> + Send;
}

/// Why changes are not followed any more.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A look at one thing came to grief, and it is not known any more which that was.
    #[error("a fault: {0}")]
    Worker(JoinError),
}

/// Runs a controller until it is dropped, or the store ends. `looked` is told once all that was there in the beginning
/// has been looked at.
pub(super) async fn run<C: Controller>(controller: Arc<C>, backend: &Backend, looked: oneshot::Sender<()>) {
    let mut looked = Some(looked);
    loop {
        match follow(&controller, backend, &mut looked).await {
            Err(Ended::Store(error @ (StoreError::Compacted { .. } | StoreError::Future { .. }))) => {
                tracing::info!(controller = C::NAME, %error, "changes were missed: looking at everything again");
            }
            Err(error) => {
                tracing::error!(controller = C::NAME, %error, "cannot go on; looking at everything again");
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
    let take_in = |queue: &mut Queue, event: &Event| {
        if let Some(item) = controller.concerns(event) {
            queue.add(item, Instant::now());
        }
    };
    for entry in listing.entries {
        take_in(&mut queue, &Event { revision: entry.modified, previous: None, entry: Some(entry) });
    }
    // Whoever stops waiting for these stops them.
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
            // Nobody need wait for it.
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

/// Says when a thing that was looked at is to be looked at again.
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
