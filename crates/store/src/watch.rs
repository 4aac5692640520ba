//! Distributes changes: a bounded ring of the last commits, and one ring for each watched prefix, or part of a prefix, with
//! the commits that touch it.
//!
//! All watches of a prefix or part read one ring, each at its own position, without queues of their own. So a commit costs
//! the same for one watch and for thousands, the writer never waits for a watch, and a watch that is too slow loses its
//! position and gets an error. This module never decides what is committed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::history::History;
use crate::{Entry, Event, Revision, StoreError, Watch};

/// How many commits are visited before the lock is released for others.
const STRIDE: usize = 1_024;

/// One commit, as it is remembered.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) revision: Revision,
    pub(crate) at: Instant,
    pub(crate) events: Vec<Event>,
}

impl Commit {
    pub(crate) fn new(revision: Revision, events: Vec<Event>) -> Self {
        Self { revision, at: Instant::now(), events }
    }

    /// The size of its previous values. Bytes.
    fn bytes(&self) -> usize {
        let size = |event: &Event| event.previous.as_ref().map_or(0, |entry| entry.value.len());
        self.events.iter().map(size).sum()
    }

    fn touches(&self, scope: &Scope) -> bool {
        self.events.iter().any(|event| scope.has(event))
    }
}

/// The parts of the previous and of the new entry.
fn parts(event: &Event) -> impl Iterator<Item = &Option<Box<str>>> {
    let entries: [&Option<Arc<Entry>>; 2] = [&event.previous, &event.entry];
    entries.into_iter().flatten().map(|entry| &entry.part).filter(|part| part.is_some())
}

/// The scope of a watch: the keys under a prefix, or one part of them.
#[derive(Clone, Debug)]
struct Scope {
    prefix: Box<str>,
    part: Option<Box<str>>,
}

impl Scope {
    fn has(&self, event: &Event) -> bool {
        let is_part = || self.part.is_none() || parts(event).any(|part| *part == self.part);
        event.key().starts_with(&*self.prefix) && is_part()
    }
}

/// A scope that is watched.
#[derive(Debug)]
pub(crate) struct Topic {
    scope: Scope,
    ring: Mutex<Ring>,
    /// Notified when the ring grows, and when the store closes.
    grown: Notify,
}

#[derive(Debug)]
struct Ring {
    /// The commits that touch the scope, all of those after `since`.
    commits: VecDeque<Arc<Commit>>,
    since: Revision,
    closed: bool,
}

impl Topic {
    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the watches that wait for changes.
    pub(crate) fn wake(&self) {
        self.grown.notify_waiters();
    }
}

/// The commits of the history window, and their watches.
#[derive(Debug)]
pub(crate) struct Feed {
    inner: Mutex<Inner>,
    /// Every commit up to this revision is in the rings.
    fed: AtomicU64,
    closed: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    history: VecDeque<Arc<Commit>>,
    bytes: usize,
    floor: Revision,
    topics: HashMap<Box<str>, Prefix>,
    /// The lengths of the watched prefixes, and how many prefixes have each length.
    lengths: BTreeMap<usize, usize>,
}

/// The topics of a prefix as a whole (`None`), and of its parts.
type Prefix = HashMap<Option<Box<str>>, Followed>;

#[derive(Debug)]
struct Followed {
    topic: Arc<Topic>,
    watches: usize,
}

impl Inner {
    /// The topics that a commit touches. A topic may occur twice.
    fn touched<'a>(&'a self, commit: &'a Commit) -> impl Iterator<Item = &'a Arc<Topic>> {
        commit.events.iter().flat_map(move |event| {
            let key = event.key();
            let prefixes = self.lengths.keys().filter_map(|length| key.get(..*length));
            prefixes.filter_map(|prefix| self.topics.get(prefix)).flat_map(move |prefix| {
                let scopes = std::iter::once(&None).chain(parts(event));
                scopes.filter_map(|part| prefix.get(part)).map(|followed| &followed.topic)
            })
        })
    }
}

impl Feed {
    /// A feed that begins after a revision, with the commits that led to it since `floor`.
    pub(crate) fn new(revision: Revision, floor: Revision, past: Vec<Arc<Commit>>) -> Self {
        let inner = Inner {
            bytes: past.iter().map(|commit| commit.bytes()).sum(),
            history: past.into(),
            floor,
            topics: HashMap::new(),
            lengths: BTreeMap::new(),
        };
        Self { inner: Mutex::new(inner), fed: AtomicU64::new(revision.0), closed: AtomicBool::new(false) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fed(&self) -> Revision {
        Revision(self.fed.load(Ordering::Acquire))
    }

    /// Adds commits to the rings. The caller wakes the returned topics, some of which may occur more than once.
    pub(crate) fn push(&self, commits: &[Arc<Commit>]) -> Vec<Arc<Topic>> {
        let mut inner = self.inner();
        let mut grown: Vec<Arc<Topic>> = Vec::new();
        for commit in commits {
            for topic in inner.touched(commit) {
                let mut ring = topic.ring();
                if ring.commits.back().is_some_and(|last| last.revision >= commit.revision) {
                    continue;
                }
                ring.commits.push_back(Arc::clone(commit));
                grown.push(Arc::clone(topic));
            }
            inner.bytes += commit.bytes();
            inner.history.push_back(Arc::clone(commit));
            self.fed.store(commit.revision.0, Ordering::Release);
        }
        grown
    }

    /// Moves on to a revision that changed none of the keys here.
    pub(crate) fn advance(&self, revision: Revision) {
        let _inner = self.inner();
        self.fed.fetch_max(revision.0, Ordering::AcqRel);
    }

    /// Begins anew at a revision, because the changes before it are unknown. Returns the commits that are forgotten, and the
    /// topics to wake: their watches end with [`StoreError::Compacted`].
    pub(crate) fn interrupt(&self, revision: Revision) -> (Vec<Arc<Commit>>, Vec<Arc<Topic>>) {
        let mut inner = self.inner();
        inner.floor = inner.floor.max(revision);
        inner.bytes = 0;
        self.fed.fetch_max(revision.0, Ordering::AcqRel);
        let mut topics = Vec::new();
        for followed in inner.topics.values().flat_map(HashMap::values) {
            let mut ring = followed.topic.ring();
            ring.commits.clear();
            ring.since = revision;
            topics.push(Arc::clone(&followed.topic));
        }
        (inner.history.drain(..).collect(), topics)
    }

    /// The revision up to which the limits require forgetting, if any.
    pub(crate) fn overdue(&self, limits: &History, now: Instant) -> Option<Revision> {
        let inner = self.inner();
        let mut bytes = inner.bytes;
        let mut count = inner.history.len();
        let mut floor = None;
        for commit in &inner.history {
            let old = now.saturating_duration_since(commit.at) > limits.age;
            if !old && count <= limits.commits && bytes <= limits.bytes {
                break;
            }
            count -= 1;
            bytes = bytes.saturating_sub(commit.bytes());
            floor = Some(commit.revision);
        }
        floor
    }

    /// Forgets the commits up to a revision, and returns them.
    pub(crate) fn forget(&self, floor: Revision) -> Vec<Arc<Commit>> {
        let mut inner = self.inner();
        inner.floor = inner.floor.max(floor);
        let count = inner.history.partition_point(|commit| commit.revision <= floor);
        let forgotten: Vec<_> = inner.history.drain(..count).collect();
        for commit in &forgotten {
            inner.bytes = inner.bytes.saturating_sub(commit.bytes());
            for topic in inner.touched(commit) {
                let mut ring = topic.ring();
                if ring.commits.front().is_some_and(|first| first.revision <= commit.revision) {
                    ring.commits.pop_front();
                    ring.since = ring.since.max(commit.revision);
                }
            }
        }
        forgotten
    }

    /// Begins a watch of a prefix, or of a part of it, after a revision.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        prefix: &str,
        part: Option<&str>,
        after: Revision,
    ) -> Result<Subscription, StoreError> {
        let scope = Scope { prefix: prefix.into(), part: part.map(Into::into) };
        let mut missed = VecDeque::new();
        let mut seen = after;
        loop {
            let mut inner = self.inner();
            if seen < inner.floor {
                return Err(StoreError::Compacted { asked: after, oldest: inner.floor });
            }
            // The ring of another watch of the scope may have all that this one needs.
            let others = inner.topics.get(prefix).and_then(|prefix| prefix.get(&scope.part));
            let kept = others.is_some_and(|followed| followed.topic.ring().since <= seen);
            let start = inner.history.partition_point(|commit| commit.revision <= seen);
            let unseen = inner.history.len() - start;
            if !kept && unseen > 0 {
                let stride = inner.history.range(start..start + unseen.min(STRIDE));
                for commit in stride {
                    seen = commit.revision;
                    if commit.touches(&scope) {
                        missed.push_back(Arc::clone(commit));
                    }
                }
                if unseen > STRIDE {
                    continue;
                }
            }
            if !kept {
                seen = seen.max(self.fed());
            }
            let topic = self.follow(&mut inner, &scope);
            return Ok(Subscription { feed: Arc::clone(self), topic, missed, seen });
        }
    }

    /// The topic of a scope, created if nobody watches it yet.
    fn follow(&self, inner: &mut Inner, scope: &Scope) -> Arc<Topic> {
        if !inner.topics.contains_key(&scope.prefix) {
            inner.topics.insert(scope.prefix.clone(), Prefix::default());
            *inner.lengths.entry(scope.prefix.len()).or_default() += 1;
        }
        let prefix = inner.topics.entry(scope.prefix.clone()).or_default();
        if let Some(followed) = prefix.get_mut(&scope.part) {
            followed.watches += 1;
            return Arc::clone(&followed.topic);
        }
        let closed = self.closed.load(Ordering::Acquire);
        let ring = Ring { commits: VecDeque::new(), since: self.fed(), closed };
        let topic = Arc::new(Topic { scope: scope.clone(), ring: Mutex::new(ring), grown: Notify::new() });
        prefix.insert(scope.part.clone(), Followed { topic: Arc::clone(&topic), watches: 1 });
        topic
    }

    /// Ends one watch of a topic.
    fn leave(&self, topic: &Topic) {
        let mut inner = self.inner();
        let Some(prefix) = inner.topics.get_mut(&topic.scope.prefix) else { return };
        let Some(followed) = prefix.get_mut(&topic.scope.part) else { return };
        followed.watches -= 1;
        if followed.watches > 0 {
            return;
        }
        prefix.remove(&topic.scope.part);
        if !prefix.is_empty() {
            return;
        }
        inner.topics.remove(&topic.scope.prefix);
        let length = topic.scope.prefix.len();
        if let Some(count) = inner.lengths.get_mut(&length) {
            *count -= 1;
            if *count == 0 {
                inner.lengths.remove(&length);
            }
        }
    }

    /// The commits of the history window, oldest first.
    pub(crate) fn history(&self) -> Vec<Arc<Commit>> {
        self.inner().history.iter().map(Arc::clone).collect()
    }

    /// Ends all watches after they have returned their remaining changes.
    pub(crate) fn close(&self) {
        let inner = self.inner();
        self.closed.store(true, Ordering::Release);
        for followed in inner.topics.values().flat_map(HashMap::values) {
            followed.topic.ring().closed = true;
            followed.topic.wake();
        }
    }
}

/// A watch of a store.
#[derive(Debug)]
pub struct Subscription {
    feed: Arc<Feed>,
    topic: Arc<Topic>,
    /// Commits from before the watch began that are not returned yet.
    missed: VecDeque<Arc<Commit>>,
    /// Every commit up to here was returned, or is in `missed`.
    seen: Revision,
}

/// The most commits that are returned at once.
const MOST: usize = 256;

impl Subscription {
    /// The changes that are available without waiting, if any.
    fn ready(&mut self) -> Result<Vec<Event>, StoreError> {
        if !self.missed.is_empty() {
            let count = self.missed.len().min(MOST);
            return Ok(of_scope(&self.topic.scope, self.missed.drain(..count)));
        }
        let fed = self.feed.fed();
        let ring = self.topic.ring();
        if self.seen < ring.since {
            return Err(StoreError::Compacted { asked: self.seen, oldest: ring.since });
        }
        let start = ring.commits.partition_point(|commit| commit.revision <= self.seen);
        let end = ring.commits.len().min(start + MOST);
        let next: Vec<_> = ring.commits.range(start..end).cloned().collect();
        let closed = ring.closed;
        drop(ring);
        match next.last() {
            Some(last) => self.seen = last.revision,
            None if closed => return Err(StoreError::Broken("the store was closed".to_owned())),
            None => self.seen = self.seen.max(fed),
        }
        Ok(of_scope(&self.topic.scope, next))
    }
}

/// The events of whole commits that lie in a scope.
fn of_scope(scope: &Scope, commits: impl IntoIterator<Item = Arc<Commit>>) -> Vec<Event> {
    let mut events = Vec::new();
    for commit in commits {
        events.extend(commit.events.iter().filter(|event| scope.has(event)).cloned());
    }
    events
}

impl Watch for Subscription {
    async fn next(&mut self) -> Result<Vec<Event>, StoreError> {
        loop {
            let topic = Arc::clone(&self.topic);
            let mut grown = pin!(topic.grown.notified());
            // From here on no notification is missed.
            grown.as_mut().enable();
            let events = self.ready()?;
            if !events.is_empty() {
                return Ok(events);
            }
            grown.await;
        }
    }

    fn revision(&self) -> Revision {
        let fed = self.feed.fed();
        if let Some(first) = self.missed.front() {
            return Revision(first.revision.0.saturating_sub(1));
        }
        let ring = self.topic.ring();
        let behind = ring.commits.back().is_some_and(|last| last.revision > self.seen);
        if behind || self.seen < ring.since { self.seen } else { self.seen.max(fed) }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.leave(&self.topic);
    }
}
