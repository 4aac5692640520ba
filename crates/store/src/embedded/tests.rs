//! What cannot be seen from outside alone: failing disks, shared flushes, the limits of history, who is told when.

use std::borrow::Cow;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use portcullis_testkit::mutate::dice;
use portcullis_testkit::scratch::Scratch;

use super::backend::{Faults, Step};
use super::*;
use crate::{
    Amender, Current, Event, Expect, Observer, Opened, Revision, StoreError, TransformError, Value, Watch,
};

fn put(key: &str, value: &str) -> Write {
    let value = Value { bytes: Bytes::copy_from_slice(value.as_bytes()), revision_at: None, relies_on: None };
    Write { key: key.into(), expect: Expect::Anything, value: Some(value) }
}

fn remove(key: &str) -> Write {
    Write { key: key.into(), expect: Expect::Anything, value: None }
}

async fn all(store: &Embedded) -> Vec<Arc<Entry>> {
    store.list(&List::default()).await.unwrap().entries
}

fn with_faults(path: &Path) -> (Embedded, Faults) {
    let faults = Faults::default();
    let options = Options { faults: faults.clone(), ..Options::file(path) };
    (options.open().unwrap(), faults)
}

/// Asks a future once.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets each step of the disk fail at each of its first turns. Nothing of a refused commit may be seen, at once or
/// later; what was acknowledged stays, and writes go on when the disk does.
#[tokio::test]
async fn a_failing_disk_refuses_whole_commits_and_recovers() {
    let mut refusals = 0;
    for step in [Step::Grow, Step::Write, Step::Flush] {
        for after in (0..12).chain([15, 20, 30, 50]) {
            let folder = Scratch::new();
            let path = folder.path().join("store");
            let (store, faults) = with_faults(&path);
            for number in 0..5 {
                store.commit(vec![put(&format!("/{number}"), "before")]).await.unwrap();
            }
            let mut watch = store.watch("", store.revision()).await.unwrap();
            faults.order(step, after);
            let mut due = all(&store).await;
            let mut revision = store.revision();
            let large = "x".repeat(200_000);
            for number in 0..6 {
                let value = format!("{number}{large}");
                let writes = vec![put("/a", &value), put("/b", &value), remove(&format!("/{number}"))];
                match store.commit(writes).await {
                    Ok(done) => {
                        assert_eq!(done.revision, Revision(revision.0 + 1));
                        revision = done.revision;
                        due = all(&store).await;
                        let values: Vec<_> = due.iter().filter(|entry| entry.value == value).collect();
                        assert_eq!(values.len(), 2, "{step:?} {after}: a whole commit");
                        assert_eq!(watch.next().await.unwrap()[0].revision, revision);
                    }
                    Err(StoreError::Broken(message)) => {
                        refusals += 1;
                        assert!(message.contains(path.to_str().unwrap()), "{message}");
                    }
                    Err(other) => panic!("{other}"),
                }
                assert_eq!(all(&store).await, due, "{step:?} {after}: nothing of a refused commit");
                assert_eq!(store.revision(), revision);
            }
            faults.lift();
            let done = store.commit(vec![put("/after", "1")]).await.expect("the disk works again");
            assert_eq!(done.revision, Revision(revision.0 + 1));
            assert_eq!(watch.next().await.unwrap().len(), 1, "no event of a refused commit");
            let due = all(&store).await;
            drop(store);
            let store = Options::file(&path).open().unwrap();
            assert_eq!(store.revision(), done.revision);
            assert_eq!(all(&store).await, due, "{step:?} {after}: as it was acknowledged");
        }
    }
    assert!(refusals > 50, "{refusals} refusals are too few to say anything");
}

/// After a failed flush the file may lack what the system's memory of it shows: it must be written anew.
#[tokio::test]
async fn a_failed_flush_is_not_trusted_again() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let (store, faults) = with_faults(&path);
    store.commit(vec![put("/a", "1")]).await.unwrap();
    let inode = |metadata: std::fs::Metadata| std::os::unix::fs::MetadataExt::ino(&metadata);
    // In a commit, and while the file is opened again after a write has failed.
    for steps in [&[Step::Flush][..], &[Step::Write, Step::Flush]] {
        // Held open, so that its number is not given to another.
        let file = std::fs::File::open(&path).unwrap();
        for step in steps {
            faults.order(*step, 0);
            store.commit(vec![put("/a", "2")]).await.unwrap_err();
            assert!(faults.lift());
        }
        store.commit(vec![put("/b", "3")]).await.unwrap();
        assert_ne!(inode(file.metadata().unwrap()), inode(std::fs::metadata(&path).unwrap()), "a new file");
    }
    drop(store);
    let store = Options::file(&path).open().unwrap();
    let found: Vec<_> = all(&store).await.iter().map(|entry| entry.value.clone()).collect();
    assert_eq!(found, ["1", "3"]);
}

/// While the disk is held up nothing is answered and nothing is seen; then one flush serves all that waited, each
/// commit with a revision of its own, decided in the order of asking.
#[tokio::test]
async fn commits_that_wait_share_a_flush_and_none_is_answered_before_it() {
    let folder = Scratch::new();
    let (store, faults) = with_faults(&folder.path().join("store"));
    store.commit(vec![put("/first", "")]).await.unwrap();
    let before = faults.0.lock().unwrap().flushes;
    let expecting = |revision| Write { expect: Expect::Modified(Revision(revision)), ..put("/chain", "x") };
    let mut waiting: Vec<_> = (0..100)
        .map(|number| {
            let mut writes = vec![put(&format!("/{number}"), "")];
            match number {
                1 => writes.push(Write { expect: Expect::Absent, ..put("/chain", "x") }),
                2 => writes.push(expecting(4)),
                3 => writes.push(Write { expect: Expect::Absent, ..put("/chain", "x") }),
                _ => {}
            }
            Box::pin(store.commit(writes))
        })
        .collect();
    {
        let _held_up = faults.0.lock().unwrap();
        for _ in 0..2 {
            for commit in &mut waiting {
                assert!(poll(commit).is_pending(), "no answer before the flush");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(store.revision(), Revision(2));
        assert_eq!(store.memory.all().unwrap().entries.len(), 1, "nothing is seen before the flush");
    }
    let mut revision = 2;
    for (number, commit) in waiting.into_iter().enumerate() {
        let answer = commit.await;
        if number == 3 {
            let Err(StoreError::Conflict { key, current }) = answer else { panic!("{answer:?}") };
            assert_eq!((&*key, current.unwrap().modified), ("/chain", Revision(5)), "the commit just before");
            continue;
        }
        revision += 1;
        assert_eq!(answer.unwrap().revision, Revision(revision), "commit {number}");
    }
    let flushes = faults.0.lock().unwrap().flushes - before;
    assert!(flushes <= 2, "one round under way, one for all that waited: {flushes}");
}

/// A conflict with a commit whose flush then fails is no conflict.
#[tokio::test]
async fn a_conflict_with_what_was_never_written_is_not_reported() {
    let folder = Scratch::new();
    let (store, faults) = with_faults(&folder.path().join("store"));
    store.commit(vec![put("/first", "")]).await.unwrap();
    faults.order(Step::Flush, 0);
    let create = |key: &str| vec![Write { expect: Expect::Absent, ..put(key, "") }];
    let commits = [create("/other"), create("/a"), create("/a")];
    let mut waiting: Vec<_> = commits.map(|writes| Box::pin(store.commit(writes))).into();
    {
        let _held_up = faults.0.lock().unwrap();
        for commit in &mut waiting {
            assert!(poll(commit).is_pending());
        }
    }
    for commit in waiting {
        let answer = commit.await;
        assert!(matches!(answer, Err(StoreError::Broken(_))), "{answer:?}");
    }
    faults.lift();
    store.commit(create("/a")).await.unwrap();
}

#[derive(Default)]
struct Notes {
    revisions: Mutex<Vec<u64>>,
    seen: AtomicUsize,
}

impl Observer for Notes {
    fn committed(&self, events: &[Event]) {
        assert!(events.iter().all(|event| event.revision == events[0].revision), "one commit at a time");
        self.revisions.lock().unwrap().push(events[0].revision.0);
        self.seen.fetch_add(events.len(), Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observers_are_told_of_each_commit_in_order_before_its_writer_is() {
    let notes = [Arc::new(Notes::default()), Arc::new(Notes::default())];
    let options = notes.iter().fold(Options::memory(), |options, notes| options.observer(notes.clone()));
    let store = Arc::new(options.open().unwrap());
    let tasks: Vec<_> = (0..8)
        .map(|writer| {
            let (store, notes) = (Arc::clone(&store), notes.clone());
            tokio::spawn(async move {
                for number in 0..50 {
                    let writes = vec![put(&format!("/{writer}"), &number.to_string()), remove("/nothing")];
                    let done = store.commit(writes).await.unwrap();
                    for notes in &notes {
                        assert!(notes.revisions.lock().unwrap().contains(&done.revision.0));
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for notes in &notes {
        assert_eq!(*notes.revisions.lock().unwrap(), (2..=401).collect::<Vec<u64>>());
        assert_eq!(notes.seen.load(Ordering::SeqCst), 400, "what changes nothing is no event");
    }
}

/// Notes each removal below `/watched` under a key of its own.
struct Undertaker;

impl Amender for Undertaker {
    fn amend(&self, writes: &[Write], current: Current<'_>) -> Vec<Write> {
        let removed = |write: &&Write| write.key.starts_with("/watched") && write.value.is_none();
        let lost = writes.iter().filter(removed).filter(|write| current(&write.key).is_some());
        lost.map(|write| put(&format!("/grave{}", write.key), "gone")).collect()
    }
}

#[tokio::test]
async fn what_an_amender_adds_is_written_with_the_commit_or_not_at_all() {
    let notes = Arc::new(Notes::default());
    let options = Options::memory().observer(notes.clone()).amender(Arc::new(Undertaker));
    let store = options.open().unwrap();
    store.commit(vec![put("/watched/a", "1"), put("/other", "1")]).await.unwrap();
    let read = async |key: &str| store.get(key).await.unwrap();
    assert!(read("/grave/watched/a").await.is_none());
    // A conflicting write is not amended, and adds nothing.
    let stale = Write { expect: Expect::Modified(Revision(1)), ..remove("/watched/a") };
    assert!(matches!(store.commit(vec![stale]).await, Err(StoreError::Conflict { .. })));
    // A key that never existed is not reported as lost.
    store.commit(vec![remove("/watched/b"), remove("/other")]).await.unwrap();
    assert!(read("/grave/watched/b").await.is_none());
    let before = store.revision();
    let done = store.commit(vec![remove("/watched/a")]).await.unwrap();
    assert_eq!(done.entries.len(), 1, "the writer is told of its own writes");
    let grave = read("/grave/watched/a").await.unwrap();
    assert_eq!((done.revision, grave.modified), (Revision(before.0 + 1), done.revision), "one commit");
    assert_eq!(notes.revisions.lock().unwrap().last(), Some(&done.revision.0));
    // A commit that cannot have both has neither: the grave is taken in it already.
    store.commit(vec![put("/watched/a", "2")]).await.unwrap();
    let twice = vec![remove("/watched/a"), put("/grave/watched/a", "mine")];
    assert!(matches!(store.commit(twice).await, Err(StoreError::Refused(_))));
    assert!(read("/watched/a").await.is_some());
}

struct Stumbles;

impl Observer for Stumbles {
    fn committed(&self, _: &[Event]) {
        panic!("an observer comes to grief");
    }
}

#[tokio::test]
async fn a_writer_that_comes_to_grief_answers_and_ends_watches() {
    let store = Options::memory().observer(Arc::new(Stumbles)).open().unwrap();
    let mut watch = store.watch("/none", store.revision()).await.unwrap();
    let answer = store.commit(vec![put("/a", "1")]).await;
    assert!(matches!(answer, Err(StoreError::Broken(_))), "{answer:?}");
    let answer = store.commit(vec![put("/a", "2")]).await;
    assert!(matches!(answer, Err(StoreError::Broken(_))), "{answer:?}");
    assert!(matches!(watch.next().await, Err(StoreError::Broken(_))));
}

#[tokio::test]
async fn a_watch_ends_with_the_store_after_what_there_was() {
    let store = Options::memory().open().unwrap();
    let mut watch = store.watch("/", store.revision()).await.unwrap();
    store.commit(vec![put("/a", "1")]).await.unwrap();
    drop(store);
    assert_eq!(watch.next().await.unwrap().len(), 1);
    assert!(matches!(watch.next().await, Err(StoreError::Broken(_))));
}

/// Each limit alone bounds the past; what lies within it can be listed and watched.
#[tokio::test]
async fn history_is_bounded_by_count_and_by_size() {
    let wide = History { commits: usize::MAX, bytes: usize::MAX, age: Duration::MAX };
    for history in [History { commits: 10, ..wide }, History { bytes: 10 * 7, ..wide }] {
        let store = Options::memory().history(history).open().unwrap();
        for number in 0..100 {
            store.commit(vec![put("/a", &format!("value{:02}", number % 100))]).await.unwrap();
        }
        // Answers come before what is too old is forgotten; another question comes after.
        store.compact(Revision(0)).await.unwrap();
        let newest = store.revision();
        let oldest = Revision(newest.0 - 10);
        let list = |at| List { at: Some(at), ..List::default() };
        assert_eq!(store.list(&list(oldest)).await.unwrap().entries[0].value, "value89");
        let mut watch = store.watch("", oldest).await.unwrap();
        assert_eq!(watch.next().await.unwrap().len(), 10);
        let older = Revision(oldest.0 - 1);
        let listing = store.list(&list(older)).await;
        assert!(
            matches!(listing, Err(StoreError::Compacted { oldest: held, .. }) if held == oldest),
            "{listing:?}"
        );
        assert!(matches!(store.watch("", older).await.err(), Some(StoreError::Compacted { .. })));
    }
}

#[tokio::test]
async fn history_is_bounded_by_age_while_nothing_happens() {
    let history = History { age: Duration::from_millis(20), ..History::default() };
    let store = Options::memory().history(history).open().unwrap();
    for key in ["/a", "/b", "/a"] {
        store.commit(vec![put(key, "1")]).await.unwrap();
    }
    store.commit(vec![remove("/b")]).await.unwrap();
    let newest = store.revision();
    while store.watch("", Revision(newest.0 - 1)).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(store.watch("", newest).await.is_ok());
    while store.memory.versions() > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(all(&store).await.len(), 1);
}

/// A watch that does not keep up costs nothing but its place: others go on, and it is told.
#[tokio::test]
async fn a_slow_watch_is_told_that_it_has_lost_changes() {
    let history = History { commits: 50, ..History::default() };
    let store = Options::memory().history(history).open().unwrap();
    let start = store.revision();
    let mut slow = store.watch("/a/", start).await.unwrap();
    let mut quick = store.watch("/a/", start).await.unwrap();
    let mut idle = store.watch("/b/", start).await.unwrap();
    for number in 0..200 {
        store.commit(vec![put(&format!("/a/{}", number % 7), "1")]).await.unwrap();
        assert_eq!(quick.next().await.unwrap().len(), 1);
    }
    store.compact(Revision(0)).await.unwrap();
    let answer = slow.next().await;
    assert!(matches!(answer, Err(StoreError::Compacted { .. })), "{answer:?}");
    assert_eq!(slow.revision(), start, "it has come nowhere");
    assert_eq!(idle.revision(), store.revision(), "nothing was lost where nothing has changed");
    store.commit(vec![put("/b/1", "1")]).await.unwrap();
    assert_eq!(idle.next().await.unwrap().len(), 1);
}

/// Whoever listed at a revision can watch from it, though others start and stop watching the same prefix.
#[tokio::test]
async fn watches_of_one_prefix_begin_where_each_asks() {
    let store = Options::memory().open().unwrap();
    let mut watches = vec![(Revision(1), store.watch("/a/", Revision(0)).await.unwrap())];
    let mut first = store.watch("/a/", Revision(0)).await.unwrap();
    assert_eq!(first.revision(), Revision(1));
    for number in 0..30_u64 {
        store.commit(vec![put(&format!("/a/{number}"), ""), put("/b", "")]).await.unwrap();
        for after in [1, number / 2 + 1, number + 2] {
            watches.push((Revision(after), store.watch("/a/", Revision(after)).await.unwrap()));
        }
        if number % 5 == 4 {
            watches.remove(0);
        }
        if number % 11 == 10 {
            watches.clear();
        }
    }
    let done = store.commit(vec![put("/a/last", "")]).await.unwrap();
    assert_eq!(first.next().await.unwrap().len(), 31, "a new store is known from its beginning on");
    for (after, mut watch) in watches {
        let mut next = after.0 + 1;
        while next <= done.revision.0 {
            for event in watch.next().await.unwrap() {
                assert_eq!(event.revision, Revision(next));
                next += 1;
            }
        }
    }
}

/// A list whose revision is overtaken by compaction while it is read starts again, rather than fail.
#[tokio::test]
async fn a_long_list_survives_many_writes_and_a_short_history() {
    let store = Options::memory().history(History { commits: 1, ..History::default() }).open().unwrap();
    for start in (0..20_000).step_by(1_000) {
        let writes = (start..start + 1_000).map(|number| put(&format!("/{number:05}"), "0")).collect();
        store.commit(writes).await.unwrap();
    }
    let store = Arc::new(store);
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for number in 0..2_000 {
                let value = number.to_string();
                store.commit(vec![put("/00000", &value), put("/19999", &value)]).await.unwrap();
            }
        }
    });
    while !writer.is_finished() {
        let listing = store.list(&List::default()).await.unwrap();
        assert_eq!(listing.entries.len(), 20_000);
        assert_eq!(listing.entries[0].value, listing.entries[19_999].value, "one revision");
    }
    writer.await.unwrap();
}

/// Watching a part is watching all of it and passing over what was not in the part and is not.
#[tokio::test]
async fn a_watch_of_a_part_sees_what_concerns_the_part_and_nothing_else() {
    fn first_letter(entry: &Entry) -> Option<Box<str>> {
        let first = *entry.value.first()?;
        (first != b'-').then(|| char::from(first).to_string().into())
    }
    let store = Options::memory().parts(first_letter).open().unwrap();
    let parts = ["a", "b", "c"];
    let values = ["a1", "a2", "b1", "c1", "-", ""];
    let mut watches = Vec::new();
    let mut truth = Vec::new();
    let mut all = store.watch("/x/", store.revision()).await.unwrap();
    for round in 0..400_usize {
        if round % 40 == 7 {
            for part in parts {
                // Some from now on, some from the past.
                for after in [store.revision(), Revision(1 + store.revision().0 / 2)] {
                    watches.push((part, after, store.watch_part("/x/", part, after).await.unwrap()));
                }
            }
        }
        if round % 90 == 89 {
            watches.drain(..watches.len() / 2);
        }
        let key = |step: usize| format!("/{}/{}", ["x", "y"][(round / step) % 2], round * step % 5);
        let mut writes = vec![put(&key(3), values[round * 7 % values.len()])];
        if key(5) != key(3) {
            writes.push(Write { key: key(5).into(), expect: Expect::Anything, value: None });
        }
        store.commit(writes).await.unwrap();
    }
    let end =
        store.commit(parts.iter().map(|part| put(&format!("/x/end-{part}"), part)).collect()).await.unwrap();
    while all.revision() < end.revision
        || truth.last().is_none_or(|event: &Event| event.revision < end.revision)
    {
        truth.extend(all.next().await.unwrap());
    }
    assert!(watches.len() > 10);
    for (part, after, mut watch) in watches {
        let concerns = |entry: &Option<Arc<Entry>>| {
            entry.as_ref().and_then(|entry| first_letter(entry)).as_deref() == Some(part)
        };
        let wanted: Vec<_> = truth
            .iter()
            .filter(|event| event.revision > after && (concerns(&event.previous) || concerns(&event.entry)))
            .map(|event| (event.revision, event.key().to_owned()))
            .collect();
        let mut seen = Vec::new();
        while seen.len() < wanted.len() {
            let events = watch.next().await.unwrap();
            seen.extend(events.iter().map(|event| (event.revision, event.key().to_owned())));
        }
        assert_eq!(seen, wanted, "{part} after {after:?}");
    }
}

/// Listing a part is listing all of it and passing over what is not in the part, at every revision that is held.
#[tokio::test]
async fn a_list_of_a_part_holds_the_part_and_nothing_else() {
    let first_letter = |entry: &Entry| {
        let letter = std::str::from_utf8(entry.value.get(..1)?).ok()?;
        (letter != "-").then(|| letter.into())
    };
    let store = Options::memory().parts(first_letter).open().unwrap();
    let mut seed = 7;
    let mut roll = |sides: u64| {
        seed = dice(seed);
        seed % sides
    };
    let letters = ["a", "b", "-"];
    for round in 0..400_u64 {
        let key = format!("/x/{}", roll(12));
        let write = match roll(4) {
            0 => Write { key: key.as_str().into(), expect: Expect::Anything, value: None },
            _ => put(&key, &format!("{}{round}", letters[roll(3) as usize])),
        };
        store.commit(vec![write, put("/y/1", "a")]).await.unwrap();
        if round % 50 == 49 {
            store.compact(Revision(store.revision().0 - 20)).await.unwrap();
        }
        let newest = store.revision();
        let at = Revision(newest.0 - roll(10).min(newest.0 - 1));
        for part in ["a", "b", "c"] {
            for limit in [0, 2] {
                let of_part = List {
                    prefix: "/x/".into(),
                    part: Some(part.into()),
                    after: (roll(3) == 0).then(|| "/x/3".into()),
                    limit,
                    at: (at != newest).then_some(at),
                };
                let all = List { part: None, limit: 0, ..of_part.clone() };
                let mut due = store.list(&all).await.unwrap();
                due.entries.retain(|entry| first_letter(entry).as_deref() == Some(part));
                let kept = if limit == 0 { due.entries.len() } else { limit.min(due.entries.len()) };
                let found = store.list(&of_part).await.unwrap();
                assert_eq!(found.entries, due.entries[..kept], "{part} at {at:?}");
                assert_eq!(found.remaining, due.entries.len() - kept);
                assert_eq!(found.revision, due.revision);
            }
        }
    }
}

/// Random commits against a store with a quota: it is never larger than quota and reserve, what it says of its size is true,
/// and it refuses only what adds to it.
#[tokio::test]
async fn a_full_store_refuses_what_adds_to_it_and_nothing_else() {
    const QUOTA: u64 = 64 * 1024;
    let mut seed = 7;
    let mut dice = |below: u64| {
        seed = dice(seed);
        usize::try_from(seed % below).unwrap()
    };
    let store = Options::memory().quota(QUOTA).open().unwrap();
    let mut sizes = std::collections::BTreeMap::<String, u64>::new();
    let (mut refusals, mut reserved) = (0, 0);
    for _ in 0..20_000 {
        let key = format!("/{:03}", dice(200));
        let length = if dice(2) == 0 { dice(2_000) } else { 500 + dice(20) };
        let is_removal = dice(10) == 0;
        let write = if is_removal { remove(&key) } else { put(&key, &"x".repeat(length)) };
        let old = sizes.get(&key).copied();
        let new = if is_removal { 0 } else { (key.len() + length) as u64 };
        let before: u64 = sizes.values().sum();
        assert_eq!(store.size(), before);
        let after = before - old.unwrap_or_default() + new;
        let grows = new > old.unwrap_or_default();
        let is_small = old.is_some_and(|old| new <= old + 1024);
        let fits = after <= QUOTA || is_small && after <= QUOTA + QUOTA / 16;
        match store.commit(vec![write.clone()]).await {
            Ok(_) => {
                assert!(!grows || fits, "{before} and {old:?} become {new}");
                reserved += usize::from(grows && after > QUOTA);
            }
            Err(StoreError::Full { size, quota }) => {
                assert!(grows && !fits, "{before} and {old:?} become {new}");
                assert_eq!((size, quota), (before, QUOTA));
                refusals += 1;
                assert_eq!(store.refused(), refusals);
                if dice(50) > 0 {
                    continue;
                }
                store.commit_beyond_quota(vec![write]).await.unwrap();
            }
            Err(other) => panic!("{other}"),
        }
        match is_removal {
            true => sizes.remove(&key),
            false => sizes.insert(key, new),
        };
    }
    assert!(refusals > 100 && reserved > 10, "{refusals} refusals, {reserved} from the reserve");
}

#[tokio::test]
async fn a_store_that_is_larger_than_its_quota_opens_and_can_be_emptied() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let text = "x".repeat(1000);
    let store = Options::file(&path).open().unwrap();
    for number in 0..10 {
        store.commit(vec![put(&format!("/{number}"), &text)]).await.unwrap();
    }
    let size = store.size();
    drop(store);
    let store = Options::file(&path).quota(5000).open().unwrap();
    assert_eq!(store.size(), size);
    let refused = store.commit(vec![put("/more", "x")]).await;
    assert!(matches!(refused, Err(StoreError::Full { .. })), "{refused:?}");
    for number in 0..6 {
        store.commit(vec![remove(&format!("/{number}"))]).await.unwrap();
    }
    store.commit(vec![put("/more", "x")]).await.unwrap();
    assert_eq!(store.size(), 4 * 1002 + 6);
}

/// A transformer that cannot read the value of one key.
struct LacksKey(&'static str);

impl Transformer for LacksKey {
    fn seal<'v>(&self, _: &str, value: &'v [u8]) -> Result<Cow<'v, [u8]>, TransformError> {
        Ok(Cow::Borrowed(value))
    }

    fn open<'v>(&self, key: &str, sealed: &'v [u8]) -> Result<Opened<'v>, TransformError> {
        match key == self.0 {
            true => Err(TransformError { key: key.into(), problem: "cannot be read".to_owned() }),
            false => Ok(Opened { value: Cow::Borrowed(sealed), is_stale: false }),
        }
    }
}

/// More entries than go from one thread to the other at once, and more than may wait between them.
#[tokio::test]
async fn many_entries_are_read_in_order_and_with_their_parts() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let options =
        || Options::file(&path).parts(|entry| entry.key.rsplit_once('-').map(|(_, part)| part.into()));
    let store = options().open().unwrap();
    let writes = (0..10_001).map(|number| put(&format!("/{number:05}-{}", number % 7), &number.to_string()));
    store.commit(writes.collect()).await.unwrap();
    let before = all(&store).await;
    drop(store);
    let store = options().open().unwrap();
    assert_eq!(all(&store).await, before);
    let of_part = List { part: Some("3".into()), ..List::default() };
    let found = store.list(&of_part).await.unwrap().entries;
    assert_eq!(found.len(), 1_429);
    assert!(found.iter().all(|entry| entry.key.ends_with("-3")));
    drop(store);
    // Of the first batch, and of one for which the reading thread has to wait.
    for key in ["/00002-2", "/09000-5"] {
        let refused = options().transformer(Arc::new(LacksKey(key))).open().err().unwrap().to_string();
        assert!(refused.contains(key) && refused.contains("cannot be read"), "{refused}");
    }
    assert_eq!(all(&options().open().unwrap()).await, before);
}
