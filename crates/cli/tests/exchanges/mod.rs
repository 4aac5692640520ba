//! Recorded exchanges of Kubernetes 1.36, replayed over HTTPS by the checker that came with them: each recording against
//! `portcullis serve` on a fresh data directory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use portcullis_testkit::exchanges::Checker;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::{program, recorded};

/// How many servers run side by side.
const LANES: usize = 2;

#[test]
fn the_recordings_checker_finds_no_difference() {
    let scratch = Scratch::new();
    let checker = Checker::unpacked(&scratch);
    let recordings = recorded::exchanges();
    let serve = |scratch: &Scratch| {
        let data = scratch.path().join("data");
        let mut command = program!().serve_command(&data);
        command.arg("--controllers").arg(recorded::CONTROLLERS);
        (Running::start(command), data)
    };
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(String::new()));
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(recording) = recordings.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = checker.differences(recording, serve).unwrap_or_default();
                    differences.lock().unwrap().push_str(&found);
                }
            });
        }
    });
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "{differences}");
}
