//! A process that may write no larger files meets the end of its room as on a full disk: writes are refused, nothing of
//! them is there, what was acknowledged stays, and writes go on once there is room.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use portcullis_store::{Expect, List, Options, Revision, Store, StoreError, Value, Write};
use portcullis_testkit::scratch::Scratch;

/// Names the store to the process that writes.
const STORE: &str = "PORTCULLIS_TEST_FULL_STORE";
const NAME: &str = "a_full_disk_refuses_writes_and_room_lets_them_go_on";

/// What the process may write, in the 512 bytes that a shell counts in.
const ROOM: &str = "8192";

#[test]
fn a_full_disk_refuses_writes_and_room_lets_them_go_on() {
    if let Some(path) = std::env::var_os(STORE) {
        write_until_full(Path::new(&path));
    }
    let folder = Scratch::new();
    let path = folder.path().join("store");
    // Without the signal, a write beyond the limit fails as one to a full disk does.
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ && ulimit -S -f \"$0\" && exec \"$@\"", ROOM])
        .arg(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(STORE, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = |what: &str| {
        let line = lines.find_map(|line| line.split_once(what).map(|(_, rest)| rest.to_owned()));
        line.unwrap_or_else(|| panic!("the process has ended without saying {what:?}"))
    };
    let full: u64 = said("full at ").parse().unwrap();
    assert!(full > 10, "there was room for {full} commits only");
    let message = said("because ");
    assert!(message.contains(path.to_str().unwrap()), "{message}");
    assert!(message.contains("room"), "what to do: {message}");
    let pid = child.id().to_string();
    assert!(Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status().unwrap().success());
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let done: u64 = said("done at ").parse().unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(done, full + 50);

    let store = Options::file(&path).open().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    check(&runtime, &store, done);
}

/// Whether exactly the first commits are there, each with all its keys.
fn check(runtime: &tokio::runtime::Runtime, store: &impl Store, commits: u64) {
    assert_eq!(store.revision(), Revision(commits + 1));
    let entries = runtime.block_on(store.list(&List::default())).unwrap().entries;
    let found: Vec<_> = entries.iter().map(|entry| (&*entry.key, &entry.value, entry.modified)).collect();
    let due: Vec<_> = (1..=commits)
        .flat_map(|number| ["a", "b", "c"].map(|key| (format!("/{number:06}/{key}"), number)))
        .map(|(key, number)| (key, value(number), Revision(number + 1)))
        .collect();
    let due: Vec<_> = due.iter().map(|(key, value, revision)| (key.as_str(), value, *revision)).collect();
    assert_eq!(found, due);
}

fn value(number: u64) -> Bytes {
    vec![number as u8; 1_000 + (number as usize * 37) % 9_000].into()
}

fn commit(number: u64) -> Vec<Write> {
    let write = |key: &str| Write {
        key: format!("/{number:06}/{key}").into(),
        expect: Expect::Absent,
        value: Some(Value { bytes: value(number), revision_at: None, relies_on: None }),
    };
    ["a", "b", "c"].map(write).into()
}

fn write_until_full(path: &Path) -> ! {
    let say = |text: &str| std::io::stdout().write_all(format!("{text}\n").as_bytes()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = Options::file(path).open().unwrap();
    let mut number = 0;
    let message = loop {
        match runtime.block_on(store.commit(commit(number + 1))) {
            Ok(_) => number += 1,
            Err(StoreError::Broken(message)) => break message,
            Err(other) => panic!("{other}"),
        }
    };
    check(&runtime, &store, number);
    for _ in 0..3 {
        let again = runtime.block_on(store.commit(commit(number + 1)));
        assert!(matches!(again, Err(StoreError::Broken(_))), "{again:?}");
        check(&runtime, &store, number);
    }
    say(&format!("full at {number}"));
    say(&format!("because {message}"));
    std::io::stdin().read_line(&mut String::new()).unwrap();
    for _ in 0..50 {
        number += 1;
        runtime.block_on(store.commit(commit(number))).unwrap();
    }
    check(&runtime, &store, number);
    drop(store);
    say(&format!("done at {number}"));
    std::process::exit(0)
}
