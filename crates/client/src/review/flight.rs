//! Shares one call among identical concurrent requests (KA-45).
//!
//! A call is independent of its callers: a caller that goes away does not affect the others, and a call without callers
//! still completes, within its own timeout, and caches its response. The number of concurrent calls is bounded; others
//! wait.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, watch};

/// The calls in progress, by what they ask.
pub struct Flights<K: Eq + Hash, V> {
    running: Mutex<HashMap<K, watch::Receiver<Option<V>>>>,
    turns: Arc<Semaphore>,
    /// Notified of each call that starts.
    begun: Notify,
}

impl<K, V> Flights<K, V>
where
    K: Copy + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Allows at most this many concurrent calls.
    pub fn new(calls: usize) -> Arc<Self> {
        Arc::new(Self {
            running: Mutex::default(),
            turns: Arc::new(Semaphore::new(calls)),
            begun: Notify::new(),
        })
    }

    /// Returns the response of the call with this key: of the one in progress, or of a new one. `find` checks for a
    /// cached response; a call must store its response where `find` looks before it ends. Returns none if the call was
    /// aborted.
    pub async fn join<F>(
        self: &Arc<Self>,
        key: K,
        find: impl FnOnce() -> Option<V>,
        call: impl FnOnce() -> F,
    ) -> Option<V>
    where
        F: Future<Output = V> + Send + 'static,
    {
        let mut turn = pin!(Arc::clone(&self.turns).acquire_owned());
        let turn = loop {
            // A caller that waits for a turn can join another one that starts the same call.
            let begun = self.begun.notified();
            let under_way = self.running().get(&key).cloned();
            if let Some(flight) = under_way {
                return landed(flight).await;
            }
            tokio::select! {
                turn = &mut turn => break turn.ok()?,
                () = begun => {}
            }
        };
        let flight = {
            let mut running = self.running();
            if let Some(flight) = running.get(&key) {
                // A caller that joins a call needs no turn.
                drop(turn);
                flight.clone()
            } else if let Some(value) = find() {
                return Some(value);
            } else {
                let (tell, flight) = watch::channel(None);
                running.insert(key, flight.clone());
                self.begun.notify_waiters();
                let entry = Entry { flights: Arc::clone(self), key };
                let call = call();
                tokio::spawn(async move {
                    let _turn = turn;
                    let value = call.await;
                    // From here on others find the cached response, or start a new call.
                    drop(entry);
                    tell.send_replace(Some(value));
                });
                flight
            }
        };
        landed(flight).await
    }

    #[cfg(test)]
    fn under_way(&self) -> usize {
        self.running().len()
    }
}

impl<K: Eq + Hash, V> Flights<K, V> {
    fn running(&self) -> MutexGuard<'_, HashMap<K, watch::Receiver<Option<V>>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The registration of a call in progress. It is removed however the call ends.
struct Entry<K: Eq + Hash, V> {
    flights: Arc<Flights<K, V>>,
    key: K,
}

impl<K: Eq + Hash, V> Drop for Entry<K, V> {
    fn drop(&mut self) {
        self.flights.running().remove(&self.key);
    }
}

async fn landed<V: Clone>(mut flight: watch::Receiver<Option<V>>) -> Option<V> {
    flight.wait_for(Option::is_some).await.ok()?.clone()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn who_goes_away_takes_nothing_from_the_others_ka_45() {
        let flights = Flights::<u8, u8>::new(1);
        let (go, calls) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let (flights, go, calls) = (Arc::clone(&flights), Arc::clone(&go), Arc::clone(&calls));
            tokio::spawn(async move {
                let call = move || {
                    calls.fetch_add(1, Ordering::Relaxed);
                    async move {
                        go.notified().await;
                        7
                    }
                };
                flights.join(1, || None, call).await
            })
        };
        let first = ask();
        while calls.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        let second = ask();
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        assert_eq!(flights.under_way(), 1);
        go.notify_one();
        assert_eq!(second.await.unwrap(), Some(7));
        assert_eq!((calls.load(Ordering::Relaxed), flights.under_way()), (1, 0));
    }

    #[tokio::test]
    async fn who_waits_for_a_turn_joins_the_same_call_when_it_begins_ka_45() {
        let flights = Flights::<u8, usize>::new(1);
        let (go, calls) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let ask = |key| {
            let (flights, go, calls) = (Arc::clone(&flights), Arc::clone(&go), Arc::clone(&calls));
            let call = move || async move {
                let before = calls.fetch_add(1, Ordering::Relaxed);
                go.notified().await;
                before
            };
            // As with errors, which are not cached.
            tokio::spawn(async move { flights.join(key, || None, call).await })
        };
        let first = ask(0);
        while calls.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        let others = [ask(1), ask(1), ask(1)];
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!((calls.load(Ordering::Relaxed), flights.under_way()), (1, 1), "there is one turn");
        go.notify_one();
        assert_eq!(first.await.unwrap(), Some(0));
        go.notify_one();
        for other in others {
            assert_eq!(other.await.unwrap(), Some(1));
        }
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_call_that_breaks_off_gives_up_its_place() {
        let flights = Flights::<u8, u8>::new(1);
        let broken = flights.join(1, || None, || async { panic!("as a test wants it") }).await;
        assert_eq!((broken, flights.under_way()), (None, 0));
        assert_eq!(flights.join(1, || None, || async { 2 }).await, Some(2));
    }
}
