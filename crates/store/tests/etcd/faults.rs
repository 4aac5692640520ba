//! Faults of a cluster of etcd under load (ET-72): histories stay linearizable, no acknowledged write is lost, and watches
//! miss and repeat nothing.
//!
//! A run has a few faults. `ETCD_FAULTS=300 cargo test -p portcullis-store --test etcd faults -- --nocapture` makes more, and
//! prints what happened.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use portcullis_store::conformance::{put, remove};
use portcullis_store::{Entry, Etcd, Expect, List, Revision, Store as _, StoreError, Watch as _};
use portcullis_testkit::etcd::{Cluster, Fault, Options as ServerOptions};
use portcullis_testkit::linearizability::{Action, History, Outcome, check};
use portcullis_testkit::mutate::{Random, dice};
use tokio::time::sleep;

use super::cluster::of_servers;

/// The number of clients.
const CLIENTS: usize = 12;
/// The number of keys that they share.
const KEYS: u64 = 6;

struct Load {
    history: History,
    next_value: AtomicU64,
    is_over: AtomicBool,
    acknowledged: AtomicU64,
    unknown: AtomicU64,
    reads: AtomicU64,
}

fn value_of(entry: &Entry) -> u64 {
    std::str::from_utf8(&entry.value).unwrap().parse().unwrap()
}

impl Load {
    /// Does one thing to one of the keys.
    async fn step(&self, client: usize, store: &Etcd, dice: u64) {
        let key = format!("/k/{}", dice % KEYS);
        let new = self.next_value.fetch_add(1, Ordering::Relaxed);
        let text = new.to_string();
        if (dice / KEYS).is_multiple_of(2) {
            let call = self.history.invoke(client, &key, Action::Read);
            // A read that fails has told nothing.
            if store.fresh().await.is_ok() {
                let found = store.get(&key).await.unwrap();
                self.history.respond(call, Outcome::Observed(found.as_deref().map(value_of)));
                self.reads.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        let seen = store.get(&key).await.unwrap();
        let (action, write) = match (dice / KEYS / 2 % 4, &seen) {
            (0, _) => (Action::Create(new), put(&key, Expect::Absent, &text)),
            (1, _) => (Action::Delete, remove(&key, Expect::Anything)),
            (2, _) => (Action::Write(new), put(&key, Expect::Anything, &text)),
            (_, Some(seen)) => {
                let swap = Action::CompareAndSwap { expected: value_of(seen), new };
                (swap, put(&key, Expect::Modified(seen.modified), &text))
            }
            (_, None) => (Action::Create(new), put(&key, Expect::Absent, &text)),
        };
        let call = self.history.invoke(client, &key, action);
        match store.commit(vec![write]).await {
            Ok(committed) => {
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                let had_effect = committed.entries.iter().any(Option::is_some);
                self.history.respond(call, if had_effect { Outcome::Done } else { Outcome::Refused });
            }
            Err(StoreError::Conflict { .. }) => self.history.respond(call, Outcome::Refused),
            Err(StoreError::Unavailable(_) | StoreError::Unknown(_)) => {
                self.unknown.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Follows all changes, and checks that each fits the one before.
async fn follow(store: &Etcd, is_over: &AtomicBool) -> (BTreeMap<String, Arc<Entry>>, u64) {
    let mut state: BTreeMap<String, Arc<Entry>> = BTreeMap::new();
    let mut count = 0;
    loop {
        let listing = store.list(&List::default()).await.unwrap();
        state.clear();
        state.extend(listing.entries.into_iter().map(|entry| (entry.key.to_string(), entry)));
        let mut seen = listing.revision;
        let mut watch = store.watch("", seen).await.unwrap();
        loop {
            let events = tokio::select! {
                events = watch.next() => events,
                () = sleep(Duration::from_millis(200)) => {
                    if is_over.load(Ordering::Relaxed) {
                        return (state, count);
                    }
                    continue;
                }
            };
            let events = match events {
                Ok(events) => events,
                // What was missed is told, never passed over.
                Err(StoreError::Compacted { .. }) => break,
                Err(error) => panic!("{error}"),
            };
            for event in events {
                assert!(event.revision >= seen, "in order");
                seen = event.revision;
                count += 1;
                let key = event.key().to_owned();
                let before = match event.entry {
                    Some(entry) => state.insert(key.clone(), entry),
                    None => state.remove(&key),
                };
                assert_eq!(event.previous, before, "{key} at {}: every change was told", seen.0);
            }
        }
    }
}

/// Makes this many faults. Returns how many of each kind there were.
fn disturb(cluster: &Cluster, faults: u64) -> BTreeMap<Fault, u64> {
    let mut made = BTreeMap::new();
    for number in 0..faults {
        let mut random = Random::new(number);
        let fault = *random.pick(&Fault::ALL);
        let pause = Duration::from_millis(200 + random.number() % 1_500);
        cluster.suffer(fault, random.below(3), pause);
        *made.entry(fault).or_default() += 1;
        std::thread::sleep(Duration::from_millis(300));
    }
    made
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn histories_are_linearizable_while_members_of_etcd_fail() {
    let faults = std::env::var("ETCD_FAULTS").map_or(8, |text| text.parse().unwrap());
    let options =
        ServerOptions { election_timeout: Some(Duration::from_millis(500)), ..ServerOptions::default() };
    let cluster = Arc::new(tokio::task::spawn_blocking(move || Cluster::with(3, &options)).await.unwrap());
    let mut stores = Vec::new();
    for first in 0..2 {
        let mut servers = cluster.endpoints();
        servers.rotate_left(first);
        stores.push(Arc::new(of_servers(servers).open().await.unwrap()));
    }
    let load = Arc::new(Load {
        history: History::default(),
        next_value: AtomicU64::new(1),
        is_over: AtomicBool::new(false),
        acknowledged: AtomicU64::new(0),
        unknown: AtomicU64::new(0),
        reads: AtomicU64::new(0),
    });
    let is_quiet = Arc::new(AtomicBool::new(false));
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let (load, store) = (Arc::clone(&load), Arc::clone(&stores[client % 2]));
        clients.push(tokio::spawn(async move {
            let mut number = u64::try_from(client).unwrap() << 32;
            while !load.is_over.load(Ordering::Relaxed) {
                number += 1;
                load.step(client, &store, dice(number)).await;
                sleep(Duration::from_millis(dice(number) % 20)).await;
            }
        }));
    }
    let mut followers = Vec::new();
    for store in &stores {
        let (store, is_quiet) = (Arc::clone(store), Arc::clone(&is_quiet));
        followers.push(tokio::spawn(async move { follow(&store, &is_quiet).await }));
    }
    let began = Instant::now();
    let disturbed = Arc::clone(&cluster);
    let made = tokio::task::spawn_blocking(move || disturb(&disturbed, faults)).await.unwrap();
    load.is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let (reads, acknowledged, unknown) = (
        load.reads.load(Ordering::Relaxed),
        load.acknowledged.load(Ordering::Relaxed),
        load.unknown.load(Ordering::Relaxed),
    );
    println!(
        "{made:?} in {:?}: {reads} reads, {acknowledged} acknowledged writes, {unknown} of unknown outcome",
        began.elapsed()
    );
    assert!(reads > 0 && acknowledged > 0);
    // The last state is read like any other: if an acknowledged write were lost, the history would show it.
    let mut newest = Revision(0);
    for (number, store) in stores.iter().enumerate() {
        newest = newest.max(store.fresh().await.unwrap());
        for key in 0..KEYS {
            let key = format!("/k/{key}");
            let call = load.history.invoke(CLIENTS + number, &key, Action::Read);
            store.fresh().await.unwrap();
            let found = store.get(&key).await.unwrap();
            load.history.respond(call, Outcome::Observed(found.as_deref().map(value_of)));
        }
    }
    is_quiet.store(true, Ordering::Relaxed);
    let mut states = Vec::new();
    for (follower, store) in followers.into_iter().zip(&stores) {
        let (state, count) = follower.await.unwrap();
        let listing = store.list(&List::default()).await.unwrap();
        let listed: Vec<_> = listing.entries.into_iter().collect();
        assert_eq!(state.into_values().collect::<Vec<_>>(), listed, "the watch has told everything");
        println!("a watch told {count} changes");
        states.push(listed);
    }
    assert_eq!(states[0], states[1], "both servers end with the same state");
    let history = Arc::into_inner(load).unwrap().history;
    let checked =
        tokio::task::spawn_blocking(move || check(&history).map_err(|violation| violation.to_string()));
    assert_eq!(checked.await.unwrap(), Ok(()));
}
