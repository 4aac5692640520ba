//! Recorded exchanges of Kubernetes 1.36, replayed over HTTPS by the checker that came with them: each recording against
//! `portcullis serve` on a fresh data directory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::{program, recorded};

/// How often a recording is tried that waits for an age to be shown: a slow machine may step over it.
const TRIES_FOR_AN_AGE: usize = 3;

/// How many servers run side by side.
const LANES: usize = 2;

/// The output of the checker for a recording, and whether it found no difference.
fn check(checker: &Path, recording: &str) -> (bool, String) {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let mut command = program!().serve_command(&data);
    command.arg("--controllers").arg(recorded::CONTROLLERS);
    let _served = Running::start(command);
    let cases = recorded::unpacked(&scratch, recording);
    let text = fs::read_to_string(&cases).unwrap();
    // The one case that is answered differently on purpose (CS-18): keys on P-224 are refused. See docs/compatibility.md.
    let kept = text.lines().filter(|line| !line.contains(r#""id":"key-p224""#));
    fs::write(&cases, kept.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let mut command = tool::command("python3");
    command.arg(checker).args(["check", "--kubeconfig"]).arg(data.join("admin.kubeconfig"));
    let finished = Finished::of(command.arg(cases));
    (finished.code == 0, finished.stdout + &finished.stderr)
}

#[test]
fn the_recordings_checker_finds_no_difference() {
    let scratch = Scratch::new();
    let checker = recorded::unpacked(&scratch, "http/cases.py");
    let recordings = recorded::exchanges();
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(String::new()));
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(recording) = recordings.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let has_ages = recorded::text(recording).contains("\"Age\"");
                    let tries = if has_ages { TRIES_FOR_AN_AGE } else { 1 };
                    let mut found = check(&checker, recording);
                    for _ in 1..tries {
                        if !found.0 {
                            found = check(&checker, recording);
                        }
                    }
                    if !found.0 {
                        differences.lock().unwrap().push_str(&format!("{recording}:\n{}\n", found.1));
                    }
                }
            });
        }
    });
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "{differences}");
}
