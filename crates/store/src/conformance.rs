//! The conformance suite of backends. Each check takes a store that nobody else writes to, and panics where the store is
//! wrong. The state of a store at each revision is compared with a plain map.
//!
//! Checks never look at the time, and never assume the revision of a new store, or that no revision is left out: a store that
//! others may share uses some for itself.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a check that fails must stop and say where"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Committed, Entry, Event, Expect, List, Revision, Store, StoreError, Value, Watch, Write};

/// A write of a plain value.
#[must_use]
pub fn put(key: &str, expect: Expect, value: &str) -> Write {
    let value = Value { bytes: Bytes::copy_from_slice(value.as_bytes()), revision_at: None, relies_on: None };
    Write { key: key.into(), expect, value: Some(value) }
}

/// A removal.
#[must_use]
pub fn remove(key: &str, expect: Expect) -> Write {
    Write { key: key.into(), expect, value: None }
}

async fn commit<S: Store>(store: &Arc<S>, writes: impl IntoIterator<Item = Write>) -> Committed {
    store.commit(writes.into_iter().collect()).await.expect("a commit that nothing is in the way of")
}

async fn keys<S: Store>(store: &Arc<S>, list: List) -> Vec<String> {
    let listing = store.list(&list).await.expect("a list");
    listing.entries.iter().map(|entry| entry.key.to_string()).collect()
}

/// Revisions grow with each commit that changes something; entries have the revisions that created and wrote them.
pub async fn revisions<S: Store>(store: &Arc<S>) {
    let base = store.revision();
    let made = commit(store, [put("/a", Expect::Absent, "1")]).await;
    assert!(made.revision > base);
    let entry = made.entries[0].clone().unwrap();
    assert_eq!((&*entry.key, &*entry.value), ("/a", &b"1"[..]));
    assert_eq!((entry.created, entry.modified), (made.revision, made.revision));
    assert_eq!(store.get("/a").await.unwrap(), Some(entry));

    let both = [put("/a", Expect::Anything, "2"), put("/b", Expect::Absent, "3")];
    let both = commit(store, both).await;
    assert!(both.revision > made.revision);
    let (a, b) = (both.entries[0].clone().unwrap(), both.entries[1].clone().unwrap());
    assert_eq!((a.created, a.modified), (made.revision, both.revision), "one commit, one revision");
    assert_eq!((b.created, b.modified), (both.revision, both.revision));

    let gone = commit(store, [remove("/a", Expect::Modified(both.revision))]).await;
    assert!(gone.revision > both.revision, "a removal is a change");
    assert_eq!(gone.entries, [Some(a)], "what was removed");
    assert_eq!(store.get("/a").await.unwrap(), None);

    let mut watch = store.watch("", gone.revision).await.unwrap();
    let nothing = commit(store, [remove("/a", Expect::Anything), remove("/c", Expect::Absent)]).await;
    assert_eq!(nothing.entries, vec![None, None]);
    assert!(nothing.revision >= gone.revision && store.revision() >= nothing.revision);

    let again = commit(store, [put("/a", Expect::Absent, "4")]).await;
    assert_eq!(again.entries[0].as_ref().unwrap().created, again.revision, "made again is new");
    assert!(store.revision() >= again.revision);
    let events = watch.next().await.unwrap();
    assert_eq!(events[0].revision, again.revision, "a commit that changes nothing is no event");
    assert!(store.fresh().await.unwrap() >= again.revision);
    assert!(store.is_current());
}

/// A commit whose expectations do not hold, or that is invalid, changes nothing.
pub async fn expectations<S: Store>(store: &Arc<S>) {
    let made = commit(store, [put("/a", Expect::Absent, "1")]).await;
    let here = made.entries[0].clone();
    let before = Revision(made.revision.0 - 1);
    let conflicts = [
        (vec![put("/a", Expect::Absent, "2")], "/a", here.clone()),
        (vec![put("/a", Expect::Modified(before), "2")], "/a", here.clone()),
        (vec![remove("/a", Expect::Modified(before))], "/a", here.clone()),
        (vec![put("/b", Expect::Modified(made.revision), "2")], "/b", None),
        (vec![remove("/b", Expect::Modified(made.revision))], "/b", None),
        (vec![put("/b", Expect::Absent, "2"), put("/a", Expect::Absent, "2")], "/a", here.clone()),
        (vec![remove("/a", Expect::Anything), put("/b", Expect::Modified(before), "2")], "/b", None),
    ];
    for (writes, which, what) in conflicts {
        match store.commit(writes.clone()).await {
            Err(StoreError::Conflict { key, current }) => {
                assert_eq!((&*key, &current), (which, &what), "{writes:?}");
            }
            other => panic!("a conflict is due for {writes:?}: {other:?}"),
        }
    }
    let outside = Value { bytes: Bytes::from_static(b"12"), revision_at: Some(3), relies_on: None };
    let refused = [
        vec![put("/a", Expect::Anything, "2"), remove("/a", Expect::Anything)],
        vec![Write { key: "/a".into(), expect: Expect::Anything, value: Some(outside) }],
    ];
    for writes in refused {
        let answer = store.commit(writes.clone()).await;
        assert!(matches!(answer, Err(StoreError::Refused(_))), "{writes:?}: {answer:?}");
    }
    assert!(store.revision() >= made.revision);
    assert_eq!(keys(store, List::default()).await, ["/a"]);
    assert_eq!(store.get("/a").await.unwrap(), here);
}

/// A commit conflicts when a key on which its writer relied has another value, or none; and changes nothing.
pub async fn what_is_relied_on<S: Store>(store: &Arc<S>) {
    let relying = |on: &str, revision: Revision| {
        let mut write = put("/a", Expect::Anything, "1");
        if let Some(value) = &mut write.value {
            value.relies_on = Some((on.into(), revision));
        }
        write
    };
    let other = commit(store, [put("/other", Expect::Absent, "1")]).await;
    let made = commit(store, [relying("/other", other.revision), put("/b", Expect::Absent, "2")]).await;
    let changed = commit(store, [put("/other", Expect::Anything, "2")]).await;
    let gone = commit(store, [put("/gone", Expect::Absent, "1")]).await;
    commit(store, [remove("/gone", Expect::Anything)]).await;
    for (key, revision, current) in [
        ("/other", other.revision, changed.entries[0].clone()),
        ("/other", gone.revision, changed.entries[0].clone()),
        ("/gone", gone.revision, None),
        ("/never", Revision(0), None),
    ] {
        match store.commit(vec![relying(key, revision), put("/c", Expect::Absent, "3")]).await {
            Err(StoreError::Conflict { key: about, current: found }) => {
                assert_eq!((&*about, found), (key, current));
            }
            answer => panic!("a conflict about {key} is due: {answer:?}"),
        }
    }
    // A write that conflicts by itself is told first.
    match store.commit(vec![relying("/other", other.revision), put("/b", Expect::Absent, "3")]).await {
        Err(StoreError::Conflict { key, current }) => {
            assert_eq!((&*key, current), ("/b", made.entries[1].clone()));
        }
        answer => panic!("a conflict is due: {answer:?}"),
    }
    assert_eq!(store.get("/a").await.unwrap(), made.entries[0]);
    assert_eq!(store.get("/c").await.unwrap(), None);
}

/// The digits of the revision are inserted into the value at the writer's offset.
pub async fn revision_in_value<S: Store>(store: &Arc<S>) {
    for (bytes, at) in [("[]", 1), ("[]", 0), ("[]", 2), ("", 0)] {
        let value = Value { bytes: Bytes::from(bytes), revision_at: Some(at), relies_on: None };
        let done =
            commit(store, [Write { key: "/a".into(), expect: Expect::Anything, value: Some(value) }]).await;
        let (before, after) = bytes.split_at(at);
        let expected = format!("{before}{}{after}", done.revision.0);
        let entry = store.get("/a").await.unwrap().unwrap();
        assert_eq!(entry.value, expected.as_bytes());
        assert_eq!(done.entries, [Some(entry)]);
    }
}

/// Many writers that increment a number lose no increment, and each reads its own writes.
pub async fn concurrent_writers<S: Store>(store: &Arc<S>) {
    const WRITERS: u64 = 8;
    const ROUNDS: u64 = 25;
    commit(store, [put("/number", Expect::Absent, "0")]).await;
    let add = async |store: &Arc<S>, writer: u64| {
        let mut revisions = Vec::new();
        for _ in 0..ROUNDS {
            loop {
                let entry = store.get("/number").await.unwrap().unwrap();
                let number: u64 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
                let next = (number + 1).to_string();
                let own = put(&format!("/writer/{writer}"), Expect::Anything, &next);
                match store.commit(vec![put("/number", Expect::Modified(entry.modified), &next), own]).await {
                    Ok(done) => {
                        revisions.push(done.revision);
                        let read = store.get("/number").await.unwrap().unwrap();
                        assert!(read.modified >= done.revision, "a writer reads what it has written");
                        assert!(store.revision() >= done.revision);
                        break;
                    }
                    Err(StoreError::Conflict { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }
        revisions
    };
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(store);
        tasks.push(tokio::task::spawn_blocking(move || {
            tokio::runtime::Handle::current().block_on(add(&store, writer))
        }));
    }
    let mut revisions = Vec::new();
    for task in tasks {
        let own = task.await.unwrap();
        assert!(own.is_sorted());
        revisions.extend(own);
    }
    revisions.sort_unstable();
    assert!(revisions.array_windows().all(|[one, next]| one < next), "each commit has a revision of its own");
    assert_eq!(revisions.len() as u64, WRITERS * ROUNDS);
    let total = store.get("/number").await.unwrap().unwrap();
    assert_eq!(total.value, (WRITERS * ROUNDS).to_string().as_bytes());
}

/// Pseudorandom numbers, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn key(&mut self) -> String {
        format!("/{}/{}", ["a", "a-b", "ab", "b"][self.below(4) as usize], self.below(12))
    }

    /// A commit of one to three keys.
    fn writes(&mut self) -> Vec<Write> {
        let mut writes = BTreeMap::new();
        for _ in 0..=self.below(3) {
            let key = self.key();
            let write = match self.below(3) {
                0 => remove(&key, Expect::Anything),
                _ => put(&key, Expect::Anything, &self.below(1_000).to_string()),
            };
            writes.insert(key, write);
        }
        writes.into_values().collect()
    }
}

type State = BTreeMap<String, Arc<Entry>>;

/// Applies a commit to a plain map.
fn apply(state: &mut State, writes: &[Write], done: &Committed) {
    for (write, entry) in writes.iter().zip(&done.entries) {
        match &write.value {
            Some(value) => {
                let entry = entry.clone().expect("a written entry");
                let before = state.get(&*write.key);
                let created = before.map_or(done.revision, |before| before.created);
                assert_eq!(
                    (&entry.value, entry.modified, entry.created),
                    (&value.bytes, done.revision, created)
                );
                state.insert(write.key.to_string(), entry);
            }
            None => assert_eq!(&state.remove(&*write.key), entry, "what was removed"),
        }
    }
}

/// A store after random commits, and its state at each revision.
async fn filled<S: Store>(store: &Arc<S>, commits: usize) -> BTreeMap<Revision, State> {
    let mut dice = Dice(7);
    let mut state = State::new();
    let mut states = BTreeMap::from([(store.revision(), state.clone())]);
    for _ in 0..commits {
        let writes = dice.writes();
        let done = commit(store, writes.clone()).await;
        apply(&mut state, &writes, &done);
        states.insert(done.revision, state.clone());
    }
    states
}

/// Every list at every revision equals that of a plain map: prefix, start, limit and remaining count.
pub async fn lists_at_revisions<S: Store>(store: &Arc<S>) {
    let states = filled(store, 150).await;
    shows(store, &states, &["", "/", "/a", "/a/", "/a-b/", "/a/1", "/c"]).await;
    let keys: BTreeSet<&String> = states.values().flat_map(BTreeMap::keys).collect();
    for (at, state) in &states {
        for key in &keys {
            assert_eq!(store.get_at(key, *at).await.unwrap().as_ref(), state.get(*key), "{key} at {at:?}");
        }
    }
    let newest = store.revision();
    store.compact(newest).await.unwrap();
    for at in states.keys().filter(|at| **at < newest) {
        let answer = store.get_at("/a/1", *at).await;
        assert!(matches!(answer, Err(StoreError::Compacted { .. })), "{answer:?}");
    }
}

/// As [`lists_at_revisions`], for a server that is started by `start` after the last change, on what `writer` has written. A list
/// of the past has a prefix.
pub async fn lists_from_before_the_start<S: Store>(writer: &Arc<S>, start: impl AsyncFnOnce() -> Arc<S>) {
    let states = filled(writer, 30).await;
    shows(&start().await, &states, &["/", "/a", "/a/", "/a-b/", "/a/1", "/c"]).await;
}

/// Lists every state, in many ways.
async fn shows<S: Store>(store: &Arc<S>, states: &BTreeMap<Revision, State>, prefixes: &[&str]) {
    let newest = store.revision();
    let last = *states.keys().next_back().unwrap();
    assert!(last <= newest);
    for (at, state) in states {
        for prefix in prefixes.iter().copied() {
            for after in [None, Some("/a/1"), Some("/a/11x"), Some("/ab/3"), Some("")] {
                for limit in [0, 1, 3, 1_000] {
                    let list = List {
                        prefix: prefix.into(),
                        after: after.map(Into::into),
                        limit,
                        part: None,
                        at: (*at != last).then_some(*at),
                    };
                    let listing = store.list(&list).await.unwrap();
                    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
                    let mut due: Vec<_> = state
                        .range::<str, _>((start, Bound::Unbounded))
                        .filter(|(key, _)| key.starts_with(prefix))
                        .map(|(_, entry)| Arc::clone(entry))
                        .collect();
                    let shown = if limit == 0 { due.len() } else { limit.min(due.len()) };
                    assert_eq!(listing.remaining, due.len() - shown, "{list:?}");
                    due.truncate(shown);
                    assert_eq!(listing.entries, due, "{list:?}");
                    let shown = listing.revision;
                    assert!(shown == *at || list.at.is_none() && shown > *at, "{list:?}: {shown:?}");
                }
            }
        }
    }
    let ahead = Revision(newest.0 + 1_000_000);
    let answer = store.list(&List { at: Some(ahead), ..List::default() }).await;
    let Err(StoreError::Future { asked, newest: reached }) = answer else { panic!("{answer:?}") };
    assert!(asked == ahead && reached >= newest);
}

/// Pages at the revision of the first page show one state, whatever is written meanwhile.
pub async fn pages_show_one_state<S: Store>(store: &Arc<S>) {
    let states = filled(store, 100).await;
    let mut dice = Dice(11);
    let mut list = List { limit: 4, ..List::default() };
    let mut found = Vec::new();
    loop {
        let page = store.list(&list).await.unwrap();
        found.extend(page.entries.iter().cloned());
        let Some(last) = page.entries.last().filter(|_| page.remaining > 0) else { break };
        list.after = Some(last.key.clone());
        list.at = Some(page.revision);
        commit(store, dice.writes()).await;
        commit(store, [remove(&last.key, Expect::Anything)]).await;
    }
    let first = states.values().next_back().unwrap();
    assert_eq!(found, first.values().cloned().collect::<Vec<_>>());
    assert!(found.len() > 4, "more than a page");
}

/// Checks the events of a watch, and keeps the resulting state.
struct Follower {
    prefix: String,
    state: State,
    seen: Revision,
}

impl Follower {
    fn new(prefix: &str, seen: Revision, state: &State) -> Self {
        let state = state.iter().filter(|(key, _)| key.starts_with(prefix));
        let state = state.map(|(key, entry)| (key.clone(), Arc::clone(entry))).collect();
        Self { prefix: prefix.to_owned(), state, seen }
    }

    fn take(&mut self, events: &[Event]) {
        assert!(!events.is_empty(), "never nothing");
        assert!(
            events[0].revision > self.seen,
            "what was seen is not repeated, and a commit is not cut in two"
        );
        for event in events {
            assert!(event.revision >= self.seen, "in order");
            self.seen = event.revision;
            let key = event.key().to_owned();
            assert!(key.starts_with(&self.prefix), "{key} does not lie under {}", self.prefix);
            let before = match &event.entry {
                Some(entry) => {
                    assert_eq!(entry.modified, event.revision);
                    self.state.insert(key, Arc::clone(entry))
                }
                None => self.state.remove(&key),
            };
            assert_eq!(event.previous, before, "what was there before");
            assert!(event.previous.is_some() || event.entry.is_some());
        }
    }
}

/// Watches from every past revision, over several prefixes, return each change once and in order, before and after they
/// catch up, and know their revision.
pub async fn watches_from_revisions<S: Store>(store: &Arc<S>) {
    let mut states = filled(store, 80).await;
    let past: Vec<_> = states.clone().into_iter().collect();
    let mut watches = Vec::new();
    for (revision, state) in &past {
        for prefix in ["", "/a/", "/a", "/b/3"] {
            let watch = store.watch(prefix, *revision).await.unwrap();
            watches.push((watch, Follower::new(prefix, *revision, state)));
        }
    }
    let mut dice = Dice(23);
    let mut state = states.pop_last().unwrap().1;
    for _ in 0..20 {
        let writes = dice.writes();
        let done = commit(store, writes.clone()).await;
        apply(&mut state, &writes, &done);
    }
    // The last change of every prefix, by which a watch knows that it is through.
    let done = commit(store, [put("/a/last", Expect::Absent, ""), put("/b/3last", Expect::Absent, "")]).await;
    for (mut watch, mut follower) in watches {
        while follower.seen < done.revision {
            let events = watch.next().await.unwrap();
            follower.take(&events);
            assert!(watch.revision() >= follower.seen, "a watch has come as far as its events");
        }
        let due = Follower::new(&follower.prefix, done.revision, &state).state;
        let due = due.into_iter().map(|(key, entry)| (key, entry.value.clone()));
        let mut found: BTreeMap<_, _> =
            follower.state.into_iter().map(|(key, entry)| (key, entry.value.clone())).collect();
        found.retain(|key, _| !key.ends_with("last"));
        assert_eq!(found, due.collect());
    }
    let ahead = Revision(store.revision().0 + 1_000_000);
    let answer = store.watch("", ahead).await.err();
    assert!(matches!(answer, Some(StoreError::Future { asked, .. }) if asked == ahead), "{answer:?}");
}

/// Watches that are interrupted at any moment and resumed at their revision miss and repeat nothing, with several writers.
pub async fn watches_resume_under_writers<S: Store>(store: &Arc<S>) {
    const WRITERS: u64 = 4;
    let start = store.revision();
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(store);
        tasks.push(tokio::task::spawn_blocking(move || {
            tokio::runtime::Handle::current().block_on(async {
                let mut dice = Dice(writer);
                for _ in 0..60 {
                    commit(&store, dice.writes()).await;
                }
            });
        }));
    }
    let ends = async {
        for task in tasks {
            task.await.unwrap();
        }
        commit(store, [put("/a/end", Expect::Absent, ""), put("/b/end", Expect::Absent, "")]).await.revision
    };
    let follow = async |prefix: &str, patience: usize| {
        let mut follower = Follower::new(prefix, start, &State::new());
        let mut reached = start;
        loop {
            let mut watch = store.watch(prefix, reached).await.unwrap();
            for _ in 0..patience {
                let events = watch.next().await.unwrap();
                follower.take(&events);
                assert!(watch.revision() >= follower.seen);
                reached = watch.revision();
                if events.iter().any(|event| event.key().ends_with("/end")) {
                    return follower;
                }
            }
        }
    };
    let (end, every, some, rare) =
        tokio::join!(ends, follow("", 1), follow("/a/", 3), follow("/b/", usize::MAX));
    for follower in [every, some, rare] {
        assert_eq!(follower.seen, end);
        let list = List { prefix: follower.prefix.as_str().into(), ..List::default() };
        let due = store.list(&list).await.unwrap().entries;
        assert_eq!(follower.state.into_values().collect::<Vec<_>>(), due);
    }
}

/// All changes of a commit come together, and dropping a waiting future loses none.
pub async fn watches_see_whole_commits<S: Store>(store: &Arc<S>) {
    let start = store.revision();
    let mut watch = store.watch("/a/", start).await.unwrap();
    let mut late = store.watch("/a/", start).await.unwrap();
    for round in 0..5 {
        let nothing = std::future::ready(());
        tokio::select! {
            biased;
            events = watch.next() => panic!("nothing has changed: {events:?}"),
            () = nothing => {}
        }
        let all: Vec<_> = (0..20).map(|key| put(&format!("/a/{key:02}"), Expect::Anything, "x")).collect();
        let done = commit(store, all.into_iter().chain([put("/b", Expect::Anything, "x")])).await;
        let events = watch.next().await.unwrap();
        assert_eq!(events.len(), 20, "round {round}");
        assert!(events.iter().all(|event| event.revision == done.revision));
    }
    let mut count = 0;
    while count < 100 {
        let events = late.next().await.unwrap();
        let last = events.last().unwrap().revision;
        assert_eq!(events.iter().filter(|event| event.revision == last).count(), 20, "the last is whole");
        count += events.len();
    }
    assert_eq!(count, 100);
}

/// Compacted revisions are refused with the oldest that is held; the others stay.
pub async fn compaction<S: Store>(store: &Arc<S>) {
    let states = filled(store, 60).await;
    let all: Vec<_> = states.iter().collect();
    let (floor, _) = all[all.len() / 2];
    let newest = store.revision();
    store.compact(*floor).await.unwrap();
    store.compact(*all[3].0).await.expect("compacting again what is compacted");
    for (at, state) in &all {
        let list = List { at: Some(**at), ..List::default() };
        let listing = store.list(&list).await;
        let watch = store.watch("", **at).await;
        if *at < floor {
            let Err(StoreError::Compacted { asked, oldest }) = listing else { panic!("{listing:?}") };
            assert_eq!((asked, oldest), (**at, *floor));
            assert!(matches!(watch.err(), Some(StoreError::Compacted { .. })));
            continue;
        }
        assert_eq!(listing.unwrap().entries, state.values().cloned().collect::<Vec<_>>());
        let mut watch = watch.unwrap();
        let mut follower = Follower::new("", **at, state);
        while follower.seen < newest {
            follower.take(&watch.next().await.unwrap());
        }
        assert_eq!(&follower.state, all[all.len() - 1].1);
    }
    let ahead = Revision(newest.0 + 1_000_000);
    assert!(matches!(store.compact(ahead).await, Err(StoreError::Future { .. })));
    store.compact(newest).await.unwrap();
    let listed = store.list(&List::default()).await.unwrap().revision;
    assert!(listed >= newest);
    let listing = store.list(&List::default()).await.unwrap();
    assert_eq!(listing.entries, all[all.len() - 1].1.values().cloned().collect::<Vec<_>>());
    let mut watch = store.watch("", newest).await.unwrap();
    let done = commit(store, [put("/after", Expect::Absent, "")]).await;
    assert_eq!(watch.next().await.unwrap()[0].revision, done.revision);
}
