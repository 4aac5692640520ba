//! The file of a store: what survives, who may read it, and what is said about a file that cannot be used.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use portcullis_store::embedded::{NewFile, Reader};
use portcullis_store::encryption::Encryption;
use portcullis_store::{
    Embedded, Entry, Expect, List, Options, Revision, Store, StoreError, Value, Watch, Write,
};
use portcullis_testkit::scratch::Scratch;

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

/// Why a file is not opened.
fn refusal(path: &Path) -> String {
    match Options::file(path).open() {
        Err(StoreError::Broken(message)) => message,
        other => panic!("a refusal is due: {other:?}"),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The state at each revision from one on.
async fn states(store: &Embedded, first: Revision) -> Vec<Vec<Arc<Entry>>> {
    let mut states = Vec::new();
    for at in first.0..=store.revision().0 {
        let list = List { at: Some(Revision(at)), ..List::default() };
        states.push(store.list(&list).await.unwrap().entries);
    }
    states
}

/// A revision with a key, and whether the key had a value before and after it.
type Change = (Revision, String, bool, bool);

/// The changes after a revision, up to another.
async fn changes(store: &Embedded, after: Revision, last: Revision) -> Vec<Change> {
    let mut watch = store.watch("", after).await.unwrap();
    let mut changes: Vec<Change> = Vec::new();
    while changes.last().is_none_or(|(revision, ..)| *revision < last) {
        changes.extend(watch.next().await.unwrap().into_iter().map(|event| {
            (event.revision, event.key().to_owned(), event.previous.is_some(), event.entry.is_some())
        }));
    }
    changes
}

#[tokio::test]
async fn state_revision_and_history_survive_a_restart() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let store = Options::file(&path).open().unwrap();
    store.commit(vec![put("/a", "1"), put("/b", "2")]).await.unwrap();
    store.commit(vec![put("/a", "3")]).await.unwrap();
    let marked = Value { bytes: Bytes::from_static(b"[]"), revision_at: Some(1), relies_on: None };
    store
        .commit(vec![Write { key: "/r".into(), expect: Expect::Absent, value: Some(marked) }])
        .await
        .unwrap();
    let last = store.commit(vec![remove("/b")]).await.unwrap().revision;
    let before = all(&store).await;
    assert_eq!(before.len(), 2);
    let first = Revision(last.0 - 4);
    let states = states(&store, first).await;
    let changes = changes(&store, first, last).await;
    assert_eq!(changes.len(), 5);
    let copy = folder.path().join("copy");
    store.backup(&copy).unwrap();
    drop(store);

    // A copy made of a running store has no history, like the file after a crash.
    let store = Options::file(&copy).open().unwrap();
    let old = Revision(last.0 - 1);
    let listing = store.list(&List { at: Some(old), ..List::default() }).await;
    assert!(matches!(listing, Err(StoreError::Compacted { oldest, .. }) if oldest == last));
    assert!(matches!(store.watch("", old).await.err(), Some(StoreError::Compacted { .. })));
    drop(store);

    for restart in 0..2 {
        let store = Options::file(&path).open().unwrap();
        assert_eq!(store.revision(), last, "also where the newest change was a removal");
        assert_eq!(all(&store).await, before);
        assert_eq!(self::states(&store, first).await, states, "restart {restart}");
        assert_eq!(self::changes(&store, first, last).await, changes, "restart {restart}");
    }
    let store = Options::file(&path).open().unwrap();
    let mut watch = store.watch("", last).await.unwrap();
    let next = store.commit(vec![put("/a", "4")]).await.unwrap();
    assert_eq!(next.revision, Revision(last.0 + 1));
    let event = watch.next().await.unwrap().remove(0);
    assert_eq!(event.previous.unwrap(), before[0], "what was there before the restart");
    assert_eq!(event.entry.unwrap().created, before[0].created);
}

#[tokio::test]
async fn only_the_owner_may_read() {
    let folder = Scratch::new();
    let path = folder.path().join("new/deep/store");
    let store = Options::file(&path).open().unwrap();
    store.commit(vec![put("/a", "1")]).await.unwrap();
    store.backup(&folder.path().join("copy")).unwrap();
    assert_eq!(mode(&folder.path().join("new")), 0o700);
    assert_eq!(mode(&folder.path().join("new/deep")), 0o700);
    for file in fs::read_dir(folder.path().join("new/deep")).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    assert_eq!(mode(&folder.path().join("copy")), 0o600);
    drop(store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let _store = Options::file(&path).open().unwrap();
    assert_eq!(mode(&path), 0o600, "a file that others could read is closed to them");
}

#[test]
fn a_store_that_is_in_use_is_not_opened_again() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let store = Options::file(&path).open().unwrap();
    let message = refusal(&path);
    assert!(message.contains("in use") && message.contains(path.to_str().unwrap()), "{message}");
    drop(store);
    Options::file(&path).open().unwrap();
}

#[test]
fn files_that_are_no_stores_are_refused_and_stay() {
    let folder = Scratch::new();
    let foreign = folder.path().join("foreign");
    let database = redb::Database::create(&foreign).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(redb::TableDefinition::<u64, u64>::new("numbers")).unwrap().insert(1, 2).unwrap();
    write.commit().unwrap();
    drop(database);
    let long = "apiVersion: v1\n".repeat(1_000);
    for path in [
        folder.write("empty", ""),
        folder.write("short", "x"),
        folder.write("text", &long),
        folder.write("zeros", vec![0; 100_000]),
        foreign.clone(),
    ] {
        let content = fs::read(&path).unwrap();
        let message = refusal(&path);
        assert!(message.contains(path.to_str().unwrap()) && message.contains("; "), "{message}");
        if path != foreign {
            assert_eq!(fs::read(&path).unwrap(), content, "{message}");
        }
    }
    let database = redb::Database::open(&foreign).unwrap();
    let read = redb::ReadableDatabase::begin_read(&database).unwrap();
    let table = read.open_table(redb::TableDefinition::<u64, u64>::new("numbers")).unwrap();
    assert_eq!(table.get(1).unwrap().unwrap().value(), 2, "what another program wrote is still there");

    assert!(refusal(folder.path()).contains("not a file"));
    let below_file = folder.write("file", "").join("store");
    assert!(refusal(&below_file).contains(below_file.to_str().unwrap()));
}

#[test]
fn a_file_of_a_later_format_is_refused() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    drop(Options::file(&path).open().unwrap());
    let database = redb::Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    let about = redb::TableDefinition::<&str, u64>::new("portcullis.about");
    write.open_table(about).unwrap().insert("format", 2).unwrap();
    write.commit().unwrap();
    drop(database);
    let message = refusal(&path);
    assert!(message.contains("format 2"), "{message}");
}

#[tokio::test]
async fn a_store_that_is_gone_or_older_than_what_was_acknowledged_is_refused() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let lock = folder.path().join("store.lock");
    let old = folder.path().join("old");
    let store = Options::file(&path).open().unwrap();
    store.commit(vec![put("/a", "1")]).await.unwrap();
    store.backup(&old).unwrap();
    store.commit(vec![put("/a", "2")]).await.unwrap();
    drop(store);
    fs::remove_file(&path).unwrap();
    assert!(refusal(&path).contains("is gone"));
    fs::copy(&old, &path).unwrap();
    let message = refusal(&path);
    assert!(message.contains("older copy") && message.contains(lock.to_str().unwrap()), "{message}");
    fs::remove_file(&lock).unwrap();
    let store = Options::file(&path).open().unwrap();
    assert_eq!(all(&store).await[0].value, "1", "on purpose it can be had");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_shows_one_revision_while_others_write() {
    let folder = Scratch::new();
    let store = Arc::new(Options::file(folder.path().join("store")).open().unwrap());
    let end = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (store, end) = (Arc::clone(&store), Arc::clone(&end));
        async move {
            for number in 0_u32.. {
                let key = format!("/{}", number % 50);
                let value = number.to_string();
                store
                    .commit(vec![put("/first", &value), put(&key, &value), put("/last", &value)])
                    .await
                    .unwrap();
                if end.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    });
    let mut copies = Vec::new();
    for number in 0..10 {
        let copy = folder.path().join(format!("copy-{number}"));
        let taken = tokio::task::spawn_blocking({
            let (store, copy) = (Arc::clone(&store), copy.clone());
            move || store.backup(&copy).unwrap()
        });
        let revision = taken.await.unwrap();
        let due = store.list(&List { at: Some(revision), ..List::default() }).await.unwrap().entries;
        copies.push((copy, revision, due));
    }
    end.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    for (copy, revision, due) in copies {
        let restored = Options::file(&copy).open().unwrap();
        assert_eq!(restored.revision(), revision);
        assert_eq!(all(&restored).await, due);
    }
    let there = folder.write("there", "something else");
    assert!(matches!(store.backup(&there), Err(StoreError::Broken(_))));
    assert_eq!(fs::read(&there).unwrap(), b"something else");
}

/// A store with some hundred entries, large ones among them, and what it holds.
async fn filled(path: &Path) -> (Embedded, BTreeMap<String, Bytes>) {
    let store = Options::file(path).open().unwrap();
    for number in 0_usize..300 {
        let value = format!("{number}").repeat(1 + (number * number) % 1_500);
        store.commit(vec![put(&format!("/{}", number % 170), &value), put("/newest", &value)]).await.unwrap();
    }
    let entries = all(&store).await;
    (store, entries.iter().map(|entry| (entry.key.to_string(), entry.value.clone())).collect())
}

/// Damages copies of a file in many ways: each must be refused, or show what was there.
async fn damage(image: &[u8], lock: &[u8], due: &BTreeMap<String, Bytes>) -> (usize, usize) {
    let folder = Scratch::new();
    let (mut refused, mut whole) = (0, 0);
    // Most of a file is unused: damage where there is something.
    let used: Vec<usize> = (0..image.len()).filter(|at| image[*at] != 0).collect();
    let mut dice = 1_u64;
    for round in 0..350_usize {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (dice >> 33) as usize;
        let mut damaged = image.to_vec();
        match round % 7 {
            // The header decides what the rest is taken for.
            0 => damaged[round * 320 / 350] ^= 1 << (random % 8),
            1 => damaged.truncate(random % image.len()),
            2 => {
                let start = used[random % used.len()] / 4_096 * 4_096;
                damaged[start..start + 4_096].fill(0);
            }
            3 => {
                let from = used[random % used.len()] / 4_096 * 4_096;
                let to = used[(random / 7) % used.len()] / 4_096 * 4_096;
                damaged.copy_within(from..from + 4_096, to);
            }
            _ => damaged[used[random % used.len()]] ^= 1 << (random % 8),
        }
        let path: PathBuf = folder.write("store", &damaged);
        folder.write("store.lock", lock);
        match Options::file(&path).open() {
            Err(StoreError::Broken(message)) => {
                assert!(message.contains(path.to_str().unwrap()), "{message}");
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
            Ok(store) => {
                let entries = all(&store).await;
                let found: BTreeMap<String, Bytes> =
                    entries.iter().map(|entry| (entry.key.to_string(), entry.value.clone())).collect();
                assert!(found == *due, "round {round}: another value than was written");
                whole += 1;
            }
        }
    }
    (refused, whole)
}

#[tokio::test]
async fn damage_is_refused_or_harmless_and_never_another_value() {
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let lock = folder.path().join("store.lock");
    let (store, due) = filled(&path).await;
    // As a crash would leave it.
    let (open, open_lock) = (fs::read(&path).unwrap(), fs::read(&lock).unwrap());
    drop(store);
    let (closed, closed_lock) = (fs::read(&path).unwrap(), fs::read(&lock).unwrap());
    for (image, lock) in [(open, open_lock), (closed, closed_lock)] {
        let (refused, whole) = damage(&image, &lock, &due).await;
        assert!(refused > 100, "damage is noticed: {refused} refused, {whole} whole");
    }
}

/// The keys and values that a reader shows.
fn read(path: &Path) -> BTreeMap<String, Bytes> {
    let reader = Reader::open(path).unwrap();
    let mut found = BTreeMap::new();
    let mut after: Option<Box<str>> = None;
    loop {
        let page = reader.page(after.as_deref()).unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        found.extend(page.into_iter().map(|record| (record.key.into(), record.sealed)));
    }
    assert_eq!(found.len() as u64, reader.count());
    found
}

#[tokio::test]
async fn a_reader_shows_what_a_store_has_kept_and_changes_nothing() {
    let dir = Scratch::new();
    let path = dir.path().join("store");
    let store = Options::file(&path).open().unwrap();
    for number in 0..1_200 {
        store.commit(vec![put(&format!("/k{number:04}"), &number.to_string())]).await.unwrap();
    }
    store.commit(vec![remove("/k0007")]).await.unwrap();
    let (due, revision) = (all(&store).await, store.revision());
    assert!(Reader::open(&path).unwrap_err().to_string().contains("another process has it open"));
    drop(store);
    let found = read(&path);
    assert_eq!(found.len(), 1_199);
    assert!(due.iter().all(|entry| found.get(&*entry.key) == Some(&entry.value)));
    assert_eq!(Reader::open(&path).unwrap().revision(), revision);
    let store = Options::file(&path).open().unwrap();
    assert_eq!((all(&store).await, store.revision()), (due, revision));
}

#[tokio::test]
async fn a_new_file_is_a_store_and_appears_only_when_it_is_finished() {
    let dir = Scratch::new();
    let path = dir.path().join("folder/store");
    let begin = || NewFile::begin(&path, Arc::new(Encryption::none()));
    let mut unfinished = begin().unwrap();
    unfinished.add("/a", Bytes::from_static(b"lost")).unwrap();
    assert!(begin().unwrap_err().to_string().contains("another process has it open"));
    drop(unfinished);
    let left: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["store.lock"]);
    let mut file = begin().unwrap();
    for number in 0..1_000 {
        file.add(&format!("/k{number:04}"), Bytes::from(number.to_string())).unwrap();
    }
    let revision = file.finish().unwrap();
    assert_eq!((mode(&path), read(&path).len()), (0o600, 1_000));
    let refused = begin().unwrap_err();
    assert!(matches!(&refused, StoreError::Refused(why) if why.contains("it has 1000 entries")), "{refused}");
    let store = Options::file(&path).open().unwrap();
    let entries = all(&store).await;
    assert!(entries.iter().all(|entry| entry.created == revision && entry.modified == revision));
    // A store whose entries were all removed is replaced, at later revisions.
    for entry in &entries {
        store.commit(vec![remove(&entry.key)]).await.unwrap();
    }
    let last = store.revision();
    drop(store);
    let mut file = begin().unwrap();
    file.add("/b", Bytes::from_static(b"new")).unwrap();
    assert!(file.finish().unwrap() > last);
    let store = Options::file(&path).open().unwrap();
    assert_eq!(all(&store).await.len(), 1);
    store.commit(vec![put("/c", "d")]).await.unwrap();
}

#[test]
fn a_file_that_is_gone_or_older_than_its_lock_says_is_neither_read_nor_replaced() {
    let dir = Scratch::new();
    let path = dir.path().join("store");
    assert!(Reader::open(&path).unwrap_err().to_string().contains("there is no such file"));
    assert!(!dir.path().join("store.lock").exists());
    dir.write("store.lock", "00000000000000000009\n");
    let refused = NewFile::begin(&path, Arc::new(Encryption::none())).unwrap_err().to_string();
    assert!(refused.contains("is gone: it had revision 9"), "{refused}");
    dir.write("store", "no store");
    Reader::open(&path).unwrap_err();
    NewFile::begin(&path, Arc::new(Encryption::none())).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"no store");
}
