//! Recorded exchanges of Kubernetes 1.36, replayed over HTTPS by the checker that came with them: each recording against
//! `portcullis serve` on a fresh data directory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::exchanges::{Checker, Clock};
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::{program, recorded};

/// How many servers run side by side.
const LANES: usize = 2;

/// Replays recordings, each against servers of its own that `serve` starts on a data directory below a folder.
fn replay<S>(recordings: &[String], serve: impl Fn(&Scratch, Clock) -> (S, PathBuf) + Sync) {
    let scratch = Scratch::new();
    let checker = Checker::unpacked(&scratch);
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(String::new()));
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(recording) = recordings.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = checker.differences(recording, &serve).unwrap_or_default();
                    differences.lock().unwrap().push_str(&found);
                }
            });
        }
    });
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "{differences}");
}

fn start(data: &Path, clock: Clock, etcd: &[&str]) -> Running {
    let mut command = program!().serve_command(data);
    command.arg("--controllers").arg(recorded::CONTROLLERS).args(etcd);
    clock.set_for(&mut command);
    Running::start(command)
}

#[test]
fn the_recordings_checker_finds_no_difference() {
    replay(&recorded::exchanges(), |scratch, clock| {
        let data = scratch.path().join("data");
        (start(&data, clock, &[]), data)
    });
}

/// The recordings of custom kinds, against the second of two servers on one etcd. The first has the controllers. ET-70.
#[test]
fn the_recordings_checker_finds_no_difference_of_custom_kinds_on_the_second_server_of_an_etcd() {
    let mut recordings = recorded::exchanges();
    recordings.retain(|name| name.starts_with("http/crd-"));
    assert!(recordings.len() > 10);
    let (etcd, count) = (Etcd::start(), AtomicUsize::new(0));
    let endpoint = etcd.endpoint();
    replay(&recordings, |scratch, clock| {
        let prefix = format!("/replay{}", count.fetch_add(1, Ordering::Relaxed));
        let etcd = ["--etcd-servers", &endpoint, "--etcd-prefix", &prefix];
        let [one, other] = ["one", "other"].map(|name| scratch.path().join(name));
        let first = start(&one, clock, &etcd);
        fs::create_dir(&other).unwrap();
        for file in ["ca.crt", "ca.key", "sa.key"] {
            fs::copy(one.join(file), other.join(file)).unwrap();
        }
        ((first, start(&other, clock, &etcd)), other)
    });
}
