//! A store in etcd, which any number of servers share: the newest state and a window of history in memory, fed by one watch,
//! and every commit as one transaction of etcd (ET-10 to ET-40).
//!
//! - `client` calls etcd, with the `certificates` in force, `wire` has its messages, and a [`Layout`] says where entries lie and
//!   in which form.
//! - `contents` reads everything once. Then `follow` watches, on a thread of its own: it calls the observers, and shows every
//!   change in order, whoever made it.
//! - `commit` writes. A commit is acknowledged once the change has come back through the watch, so a writer sees its own
//!   effect, and so do the observers.
//! - `fresh` makes sure that memory is current: [`Store::fresh`] for reads that must be, [`Store::is_current`] for decisions
//!   that must not be made on memory that etcd has not confirmed for too long.
//! - `past` lists revisions that memory has forgotten and etcd has not.
//! - `compaction` and `leases` are the upkeep that servers share with kube-apiservers.
//! - `direct` reads and writes without all this, for programs that are no servers, and `changes` follows a range.
//!
//! Keys outside of the layout are never read into memory and never written. A value that cannot be read is logged, and its
//! key counts as absent, except that [`Store::get`] says so (ET-12).

mod certificates;
mod changes;
mod client;
mod commit;
mod compaction;
mod contents;
mod direct;
mod follow;
mod fresh;
mod layout;
mod leases;
mod options;
mod past;
mod shared;
mod wire;

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

pub use self::certificates::{LiveTls, Tls};
pub use self::changes::{Changed, Changes, ChangesEnded};
pub use self::direct::{Change, Direct, Page, Range, Sealed};
pub use self::layout::{GroupResource, Layout, Opened};
pub use self::options::{Options, RequestObserver};

use self::client::{Client, Failure};
use self::commit::Committer;
use self::contents::Contents;
use self::follow::Trouble;
use self::fresh::Freshness;
use self::leases::Leases;
use self::past::Past;
use self::shared::{Keys, Shared, number, revision};
use self::wire::RangeRequest;
use crate::memory::Memory;
use crate::readers::{Readers, spawn, waker};
use crate::watch::{Feed, Subscription};
use crate::{Committed, Entry, List, Listing, Revision, Standing, Store, StoreError, Write};

/// The pause before etcd is asked again at the start.
const PAUSE: Duration = Duration::from_millis(250);
/// How long etcd has to say that it is there.
const PROBE: Duration = Duration::from_secs(2);
/// How long etcd may take to answer what a request waits for.
const ANSWER: Duration = Duration::from_secs(5);
/// How long upkeep requests may take.
const WITHIN: Duration = Duration::from_secs(10);

/// A store in etcd.
pub struct Etcd {
    committer: Arc<Committer>,
    freshness: Arc<Freshness>,
    past: Past,
    /// Ended when the store is dropped.
    _upkeep: JoinSet<()>,
    stop: Option<oneshot::Sender<()>>,
    follower: Option<JoinHandle<()>>,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl Options {
    /// Connects, reads everything, and begins to follow. Waits as long as etcd cannot be reached, and logs what it waits for
    /// (ET-5). Must be called in a runtime of tokio, which must live as long as the store.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for addresses and certificates that cannot be used; [`StoreError::Broken`] if etcd refuses the
    /// requests, for example because the user may not read.
    pub async fn open(self) -> Result<Etcd, StoreError> {
        let client = Arc::new(Client::new(&self.servers, Arc::clone(&self.tls), self.requests.clone())?);
        let (layout, part_of) = (Arc::clone(&self.layout), self.part_of);
        let keys = Keys { prefix: self.prefix.clone(), layout, part_of };
        let (contents, as_of) = first_contents(&client, &keys, &self.servers).await?;
        let Contents { revision, entries, unreadable } = contents;
        let readers = Readers {
            memory: Arc::new(Memory::new(entries, revision, revision)),
            feed: Arc::new(Feed::new(revision, revision, Vec::new())),
            history: self.history,
            observers: self.observers,
            grown: waker()?,
        };
        let shared = Arc::new(Shared::new(keys, readers, unreadable));
        let freshness = Arc::new(Freshness::new(as_of));

        let (stop, stopped) = oneshot::channel();
        let following = Arc::clone(&shared);
        let (servers, tls) = (self.servers, self.tls);
        let follower = spawn("store-etcd", move || follow_until(&following, &servers, tls, stopped))?;

        let mut upkeep = JoinSet::new();
        upkeep.spawn(Arc::clone(&freshness).run(Arc::clone(&shared), Arc::clone(&client)));
        upkeep.spawn(forget_history(Arc::clone(&shared)));
        if let Some(interval) = self.compaction {
            upkeep.spawn(compaction::run(Arc::clone(&client), interval));
        }
        let leases = Leases::default();
        let committer = Arc::new(Committer { shared, client, leases, amender: self.amender });
        Ok(Etcd {
            committer,
            freshness,
            past: Past::default(),
            _upkeep: upkeep,
            stop: Some(stop),
            follower: Some(follower),
        })
    }
}

/// Reads everything, as soon as etcd can be reached. Also returns a time at which this was current.
async fn first_contents(
    client: &Client,
    keys: &Keys,
    servers: &[String],
) -> Result<(Contents, Instant), StoreError> {
    let mut trouble = Trouble::default();
    loop {
        let began = Instant::now();
        // Asked first whether it is there at all, because reading everything may take its time.
        let contents = match client.status(PROBE).await {
            Ok(_) => contents::contents(client, keys).await,
            Err(failure) => Err(failure),
        };
        match contents {
            Ok(contents) => return Ok((contents, began)),
            Err(Failure::Refused(why)) => {
                return Err(StoreError::Broken(format!("etcd refuses to be read: {why} (--etcd-servers)")));
            }
            Err(failure) => {
                if trouble.is_due() {
                    let error = StoreError::from(failure).to_string();
                    tracing::warn!(servers = servers.join(","), error, "waiting for etcd");
                }
                sleep(PAUSE).await;
            }
        }
    }
}

/// Runs the follower on this thread. It has a runtime and connections of its own: what it does for each change must not delay
/// requests.
fn follow_until(shared: &Shared, servers: &[String], tls: Arc<LiveTls>, stopped: oneshot::Receiver<()>) {
    // Also when an observer panics: waits and watches would otherwise never end.
    let _closing = Closing(shared);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(async {
            match Client::new(servers, tls, None) {
                Ok(client) => tokio::select! {
                    () = follow::follow(shared, &client) => {}
                    // Also when the store is dropped without a word.
                    _ = stopped => {}
                },
                Err(error) => tracing::error!(%error, "etcd cannot be followed"),
            }
        }),
        Err(error) => tracing::error!(%error, "etcd cannot be followed"),
    }
}

/// Ends all waits and watches when it is dropped.
struct Closing<'s>(&'s Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

async fn forget_history(shared: Arc<Shared>) {
    loop {
        sleep(shared.readers.pause()).await;
        let _applying = shared.applying();
        shared.readers.forget_overdue();
    }
}

impl Etcd {
    fn shared(&self) -> &Shared {
        &self.committer.shared
    }

    /// The size of all keys and their newest values, as served. In bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.shared().readers.memory.size()
    }

    /// The number of keys whose values cannot be read, and that somebody would see (ET-12).
    #[must_use]
    pub fn unreadable(&self) -> usize {
        let layout = &self.shared().keys.layout;
        self.shared().unreadable().keys().filter(|key| layout.is_served(key)).count()
    }

    /// The keys with this prefix whose values cannot be read, and why.
    #[must_use]
    pub fn unreadable_below(&self, prefix: &str) -> Vec<(Box<str>, String)> {
        let unreadable = self.shared().unreadable();
        let below = unreadable.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let below = below.take_while(|(key, _)| key.starts_with(prefix));
        below.map(|(key, why)| (key.clone(), why.clone())).collect()
    }

    /// Why etcd is not well: it has not answered in this time whether what is in memory is current. None if it has. Not longer than
    /// what is in memory may be used, whatever the time is.
    #[must_use]
    pub fn trouble(&self, within: Duration) -> Option<String> {
        self.freshness.trouble(within)
    }

    /// Asks a member for its version and the size of its file, in bytes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if none answers in this time.
    pub async fn status(&self, within: Duration) -> Result<(String, u64), StoreError> {
        let status = self.committer.client.status(within).await?;
        Ok((status.version, u64::try_from(status.db_size).unwrap_or(0)))
    }

    /// Waits for a revision that may have been reached on another server only.
    async fn held(&self, asked: Revision) -> Result<(), StoreError> {
        if asked <= self.revision() {
            return Ok(());
        }
        self.fresh().await?;
        let newest = self.revision();
        if asked > newest { Err(StoreError::Future { asked, newest }) } else { Ok(()) }
    }
}

impl Store for Etcd {
    type Watch = Subscription;

    fn revision(&self) -> Revision {
        self.shared().readers.memory.revision()
    }

    async fn get(&self, key: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        if let Some(entry) = self.shared().readers.memory.entry(key) {
            return Ok(Some(entry));
        }
        match self.shared().unreadable().get(key) {
            Some(why) => Err(StoreError::Unreadable(why.clone())),
            None => Ok(None),
        }
    }

    async fn get_at(&self, key: &str, at: Revision) -> Result<Option<Arc<Entry>>, StoreError> {
        self.shared().readers.memory.entry_as_of(key, at)
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError> {
        let keys = &self.shared().keys;
        let (etcd_key, resource) = (keys.of(&entry.key)?, keys.layout.resource(&entry.key));
        let found = self.committer.client.range(RangeRequest::of(etcd_key.clone()), resource, ANSWER).await?;
        let Some(kv) = found.kvs.first().filter(|kv| revision(kv.mod_revision) == entry.modified) else {
            return Ok(Standing::Replaced);
        };
        // What could be read once and no longer can is nothing to rewrite.
        let opened = keys.layout.open(&entry.key, &etcd_key, &kv.value, entry.modified);
        let is_stale = opened.map_err(|error| StoreError::Unreadable(error.to_string()))?.is_stale;
        Ok(if is_stale { Standing::Stale } else { Standing::Current })
    }

    async fn remove_unreadable(&self, key: &str) -> Result<bool, StoreError> {
        self.committer.remove_unreadable(key).await
    }

    async fn list(&self, list: &List) -> Result<Listing, StoreError> {
        if let Some(at) = list.at {
            self.held(at).await?;
        }
        let listed = self.shared().readers.memory.list(list).await;
        let Err(StoreError::Compacted { asked, oldest }) = listed else { return listed };
        let etcd = (self.shared(), &*self.committer.client);
        self.past.list(etcd, list, (asked, oldest)).await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        let committer = Arc::clone(&self.committer);
        // A commit goes on when the caller no longer waits.
        let done = tokio::spawn(async move { committer.commit(writes).await }).await;
        done.map_err(|error| StoreError::Unknown(format!("a commit ended early: {error}")))?
    }

    fn most_writes(&self) -> usize {
        commit::MOST_WRITES
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Subscription, StoreError> {
        self.held(after).await?;
        self.shared().readers.feed.subscribe(prefix, None, after)
    }

    async fn watch_part(
        &self,
        prefix: &str,
        part: &str,
        after: Revision,
    ) -> Result<Subscription, StoreError> {
        self.held(after).await?;
        self.shared().readers.feed.subscribe(prefix, Some(part), after)
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        self.held(before).await?;
        self.committer.client.compact(number(before), WITHIN).await?;
        let _applying = self.shared().applying();
        self.shared().readers.compact(before)
    }

    async fn fresh(&self) -> Result<Revision, StoreError> {
        self.freshness.fresh().await
    }

    fn is_current(&self) -> bool {
        self.freshness.is_current()
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl Drop for Etcd {
    /// Waits until the follower has ended.
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // A follower that has ended already needs no signal.
            let _ = stop.send(());
        }
        if let Some(follower) = self.follower.take() {
            // A thread that panicked has already reported it.
            let _ = follower.join();
        }
    }
}
