//! Servers that share one etcd see one truth (ET-22, ET-31 to ET-40).

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use portcullis_store::conformance::{put, remove};
use portcullis_store::etcd::{LiveTls, Tls};
use portcullis_store::{
    Amender, Current, Event, Expect, List, Observer, Revision, Standing, Store as _, StoreError, Watch as _,
    Write,
};
use portcullis_testkit::etcd::{ClientTls, Etcd as Server, Options as ServerOptions};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tcp_proxy::TcpProxy;
use tokio::time::sleep;

use super::cluster::{open, options};
use super::layout::{DAMAGED, SHORT, STALE};

/// Waits until something holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if holds().await {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("did not happen: {what}");
}

/// Runs etcdctl, which must succeed. Returns what it printed.
fn etcdctl(etcd: &Server, arguments: &[&str]) -> String {
    let done = etcd.etcdctl(arguments);
    assert_eq!(done.code, 0, "{}", done.stderr);
    done.stdout
}

/// Where etcd listens for clients.
fn address(etcd: &Server) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, etcd.port()))
}

/// The value of a key, as text.
async fn value(store: &portcullis_store::Etcd, key: &str) -> Option<String> {
    let entry = store.get(key).await.unwrap()?;
    Some(String::from_utf8(entry.value.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_by_one_server_is_read_on_the_other() {
    let etcd = Server::start();
    let (one, other) = (open(&etcd).await, open(&etcd).await);
    for round in 0..200 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let text = round.to_string();
        let done = writer.commit(vec![put("/a", Expect::Anything, &text)]).await.unwrap();
        let reached = reader.fresh().await.unwrap();
        assert!(reached >= done.revision);
        assert_eq!(value(reader, "/a").await, Some(text), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_of_another_server_can_be_listed_and_watched() {
    let etcd = Server::start();
    let (one, other) = (open(&etcd).await, open(&etcd).await);
    for round in 0..50 {
        let text = round.to_string();
        let done = one.commit(vec![put("/a", Expect::Anything, &text)]).await.unwrap();
        let list = List { at: Some(done.revision), ..List::default() };
        assert_eq!(other.list(&list).await.unwrap().entries[0].value, text.as_bytes());
        let mut watch = other.watch("", done.revision).await.unwrap();
        let next = one.commit(vec![put("/b", Expect::Anything, &text)]).await.unwrap();
        assert_eq!(watch.next().await.unwrap()[0].revision, next.revision);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_lists_of_the_past_are_whole_without_what_cannot_be_read_and_end_with_compaction() {
    const KEYS: usize = 250;
    let etcd = Server::start();
    let writer = open(&etcd).await;
    for number in 0..KEYS {
        writer.commit(vec![put(&format!("/a/{number:03}"), Expect::Absent, "old")]).await.unwrap();
    }
    etcd.put("/registry/a/100x", DAMAGED.as_bytes());
    etcd.put("/registry/foreign/1", b"x");
    let at = writer.fresh().await.unwrap();
    for number in (0..KEYS).step_by(2) {
        writer.commit(vec![put(&format!("/a/{number:03}"), Expect::Anything, "new")]).await.unwrap();
    }
    let later = open(&etcd).await;
    let all: Vec<String> = (0..KEYS).map(|number| format!("/a/{number:03}")).collect();
    for limit in [0, 1, 99, 100, 101, 1_000] {
        let mut list = List { prefix: "/a/".into(), limit, at: Some(at), ..List::default() };
        let mut found = Vec::new();
        loop {
            let page = later.list(&list).await.unwrap();
            assert_eq!(page.revision, at);
            assert!(page.entries.iter().all(|entry| entry.value == "old"), "{limit}");
            found.extend(page.entries.iter().map(|entry| entry.key.to_string()));
            if page.remaining == 0 {
                break;
            }
            list.after = page.entries.last().map(|entry| entry.key.clone());
            assert!(list.after.is_some(), "who pages must come further");
        }
        assert_eq!(found, all, "{limit}");
    }
    // The store that wrote has it in memory.
    let list = List { prefix: "/a/".into(), at: Some(at), ..List::default() };
    assert_eq!(writer.list(&list).await.unwrap().entries.len(), KEYS);
    let newest = later.fresh().await.unwrap();
    etcdctl(&etcd, &["compact", &newest.0.to_string()]);
    let gone = later.list(&list).await;
    let Err(StoreError::Compacted { asked, .. }) = gone else { panic!("{gone:?}") };
    assert_eq!(asked, at);
}

/// What a caller makes the server hold is bounded: it gets smaller pages, and not everything at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_the_past_that_is_too_large_is_refused_and_its_pages_are_not() {
    const KEYS: usize = 12;
    let etcd = Server::start();
    let writer = open(&etcd).await;
    let large = "x".repeat(1 << 20);
    for number in 0..KEYS {
        writer.commit(vec![put(&format!("/a/{number:02}"), Expect::Absent, &large)]).await.unwrap();
    }
    let at = writer.fresh().await.unwrap();
    for number in 0..KEYS {
        writer.commit(vec![put(&format!("/a/{number:02}"), Expect::Anything, "new")]).await.unwrap();
    }
    let later = open(&etcd).await;
    let mut list = List { prefix: "/a/".into(), at: Some(at), ..List::default() };
    let refused = later.list(&list).await;
    assert!(matches!(refused, Err(StoreError::Compacted { .. })), "{refused:?}");
    list.limit = 5;
    let mut found = 0;
    loop {
        let page = later.list(&list).await.unwrap();
        found += page.entries.iter().filter(|entry| entry.value == large).count();
        if page.remaining == 0 {
            break;
        }
        list.after = page.entries.last().map(|entry| entry.key.clone());
    }
    assert_eq!(found, KEYS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_certificates_are_used_for_all_connections_and_wrong_ones_change_nothing() {
    let folder = Scratch::new();
    let read = |files: &ClientTls| Tls {
        authority: Some(std::fs::read(&files.ca).unwrap()),
        identity: Some((std::fs::read(&files.certificate).unwrap(), std::fs::read(&files.key).unwrap())),
    };
    let files = ClientTls::make(folder.path());
    let etcd = Server::with(&ServerOptions { client_tls: Some(files.clone()), ..ServerOptions::default() });
    let old = read(&files);
    let live: Arc<LiveTls> = old.clone().into();
    let store = options(&etcd).tls(Arc::clone(&live)).open().await.unwrap();
    etcd.kill();
    let new = read(&ClientTls::make(folder.path()));
    etcd.restart();
    etcd.wait_until_healthy();
    store.fresh().await.unwrap_err();
    let (Some((certificate, _)), Some((_, key))) = (&new.identity, &old.identity) else { panic!() };
    let mixed = Tls { identity: Some((certificate.clone(), key.clone())), ..new.clone() };
    assert!(matches!(live.replace(mixed), Err(StoreError::Refused(_))));
    live.replace(new).unwrap();
    until("both connections are made anew", async || store.fresh().await.is_ok()).await;
    let done = store.commit(vec![put("/a", Expect::Absent, "1")]).await.unwrap();
    assert_eq!(done.entries.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_fresh_although_the_last_change_lies_outside_of_the_prefix() {
    let etcd = Server::start();
    let store = open(&etcd).await;
    for round in 0..20 {
        etcdctl(&etcd, &["put", "/somewhere/else", &round.to_string()]);
        let before = store.revision();
        let reached = store.fresh().await.unwrap();
        assert!(reached > before, "etcd has moved on");
        assert!(store.revision() >= reached);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_change_one_key_lose_no_change() {
    let etcd = Server::start();
    let stores = [Arc::new(open(&etcd).await), Arc::new(open(&etcd).await)];
    stores[0].commit(vec![put("/number", Expect::Absent, "0")]).await.unwrap();
    stores[1].fresh().await.unwrap();
    let mut tasks = Vec::new();
    for worker in 0..8 {
        let store = Arc::clone(&stores[worker % 2]);
        tasks.push(tokio::spawn(async move {
            for _ in 0..25 {
                loop {
                    let entry = store.get("/number").await.unwrap().unwrap();
                    let number: u64 = std::str::from_utf8(&entry.value).unwrap().parse().unwrap();
                    let next = (number + 1).to_string();
                    match store.commit(vec![put("/number", Expect::Modified(entry.modified), &next)]).await {
                        Ok(_) => break,
                        Err(StoreError::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for store in &stores {
        store.fresh().await.unwrap();
        assert_eq!(value(store, "/number").await.as_deref(), Some("200"));
    }
}

/// Many pages, of small and of large values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_at_the_start_is_what_another_server_has_followed() {
    let etcd = Server::start();
    let one = open(&etcd).await;
    let small =
        |prefix: char| (0..3_500).map(move |number| put(&format!("/{prefix}/{number}"), Expect::Absent, "x"));
    let text = "large".repeat(80_000);
    let large = (0..60).map(|number| put(&format!("/b/{number}"), Expect::Absent, &text));
    let small: Vec<Write> = small('a').chain(small('c')).collect();
    for writes in small.chunks(one.most_writes()).chain(large.collect::<Vec<_>>().chunks(3)) {
        one.commit(writes.to_vec()).await.unwrap();
    }
    etcdctl(&etcd, &["put", "/registry/c/7", DAMAGED]);
    one.fresh().await.unwrap();
    let other = open(&etcd).await;
    let [followed, read] =
        [one.list(&List::default()).await.unwrap(), other.list(&List::default()).await.unwrap()];
    assert_eq!(followed.revision, read.revision);
    assert!(followed.entries == read.entries, "{} and {}", followed.entries.len(), read.entries.len());
    assert_eq!((read.entries.len(), other.unreadable()), (7_059, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_keep_in_etcd_is_left_alone() {
    let etcd = Server::start();
    etcdctl(&etcd, &["put", "/registry/foreign/a", "theirs"]);
    etcdctl(&etcd, &["put", "/registryother/a", "theirs"]);
    let store = open(&etcd).await;
    store.commit(vec![put("/a", Expect::Absent, "ours")]).await.unwrap();
    etcdctl(&etcd, &["put", "/registry/foreign/b", "theirs"]);
    store.fresh().await.unwrap();
    let listing = store.list(&List::default()).await.unwrap();
    let keys: Vec<&str> = listing.entries.iter().map(|entry| &*entry.key).collect();
    assert_eq!(keys, ["/a"]);
    let there = etcdctl(&etcd, &["get", "--prefix", "/registry", "--keys-only"]);
    for key in ["/registry/a", "/registry/foreign/a", "/registry/foreign/b", "/registryother/a"] {
        assert!(there.contains(key), "{there}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_cannot_be_read_is_not_there_and_stops_nothing() {
    let etcd = Server::start();
    etcdctl(&etcd, &["put", "/registry/early", DAMAGED]);
    let store = open(&etcd).await;
    assert_eq!(store.unreadable(), 1);
    store.commit(vec![put("/good", Expect::Absent, "1")]).await.unwrap();
    let mut watch = store.watch("", store.revision()).await.unwrap();
    etcdctl(&etcd, &["put", "/registry/good", DAMAGED]);
    let events = watch.next().await.unwrap();
    assert!(events[0].key() == "/good" && events[0].entry.is_none(), "it is gone for readers: {events:?}");
    for key in ["/early", "/good"] {
        assert!(matches!(store.get(key).await, Err(StoreError::Unreadable(_))), "{key}");
        let taken = store.commit(vec![put(key, Expect::Absent, "2")]).await;
        assert!(matches!(taken, Err(StoreError::Conflict { .. })), "it is not overwritten: {taken:?}");
    }
    assert!(store.list(&List::default()).await.unwrap().entries.is_empty());
    etcdctl(&etcd, &["put", "/registry/good", "|3"]);
    etcdctl(&etcd, &["del", "/registry/early"]);
    assert_eq!(watch.next().await.unwrap()[0].entry.as_ref().unwrap().value, "3");
    store.fresh().await.unwrap();
    assert_eq!((store.get("/early").await.unwrap(), store.unreadable()), (None, 0));
}

/// ET-12.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_value_that_cannot_be_read_is_removed_as_such() {
    let etcd = Server::start();
    let store = open(&etcd).await;
    store.commit(vec![put("/good", Expect::Absent, "1")]).await.unwrap();
    etcdctl(&etcd, &["put", "/registry/bad", DAMAGED]);
    store.fresh().await.unwrap();
    assert!(store.remove_unreadable("/bad").await.unwrap());
    assert_eq!((store.get("/bad").await.unwrap(), store.unreadable()), (None, 0), "it is gone at once");
    for key in ["/bad", "/good", "/none"] {
        assert!(!store.remove_unreadable(key).await.unwrap(), "{key}");
    }
    assert_eq!(value(&store, "/good").await.as_deref(), Some("1"));
    let there = etcdctl(&etcd, &["get", "--prefix", "/registry/", "--keys-only"]);
    assert_eq!(there.trim(), "/registry/good");
}

/// ET-21, ET-51.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_standing_of_an_entry_is_that_in_etcd() {
    let etcd = Server::start();
    let (one, other) = (open(&etcd).await, open(&etcd).await);
    etcdctl(&etcd, &["put", "/registry/a", &format!("{STALE}|1")]);
    one.fresh().await.unwrap();
    let stale = one.get("/a").await.unwrap().unwrap();
    assert_eq!((&*stale.value, one.standing(&stale).await.unwrap()), (&b"1"[..], Standing::Stale));
    let done = other.commit(vec![put("/a", Expect::Modified(stale.modified), "1")]).await.unwrap();
    // Whether or not the watch of this server has come so far.
    assert_eq!(one.standing(&stale).await.unwrap(), Standing::Replaced);
    let written = done.entries[0].clone().unwrap();
    assert_eq!(one.standing(&written).await.unwrap(), Standing::Current);
    let remove = Write { key: "/a".into(), expect: Expect::Anything, value: None };
    other.commit(vec![remove]).await.unwrap();
    assert_eq!(one.standing(&written).await.unwrap(), Standing::Replaced);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_too_large_for_etcd_is_refused_as_such() {
    let etcd = Server::start();
    let store = open(&etcd).await;
    // More than etcd's limit, and more than the limit of the library in front of it.
    for size in [1_600_000, 3_000_000] {
        let refused = store.commit(vec![put("/a", Expect::Absent, &"x".repeat(size))]).await;
        assert!(matches!(refused, Err(StoreError::TooLarge(_))), "{size}: {refused:?}");
    }
    assert_eq!(store.get("/a").await.unwrap(), None);
    store.commit(vec![put("/a", Expect::Absent, "small")]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_with_a_lifetime_share_a_lease_and_end_by_themselves() {
    let etcd = Server::start();
    let store = open(&etcd).await;
    let mut watch = store.watch(SHORT, store.revision()).await.unwrap();
    let of_both = |number| [format!("{SHORT}{number}"), format!("/long/{number}")];
    let writes = (0..5).flat_map(of_both).map(|key| put(&key, Expect::Absent, "x"));
    store.commit(writes.collect()).await.unwrap();
    let leases = etcdctl(&etcd, &["lease", "list"]);
    // A lease of this lifetime is shared for a second: on a slow machine there may be a second one.
    assert!(["found 1 leases", "found 2 leases"].iter().any(|found| leases.contains(found)), "{leases}");
    let mut gone = 0;
    while gone < 5 {
        gone += watch.next().await.unwrap().iter().filter(|event| event.entry.is_none()).count();
    }
    let left = store.list(&List::default()).await.unwrap();
    assert_eq!(left.entries.len(), 5, "only those under {SHORT} end");
}

/// Counts the keys that exist, by the changes that it is told.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Observer for Counter {
    fn committed(&self, events: &[Event]) {
        for event in events {
            match (&event.previous, &event.entry) {
                (None, Some(_)) => self.0.fetch_add(1, Ordering::Relaxed),
                (Some(_), None) => self.0.fetch_sub(1, Ordering::Relaxed),
                _ => 0,
            };
        }
    }
}

/// Cuts the server's connections for so long that etcd compacts what it has missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_compacted_changes_the_difference_is_told_and_watches_end() {
    let etcd = Server::start();
    let proxy = TcpProxy::start(address(&etcd));
    let counter = Arc::new(Counter::default());
    let mut cut_off = options(&etcd).observer(Arc::clone(&counter) as Arc<dyn Observer>);
    cut_off = cut_off.servers(vec![format!("http://{}", proxy.address())]);
    let store = cut_off.open().await.unwrap();
    let other = open(&etcd).await;
    for number in 0..20 {
        other.commit(vec![put(&format!("/a/{number}"), Expect::Absent, "before")]).await.unwrap();
    }
    store.fresh().await.unwrap();
    let mut watch = store.watch("", store.revision()).await.unwrap();
    proxy.cut();
    for number in 0..10 {
        other.commit(vec![remove(&format!("/a/{number}"), Expect::Anything)]).await.unwrap();
        other.commit(vec![put(&format!("/b/{number}"), Expect::Absent, "new")]).await.unwrap();
        other.commit(vec![put(&format!("/a/{}", number + 10), Expect::Anything, "after")]).await.unwrap();
    }
    let missed = other.commit(vec![put("/b/10", Expect::Absent, "new")]).await.unwrap().revision;
    other.compact(other.revision()).await.unwrap();
    assert!(store.fresh().await.is_err(), "nobody answers");
    proxy.reset();
    proxy.heal();
    until("memory is current again", async || store.fresh().await.is_ok()).await;
    let ended = watch.next().await;
    assert!(matches!(ended, Err(StoreError::Compacted { .. })), "a watch has no gap: {ended:?}");
    let (mine, theirs) =
        (store.list(&List::default()).await.unwrap(), other.list(&List::default()).await.unwrap());
    assert_eq!(mine.entries, theirs.entries);
    assert_eq!(counter.0.load(Ordering::Relaxed), theirs.entries.len(), "observers learned the difference");
    // Memory may have moved on since, to a tick: only what lies before the gap cannot be watched.
    let gap = store.watch("", Revision(missed.0 - 1)).await;
    assert!(
        matches!(gap.err(), Some(StoreError::Compacted { .. })),
        "changes up to {missed:?} were not seen"
    );
}

/// Writes the sum of all numbers under `/n/` with every change of one of them.
struct Sum;

impl Amender for Sum {
    fn amend(&self, writes: &[Write], current: Current<'_>) -> Vec<Write> {
        if !writes.iter().any(|write| write.key.starts_with("/n/")) {
            return Vec::new();
        }
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<u64>().unwrap();
        let mut sum = 0;
        for key in ["/n/a", "/n/b"] {
            let held = current(key);
            sum += match writes.iter().find(|write| *write.key == *key) {
                Some(write) => write.value.as_ref().map_or(0, |value| number(&value.bytes)),
                None => held.map_or(0, |entry| number(&entry.value)),
            };
        }
        let found = current("/sum").map_or(Expect::Absent, |entry| Expect::Modified(entry.modified));
        vec![put("/sum", found, &sum.to_string())]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_amender_adds_fits_what_is_written_on_every_server() {
    let etcd = Server::start();
    let mut stores = Vec::new();
    for _ in 0..2 {
        stores.push(Arc::new(options(&etcd).amender(Arc::new(Sum)).open().await.unwrap()));
    }
    let mut tasks = Vec::new();
    for (store, key) in stores.iter().zip(["/n/a", "/n/b"]) {
        let store = Arc::clone(store);
        tasks.push(tokio::spawn(async move {
            for number in 1..=100 {
                store.commit(vec![put(key, Expect::Anything, &number.to_string())]).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    stores[0].fresh().await.unwrap();
    assert_eq!(value(&stores[0], "/sum").await.as_deref(), Some("200"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_server_compacts_in_each_interval() {
    let etcd = Server::start();
    let interval = Duration::from_millis(300);
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(options(&etcd).compaction(interval).open().await.unwrap());
    }
    let first = stores[0].commit(vec![put("/a", Expect::Absent, "0")]).await.unwrap().revision;
    let at = format!("--rev={}", first.0);
    until("etcd is compacted", async || {
        stores[1].commit(vec![put("/a", Expect::Anything, "1")]).await.unwrap();
        etcd.etcdctl(["get", &at, "/registry/a"]).code != 0
    })
    .await;
    // The version of the key counts the intervals.
    let shown = etcdctl(&etcd, &["get", "compact_rev_key", "-w", "fields"]);
    let field = |name: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(&format!("\"{name}\" : ")));
        line.unwrap_or_else(|| panic!("{name} in {shown}")).trim_matches('"').to_owned()
    };
    let compacted: u64 = field("Value").parse().unwrap();
    assert!(compacted >= first.0, "the value is the revision: {shown}");
    for store in &stores {
        assert_eq!(store.fresh().await.map(|_| ()).ok(), Some(()), "compaction disturbs nobody");
        assert!(value(store, "/a").await.is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_waits_for_an_etcd_that_cannot_be_reached() {
    let etcd = Server::start();
    let proxy = TcpProxy::start(address(&etcd));
    proxy.cut();
    let late = options(&etcd).servers(vec![format!("http://{}", proxy.address())]);
    let mut opening = Box::pin(late.open());
    tokio::select! {
        opened = &mut opening => panic!("nothing is served from nothing: {:?}", opened.map(|_| ())),
        () = sleep(Duration::from_millis(500)) => {}
    }
    proxy.reset();
    proxy.heal();
    let store = opening.await.unwrap();
    store.commit(vec![put("/a", Expect::Absent, "1")]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_not_used_when_etcd_is_silent() {
    let etcd = Server::start();
    let proxy = TcpProxy::start(address(&etcd));
    let store = options(&etcd).servers(vec![format!("http://{}", proxy.address())]).open().await.unwrap();
    store.commit(vec![put("/a", Expect::Absent, "1")]).await.unwrap();
    assert!(store.is_current());
    proxy.cut();
    until("memory is too old", async || !store.is_current()).await;
    assert!(matches!(store.fresh().await, Err(StoreError::Unavailable(_))));
    let lost = store.commit(vec![put("/a", Expect::Anything, "2")]);
    let lost = tokio::time::timeout(Duration::from_secs(60), lost).await.expect("an answer");
    assert!(matches!(lost, Err(StoreError::Unavailable(_) | StoreError::Unknown(_))), "{lost:?}");
    proxy.reset();
    proxy.heal();
    until("memory is current", async || store.is_current() && store.fresh().await.is_ok()).await;
    store.commit(vec![put("/a", Expect::Anything, "3")]).await.unwrap();
    assert_eq!(value(&store, "/a").await.as_deref(), Some("3"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_reached_over_tls_with_the_right_certificates_only() {
    let folder = Scratch::new();
    let files = ClientTls::make(folder.path());
    let server = Server::with(&ServerOptions { client_tls: Some(files.clone()), ..ServerOptions::default() });
    let read = |path: &Path| std::fs::read(path).unwrap();
    let right = Tls {
        authority: Some(read(&files.ca)),
        identity: Some((read(&files.certificate), read(&files.key))),
    };
    let store = options(&server).tls(right.clone()).open().await.unwrap();
    store.commit(vec![put("/a", Expect::Absent, "1")]).await.unwrap();
    assert_eq!(value(&store, "/a").await.as_deref(), Some("1"));
    // Another authority, and no client certificate.
    let other = Scratch::new();
    let stranger = Tls { authority: Some(read(&ClientTls::make(other.path()).ca)), ..right.clone() };
    for wrong in [stranger, Tls { identity: None, ..right }] {
        let opening = options(&server).tls(wrong).open();
        tokio::select! {
            opened = opening => panic!("etcd was reached: {opened:?}"),
            () = sleep(Duration::from_secs(3)) => {}
        }
    }
}
