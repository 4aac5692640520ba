//! Recorded exchanges of Kubernetes 1.36, replayed over HTTPS by the checker that came with them: each recording against
//! `portcullis serve` on a fresh data directory.
//!
//! The checker lies where the recordings were made. A clone without them has the same recordings, and replays them in
//! the tests of the server.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

mod common;

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::Served;
use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;

/// How often a recording is tried that waits for an age to be shown: a slow machine may step over it.
const TRIES_FOR_AN_AGE: usize = 3;

/// How many servers run side by side.
const LANES: usize = 2;

/// What the checker says of a recording, and whether it is content.
fn check(checker: &std::path::Path, topic: &str) -> (bool, String) {
    let scratch = Scratch::new();
    let recording = scratch.path().join("recording.jsonl");
    std::fs::write(&recording, recorded::text(&format!("http/{topic}.jsonl"))).unwrap();
    let data = scratch.path().join("data");
    let mut served = Served::spawn(Served::command(&data));
    served.address();
    let out = Command::new("python3")
        .arg(checker)
        .args(["check", "--kubeconfig"])
        .arg(data.join("admin.kubeconfig"))
        .arg(&recording)
        .output()
        .unwrap_or_else(|e| panic!("python3 (Debian package python3) does not run: {e}"));
    served.kill();
    let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    (out.status.success(), said.into_owned())
}

#[test]
fn the_recordings_checker_finds_no_difference() {
    let Some(shared) = recorded::shared_folder() else { return };
    let checker = shared.join("conformance/http/cases.py");
    let topics: Vec<String> = recorded::names()
        .iter()
        .filter_map(|name| name.strip_prefix("http/")?.strip_suffix(".jsonl"))
        .map(str::to_owned)
        .collect();
    assert!(topics.len() > 30);
    let (next, differences) = (AtomicUsize::new(0), Mutex::new(String::new()));
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(topic) = topics.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let has_ages = recorded::text(&format!("http/{topic}.jsonl")).contains("\"Age\"");
                    let tries = if has_ages { TRIES_FOR_AN_AGE } else { 1 };
                    let mut found = check(&checker, topic);
                    for _ in 1..tries {
                        if !found.0 {
                            found = check(&checker, topic);
                        }
                    }
                    if !found.0 {
                        differences.lock().unwrap().push_str(&format!("{topic}:\n{}\n", found.1));
                    }
                }
            });
        }
    });
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "{differences}");
}
