//! Faults under load (ET-72): two processes of `portcullis serve` over three members of etcd, with a network between them that
//! fails. Histories stay linearizable, no acknowledged write is lost, watches miss and repeat nothing, no kubelet is refused what
//! it may read, and none is granted for too long what it may no longer.
//!
//! A run has a few faults of each kind. `ETCD_FAULTS=300 cargo test -p portcullis --test faults -- --nocapture` makes more, and
//! shows what happened. `FAULTS_SEED` is the seed of the faults, which is printed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

mod disturb;
mod kubelets;
mod load;
mod servers;
mod watches;

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ScopedJoinHandle, scope};
use std::time::{Duration, Instant};

use portcullis_testkit::etcd::Options;
use portcullis_testkit::linearizability::check;
use portcullis_testkit::wait;
use serde_json::{Value, json};

use self::disturb::disturb;
use self::kubelets::{Answers, Disturbances, Kubelet};
use self::load::{Acknowledged, Load, MAPS, create, names, value};
use self::servers::Servers;
use self::watches::{Change, LAST, Object, Told, follow};

/// How many clients read and write.
const CLIENTS: usize = 8;
/// How many kubelets there are.
const KUBELETS: usize = 2;
/// The watches: at which server they begin, and whether they go on at the other one.
const WATCHES: [(usize, bool); 4] = [(0, false), (1, false), (0, true), (1, true)];

/// Sets a flag when it is dropped, also by a failed check.
struct Ending<'f>([&'f AtomicBool; 2]);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
    }
}

fn configured<T: std::str::FromStr<Err: std::fmt::Debug>>(name: &str, otherwise: T) -> T {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// Median, 99th percentile and longest.
fn spread(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |percent: usize| times.get(times.len() * percent / 100);
    match (at(50), at(99), times.last()) {
        (Some(median), Some(p99), Some(longest)) => {
            format!("{} times, median {median:.1?}, p99 {p99:.1?}, longest {longest:.1?}", times.len())
        }
        _ => "never".to_owned(),
    }
}

/// Runs the load while `disturbing` makes its faults, and checks everything that was seen. `disturbing` is told what is well and
/// what is not, and must end early when it is told that a client has failed. Returns how often watches may have had to begin
/// anew.
fn under_load(
    etcd: &Options,
    disturbing: impl FnOnce(&Servers, &Disturbances, &mut dyn FnMut() -> bool) -> usize,
) {
    let servers = Servers::start(etcd);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "faults"}});
    create(&mut servers.admin(0), "/api/v1/namespaces", &namespace);
    wait::until("pods can be created in the namespace", || {
        let account = "/api/v1/namespaces/faults/serviceaccounts/default";
        servers.admin(1).ask("GET", account, None).is_ok_and(|answer| answer.code == 200)
    });
    let (load, disturbances, is_given_up) =
        (Load::default(), Disturbances::default(), AtomicBool::new(false));
    let kubelets: Vec<_> = (0..KUBELETS).map(|number| Kubelet::new(&servers, number)).collect();
    let (told, answers, histories_ended) = scope(|scope| {
        let ending = Ending([&load.is_over, &is_given_up]);
        let (load, servers, disturbances, is_given_up) = (&load, &servers, &disturbances, &is_given_up);
        let watches: Vec<ScopedJoinHandle<'_, Told>> = WATCHES
            .iter()
            .map(|(server, roams)| scope.spawn(move || follow(servers, *server, *roams, is_given_up)))
            .collect();
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || load.run(client, servers))).collect();
        let kubelets: Vec<ScopedJoinHandle<'_, Answers>> = kubelets
            .into_iter()
            .map(|kubelet| scope.spawn(move || kubelet.run(load, disturbances)))
            .collect();
        let began = Instant::now();
        // None of them ends before the load is over, unless it has failed.
        let mut is_well = || {
            !(watches.iter().any(ScopedJoinHandle::is_finished)
                || clients.iter().any(ScopedJoinHandle::is_finished)
                || kubelets.iter().any(ScopedJoinHandle::is_finished))
        };
        let histories_ended = disturbing(servers, disturbances, &mut is_well);
        println!("disturbed for {:.0?}", began.elapsed());
        load.is_over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        let answers: Vec<Answers> = kubelets.into_iter().map(|kubelet| kubelet.join().unwrap()).collect();
        let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": LAST}, "data": {"value": "0"}});
        create(&mut servers.admin(0), MAPS, &last);
        let told: Vec<Told> = watches.into_iter().map(|watch| watch.join().unwrap()).collect();
        drop(ending);
        (told, answers, histories_ended)
    });
    judge_kubelets(answers);
    judge_end(&servers, &load, &told);
    judge_watches(&load, &told, histories_ended);
    println!(
        "{} acknowledged writes, {} reads, {} writes of unknown outcome, {} not made",
        load.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).len(),
        load.reads.load(Ordering::Relaxed),
        load.unknown.load(Ordering::Relaxed),
        load.not_written.lock().unwrap_or_else(PoisonError::into_inner).len(),
    );
    let [reads, writes] = load.latencies.into_inner().unwrap();
    println!("reads: {}\nwrites: {}", spread(reads), spread(writes));
    if let Err(violation) = check(&load.history) {
        panic!("{violation}");
    }
}

fn judge_kubelets(answers: Vec<Answers>) {
    let mut all = Answers::default();
    for answers in answers {
        all.allowed += answers.allowed;
        all.possibly_stale += answers.possibly_stale;
        all.last_yes.extend(answers.last_yes);
        all.last_yes_of_disturbed.extend(answers.last_yes_of_disturbed);
    }
    println!(
        "kubelets: {} times granted, 0 times falsely refused, {} times refused while etcd did not answer",
        all.allowed, all.possibly_stale
    );
    println!("the last yes came after a deletion: {}", spread(all.last_yes));
    println!("it was asked for, with faults meanwhile: {}", spread(all.last_yes_of_disturbed));
    assert!(all.allowed > 0);
}

/// Both servers, all watches and etcd itself end with the same objects. The last reads are part of the history: if an
/// acknowledged write were lost, it would show there.
fn judge_end(servers: &Servers, load: &Load, told: &[Told]) {
    let mut states = Vec::new();
    for (number, admin) in servers.admins().iter_mut().enumerate() {
        let list = wait::until_some("a list", || load.list(CLIENTS + number, admin));
        let items = list["items"].as_array().unwrap().iter();
        let state: BTreeMap<String, u64> = items
            .filter(|item| item["data"]["value"].is_string())
            .map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), value(item)))
            .collect();
        for name in names() {
            let found = wait::until_some("an object is read", || load.read(CLIENTS + number, admin, &name));
            assert_eq!(found.as_ref().map(value), state.get(&name).copied(), "{name}");
        }
        states.push(state);
    }
    assert_eq!(states[0], states[1], "both servers have the same objects");
    for told in told {
        let state: BTreeMap<String, u64> =
            told.state.iter().map(|(name, object)| (name.clone(), object.value)).collect();
        assert_eq!(state, states[0], "a watch has told what there is");
    }
    for name in names() {
        let key = format!("/registry/configmaps/faults/{name}");
        let found = servers.cluster.etcdctl(["get", &key, "--print-value-only"]);
        assert_eq!(found.code, 0, "{}", found.stderr);
        let found: Option<Value> =
            (!found.stdout.trim().is_empty()).then(|| serde_json::from_str(found.stdout.trim()).unwrap());
        assert_eq!(found.as_ref().map(value), states[0].get(&name).copied(), "{name} in etcd");
    }
}

/// Every change was told by every watch that had not to begin anew meanwhile, once and as the others told it.
fn judge_watches(load: &Load, told: &[Told], histories_ended: usize) {
    let mut all: BTreeMap<u64, &(Change, Object)> = BTreeMap::new();
    for (revision, change) in told.iter().flat_map(|told| &told.changes) {
        let other = all.entry(*revision).or_insert(change);
        assert_eq!(*other, change, "two watches tell different things at {revision}");
    }
    for (number, told) in told.iter().enumerate() {
        for (revision, change) in &all {
            let is_told = told.changes.contains_key(revision);
            assert!(
                is_told || told.is_in_gap(*revision),
                "watch {number} has not told of {revision}: {change:?}"
            );
        }
        // The first list is not counted.
        let anew = told.gaps.len() - 1;
        println!(
            "watch {number}: {} changes, opened again {} times, began anew {anew} times",
            told.changes.len(),
            told.resumed
        );
        assert!(
            anew <= histories_ended,
            "watch {number} began anew {anew} times, for {histories_ended} reasons"
        );
    }
    let removed: BTreeMap<&str, u64> = all
        .iter()
        .filter(|(_, (change, _))| *change == Change::Deleted)
        .map(|(revision, (_, object))| (object.uid.as_str(), *revision))
        .collect();
    // What no watch told must lie where all of them had to begin anew.
    let all_began_anew = told.iter().all(|told| told.gaps.len() > 1);
    for acknowledged in load.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        match acknowledged {
            Acknowledged::Written { name, revision, value } => match all.get(revision) {
                Some((Change::Added | Change::Modified, object)) => {
                    assert_eq!((&object.name, object.value), (name, *value), "at {revision}");
                }
                Some(other) => panic!("{name} was written at {revision}, and watches told {other:?}"),
                None => assert!(
                    told.iter().all(|told| told.is_in_gap(*revision)),
                    "nobody was told of {name} at {revision}"
                ),
            },
            Acknowledged::Deleted { name, uid } => {
                assert!(
                    removed.contains_key(uid.as_str()) || all_began_anew,
                    "nobody was told that {name} {uid} is gone"
                );
            }
        }
    }
    let not_written = load.not_written.lock().unwrap_or_else(PoisonError::into_inner);
    for (revision, (change, object)) in all {
        let is_written = matches!(change, Change::Added | Change::Modified);
        assert!(
            !(is_written && not_written.contains(&object.value)),
            "a write was answered 503, and made at {revision}: {object:?}"
        );
    }
}

#[test]
fn nothing_is_lost_missed_or_wrongly_decided_while_servers_etcd_and_the_network_fail() {
    let (faults, seed) = (configured("ETCD_FAULTS", 24), configured("FAULTS_SEED", 1));
    println!("{faults} faults with FAULTS_SEED={seed}");
    let etcd = Options { election_timeout: Some(Duration::from_millis(500)), ..Options::default() };
    under_load(&etcd, |servers, disturbances, is_well| {
        let made = disturb(servers, (faults, seed), is_well, |_| disturbances.changed());
        println!("{made:?}");
        made.iter().filter(|(fault, _)| fault.may_end_history()).map(|(_, count)| count).sum()
    });
}

/// The size of etcd's database from which on it takes no writes.
const QUOTA: u64 = 24 << 20;

#[test]
fn nothing_is_lost_missed_or_wrongly_decided_while_etcd_is_full() {
    let etcd = Options { quota_backend_bytes: Some(QUOTA), ..Options::default() };
    under_load(&etcd, |servers, disturbances, _| {
        disturbances.changed();
        let mut admin = servers.admin(0);
        let filling = |number: usize| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("filling-{number}")},
                "data": {"filling": "x".repeat(500_000)}})
        };
        let path = "/api/v1/namespaces/default/configmaps";
        let mut count = 0;
        while admin.ask("POST", path, Some(&filling(count))).unwrap().code == 201 {
            count += 1;
            assert!(count < 200, "the quota does not count");
        }
        std::thread::sleep(Duration::from_secs(3));
        for number in 0..count {
            admin.must(200, "DELETE", &format!("{path}/filling-{number}"), None);
        }
        servers.compact();
        for member in servers.cluster.members() {
            member.etcdctl(["defrag"]).must(0, &[]);
        }
        servers.cluster.etcdctl(["alarm", "disarm"]).must(0, &[]);
        wait::until("there is room again", || {
            admin.ask("POST", path, Some(&filling(1_000))).unwrap().code == 201
        });
        disturbances.changed();
        servers.wait_until_ready();
        std::thread::sleep(Duration::from_secs(1));
        1
    });
}
