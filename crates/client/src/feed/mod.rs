//! Follows the objects of a cluster that decisions depend on, and keeps an engine up to date with them (BC-20 to BC-23).
//!
//! Each kind is listed once and then watched. The feed knows how old its knowledge of each kind is, and can wait until it is
//! as new as a request. Secrets and config maps are never read, and nothing is ever written.

mod follower;
pub(crate) mod kinds;
mod newest;
mod source;
mod state;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portcullis_policy::engine::LiveEngine;
use portcullis_policy::objects::Kind;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::follower::Follower;
use self::newest::{Newest, of_api};
use self::source::ApiSource;
use self::state::{Followed, Shared};
use crate::clock::Clock;
use crate::connect::Connection;

pub use self::kinds::resource_of;
pub use self::source::{News, Source};
pub use self::state::Standing;

/// A decision that waits for changes is not made more often than this.
const GAP: Duration = Duration::from_millis(2);

/// A cluster that is followed. Clones share the state; when the last one is dropped, the watches end.
#[derive(Clone)]
pub struct Feed {
    shared: Arc<Shared>,
    following: Arc<Mutex<JoinSet<()>>>,
}

/// How waiting for changes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited<R> {
    /// With another decision.
    Decided(R),
    /// Everything that had happened when the wait began is known, and the decision is the same.
    Current,
    /// It is not known whether something is missing.
    TimedOut,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.standings()).finish()
    }
}

impl Feed {
    /// Follows these kinds. Every change is applied to the engine, which is complete once all kinds are listed. A watch on which
    /// nothing arrives for `silence` is started again, so that a kind is heard of. Must be called inside a runtime.
    pub fn follow(
        connection: &Connection,
        kinds: &[Kind],
        engine: Arc<LiveEngine>,
        clock: Arc<dyn Clock>,
        silence: Duration,
    ) -> Self {
        let source = |kind: &Kind| Some((*kind, ApiSource::new(connection, *kind, silence)?));
        let (connection, first) = (connection.clone(), kinds.first().copied());
        let newest = move || of_api(connection.clone(), first);
        Self::of(kinds.iter().filter_map(source).collect(), newest, engine, clock)
    }

    /// As [`Feed::follow`], from sources of any sort. `newest` asks for the revision that the cluster has now or later; none if it
    /// does not answer.
    pub fn of<S: Source, A: Future<Output = Option<u64>> + Send + 'static>(
        sources: Vec<(Kind, S)>,
        newest: impl FnMut() -> A + Send + 'static,
        engine: Arc<LiveEngine>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut following = JoinSet::new();
        let kinds: Box<[Followed]> = sources.iter().map(|(kind, _)| Followed::new(*kind)).collect();
        let newest = Newest::new(newest, &mut following);
        let shared = Arc::new(Shared { engine, clock, kinds, changed: watch::Sender::new(()), newest });
        if sources.is_empty() {
            shared.engine.mark_complete();
        }
        for (number, (_, source)) in sources.into_iter().enumerate() {
            following.spawn(Follower::new(&shared, number, source).run());
        }
        Self { shared, following: Arc::new(Mutex::new(following)) }
    }

    /// Ends the watches of this feed and of its clones. Call this before the runtime shuts down: otherwise a connection may close before
    /// the watch that uses it ends, and the watch logs a failure.
    pub fn stop(&self) {
        self.following.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// What is known of each kind.
    pub fn standings(&self) -> impl Iterator<Item = Standing> + '_ {
        let now = self.shared.clock.running();
        self.shared.kinds.iter().map(move |followed| followed.standing(now))
    }

    /// Whether all of these kinds were listed, and each was heard of within this time. A kind that is not followed is not
    /// current.
    pub fn is_current(&self, kinds: &[Kind], limit: Duration) -> bool {
        kinds.iter().all(|kind| {
            let mut standings = self.standings();
            standings.any(|known| known.kind == *kind && known.is_current(limit))
        })
    }

    /// Decides again whenever something has changed, until the decision is there or everything that had happened before the
    /// call is known, and at most this long (BC-23).
    pub async fn decide_again<R>(&self, most: Duration, mut decide: impl FnMut() -> Option<R>) -> Waited<R> {
        let shared = &self.shared;
        let mut changes = shared.changed.subscribe();
        let deciding = async {
            let mut asking = std::pin::pin!(shared.newest.ask());
            let mut target = None;
            loop {
                // Read before the decision, so that the decision is not older.
                let has_all = target.is_some_and(|target| shared.has_reached(target));
                if let Some(decision) = decide() {
                    return Waited::Decided(decision);
                }
                if has_all {
                    return Waited::Current;
                }
                tokio::select! {
                    newest = &mut asking, if target.is_none() => target = Some(newest.unwrap_or(u64::MAX)),
                    changed = changes.changed() => {
                        if changed.is_err() {
                            return Waited::TimedOut;
                        }
                        sleep(GAP).await;
                    }
                }
            }
        };
        timeout(most, deciding).await.unwrap_or(Waited::TimedOut)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use portcullis_policy::{EngineConfig, Mode};
    use tokio::sync::oneshot;

    use super::*;
    use crate::clock::SystemClock;

    /// A source of which nothing is heard. The other end notices when it is dropped.
    struct Quiet {
        _alive: oneshot::Sender<()>,
    }

    impl Source for Quiet {
        async fn next(&mut self) -> News {
            pending().await
        }
    }

    #[tokio::test]
    async fn a_stopped_feed_follows_nothing_though_clones_of_it_are_there() {
        let (alive, dropped) = oneshot::channel();
        let config = EngineConfig { modes: vec![Mode::Node], ..EngineConfig::default() };
        let engine = Arc::new(LiveEngine::new(&config).unwrap());
        let clock = Arc::new(SystemClock::new());
        let feed =
            Feed::of(vec![(Kind::Pod, Quiet { _alive: alive })], || async { None::<u64> }, engine, clock);
        let clone = feed.clone();
        feed.stop();
        assert!(dropped.await.is_err(), "the source is dropped");
        assert!(!clone.is_current(&[Kind::Pod], Duration::MAX));
    }
}
