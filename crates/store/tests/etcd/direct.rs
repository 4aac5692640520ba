//! Direct access to etcd: pages at one revision, and conditional writes (ET-60, ET-61).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use portcullis_store::etcd::{Change, Changed, ChangesEnded, Direct, Options, Range, Sealed};
use portcullis_store::{Revision, StoreError, Value};
use portcullis_testkit::etcd::Etcd as Server;

use super::layout::{LONG, Plain};

fn direct(etcd: &Server) -> Direct {
    Options::new(vec![etcd.endpoint()], Arc::new(Plain)).direct().unwrap()
}

fn change(key: &str, value: &str, replaces: Option<Revision>) -> Change {
    let value = Value { bytes: Bytes::copy_from_slice(value.as_bytes()), revision_at: None, relies_on: None };
    Change { key: key.into(), value, replaces }
}

async fn all(direct: &Direct, range: Range, at: Revision) -> Vec<Sealed> {
    let (mut left, mut found) = (Some(range), Vec::new());
    while let Some(range) = left {
        let page = direct.page(&range, at).await.unwrap();
        found.extend(page.found);
        left = page.rest;
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_show_each_key_once_at_one_revision_whatever_is_written_meanwhile() {
    let etcd = Server::start();
    let direct = direct(&etcd);
    let keys: Vec<String> = (0..1_300).map(|number| format!("/pods/p{number:04}")).collect();
    for part in keys.chunks(100) {
        let changes: Vec<Change> = part.iter().map(|key| change(key, "first", None)).collect();
        assert!(direct.write(&changes).await.unwrap());
    }
    etcd.put("/registry/foreign/x", b"y");
    etcd.put("/registry.portcullis", b"x");
    etcd.put("/registry0", b"x");
    let (at, count) = direct.newest(&direct.everything()).await.unwrap();
    assert_eq!(count, 1_301);
    let first = direct.page(&direct.everything(), at).await.unwrap();
    assert!(first.rest.is_some());
    etcd.etcdctl(["del", "--prefix", "/registry/pods/p1"]).ok();
    etcd.put("/registry/pods/p0001", b"|second");
    etcd.put("/registry/pods/new", b"|new");
    let found = all(&direct, direct.everything(), at).await;
    let served: Vec<&str> = found.iter().filter_map(|sealed| sealed.key.as_deref()).collect();
    assert_eq!(served, keys);
    assert!(found.iter().all(|sealed| sealed.key.is_none() || *sealed.value == *b"|first"));
    let foreign: Vec<_> = found.iter().filter(|sealed| sealed.key.is_none()).collect();
    assert!(foreign.len() == 1 && foreign[0].etcd_key() == "/registry/foreign/x");
    // A path is a range of its own, and not that of paths that begin alike.
    etcd.put("/registry/podsmore/x", b"|z");
    let (at, count) = direct.newest(&direct.below("pods")).await.unwrap();
    let below = all(&direct, direct.below("pods"), at).await;
    assert_eq!(below.len() as u64, count);
    let starts: BTreeSet<bool> =
        below.iter().map(|sealed| sealed.etcd_key().starts_with("/registry/pods/")).collect();
    assert_eq!(starts, [true].into());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_made_all_or_none_and_only_over_what_was_read() {
    let etcd = Server::start();
    let direct = direct(&etcd);
    assert!(direct.write(&[change("/a", "1", None), change("/b", "1", None)]).await.unwrap());
    let a = direct.get("/a").await.unwrap().unwrap();
    assert!(direct.get("/c").await.unwrap().is_none());
    // One of them is there.
    assert!(!direct.write(&[change("/c", "1", None), change("/b", "2", None)]).await.unwrap());
    assert!(direct.get("/c").await.unwrap().is_none());
    assert!(direct.write(&[change("/a", "2", Some(a.modified))]).await.unwrap());
    assert!(!direct.write(&[change("/a", "3", Some(a.modified))]).await.unwrap());
    assert_eq!(&*direct.get("/a").await.unwrap().unwrap().value, b"|2");
    // Never brings back what was removed.
    let b = direct.get("/b").await.unwrap().unwrap();
    etcd.etcdctl(["del", "/registry/b"]).ok();
    assert!(!direct.write(&[change("/b", "3", Some(b.modified))]).await.unwrap());
    assert!(direct.get("/b").await.unwrap().is_none());
    let refused = direct.write(&[change("no key", "1", None)]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ends_by_itself_gets_a_lease_and_keeps_it_when_it_is_replaced() {
    let etcd = Server::start();
    let direct = direct(&etcd);
    let lease = |key: &str| {
        let found = etcd.etcdctl(["get", key, "--write-out", "fields"]).ok();
        found.lines().find(|line| line.starts_with("\"Lease\"")).unwrap().to_owned()
    };
    let event = format!("{LONG}a");
    assert!(direct.write(&[change(&event, "1", None), change("/other", "1", None)]).await.unwrap());
    let before = lease("/registry/long/a");
    assert!(!before.ends_with(": 0") && lease("/registry/other").ends_with(": 0"), "{before}");
    let there = direct.get(&event).await.unwrap().unwrap();
    assert!(direct.write(&[change(&event, "2", Some(there.modified))]).await.unwrap());
    assert_eq!(lease("/registry/long/a"), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compacted_revision_and_a_silent_etcd_are_errors_that_say_so() {
    let etcd = Server::start();
    let reader = direct(&etcd);
    etcd.put("/registry/a", b"|1");
    let (at, _) = reader.newest(&reader.everything()).await.unwrap();
    etcd.put("/registry/a", b"|2");
    etcd.etcdctl(["compact", &(at.0 + 1).to_string()]).ok();
    let error = reader.page(&reader.everything(), at).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable(why) if why.contains("has compacted revision")),
        "{error}"
    );
    let nobody = Options::new(vec!["http://127.0.0.1:1".to_owned()], Arc::new(Plain)).direct().unwrap();
    let error = nobody.newest(&nobody.everything()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_follow_a_list_without_a_gap_until_they_are_compacted() {
    let etcd = Server::start();
    let direct = direct(&etcd);
    etcd.put("/registry/pods/a", b"|first");
    let range = direct.below("pods");
    let (at, count) = direct.newest(&range).await.unwrap();
    assert_eq!(count, 1);
    etcd.put("/registry/pods/a", b"|second");
    etcd.put("/registry/podsmore/x", b"|of another range");
    etcd.put("/registry/pods/b", b"|new");
    etcd.etcdctl(["del", "/registry/pods/a"]).ok();

    let mut changes = direct.changes(&range, at).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        for changed in changes.next().await.unwrap() {
            let (what, sealed) = match changed {
                Changed::Written(sealed) => ("written", sealed),
                Changed::Removed(sealed) => ("removed", sealed),
            };
            let value = String::from_utf8(sealed.value.to_vec()).unwrap();
            seen.push((what, sealed.key.unwrap().to_string(), value, sealed.modified.0 - at.0));
        }
    }
    let expected = [
        ("written", "/pods/a", "|second", 1),
        ("written", "/pods/b", "|new", 3),
        ("removed", "/pods/a", "", 4),
    ];
    let expected = expected.map(|(what, key, value, after)| (what, key.to_owned(), value.to_owned(), after));
    assert_eq!(seen, expected);
    // Later changes arrive as they happen.
    etcd.put("/registry/pods/c", b"|later");
    let later = changes.next().await.unwrap();
    assert!(
        matches!(&later[..], [Changed::Written(sealed)] if sealed.key.as_deref() == Some("/pods/c")),
        "{later:?}"
    );

    etcd.etcdctl(["compact", &(at.0 + 4).to_string()]).ok();
    let mut old = direct.changes(&range, at).await.unwrap();
    assert_eq!(old.next().await, Err(ChangesEnded::Compacted));
    let mut new = direct.changes(&range, Revision(at.0 + 4)).await.unwrap();
    assert_eq!(new.next().await.unwrap(), later);
}
