//! A process that writes is killed again and again, at any moment. What it was told was written must be there, what it
//! was not told is there as a whole or not at all, and revisions never go back.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use portcullis_store::{Embedded, Expect, List, Options, Revision, Store, Value, Write};
use portcullis_testkit::mutate::dice;
use portcullis_testkit::scratch::Scratch;

/// Names the store to the process that writes.
const STORE: &str = "PORTCULLIS_TEST_CRASH_STORE";

const KILLS: u64 = 220;
const WRITERS: u64 = 8;

/// How many of the keys that a writer adds one by one it keeps.
const KEPT: u64 = 12;

#[test]
fn what_was_acknowledged_survives_kill_and_nothing_is_there_by_half() {
    if let Some(path) = std::env::var_os(STORE) {
        write_until_killed(Path::new(&path));
    }
    let folder = Scratch::new();
    let path = folder.path().join("store");
    let mut acknowledged = Acknowledged::default();
    let (mut commits, mut silent) = (0, 0);
    for round in 0..KILLS {
        let lines = killed(&path, dice(round));
        if lines.is_empty() {
            silent += 1;
        }
        commits += lines.len();
        acknowledged.extend(&lines);
        // Now and then the next process finds what the last one left behind, without a clean end in between.
        if round % 4 != 3 {
            acknowledged.compare(&Options::file(&path).open().unwrap());
        }
    }
    acknowledged.compare(&Options::file(&path).open().unwrap());
    assert!(commits > 10 * KILLS as usize, "{commits} commits are too few to say anything");
    assert!(silent < KILLS / 2, "{silent} processes were killed before they wrote");
}
/// Lets a process write, kills it, and returns what it was told: writer, number of the commit, revision.
fn killed(path: &Path, dice: u64) -> Vec<(u64, u64, Revision)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["what_was_acknowledged_survives_kill_and_nothing_is_there_by_half", "--exact", "--nocapture"])
        .env(STORE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    let from_first_commit = !dice.is_multiple_of(3);
    while from_first_commit && !first.contains("ack ") {
        assert!(output.read_line(&mut first).unwrap() > 0, "the process has ended by itself");
    }
    let reader = std::thread::spawn(move || {
        let mut text = first;
        std::io::Read::read_to_string(&mut output, &mut text).unwrap();
        text
    });
    std::thread::sleep(Duration::from_micros(dice % 60_000));
    child.kill().unwrap();
    child.wait().unwrap();
    let text = reader.join().unwrap();
    // The last line may have been cut off.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let acknowledgements = whole.lines().filter_map(|line| line.split_once("ack ").map(|(_, rest)| rest));
    acknowledgements
        .map(|line| {
            let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
            let mut next = || numbers.next().unwrap();
            (next(), next(), Revision(next()))
        })
        .collect()
}

/// What must be there.
#[derive(Default)]
struct Acknowledged {
    /// The number of each writer's last commit, with its revision.
    last: BTreeMap<u64, (u64, Revision)>,
    newest: Revision,
}

impl Acknowledged {
    fn extend(&mut self, lines: &[(u64, u64, Revision)]) {
        let before = self.newest;
        for (writer, number, revision) in lines {
            assert!(*revision > before, "revisions go on where they were");
            let last = self.last.insert(*writer, (*number, *revision));
            assert!(last.is_none_or(|(last, _)| last < *number));
            self.newest = self.newest.max(*revision);
        }
    }

    /// Holds a store against it, and takes over what is there beyond it.
    fn compare(&mut self, store: &Embedded) {
        assert!(store.revision() >= self.newest, "{:?} after {:?}", store.revision(), self.newest);
        self.newest = store.revision();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for writer in 0..WRITERS {
            let list = List { prefix: format!("/{writer}/").into(), ..List::default() };
            let entries = runtime.block_on(store.list(&list)).unwrap().entries;
            let found: BTreeMap<String, u64> = entries
                .iter()
                .map(|entry| {
                    let text = std::str::from_utf8(&entry.value).unwrap();
                    let (number, rest) = text.split_once(' ').unwrap();
                    let (revision, filling) = rest.split_once(' ').unwrap();
                    assert_eq!(revision, entry.modified.0.to_string(), "the revision in the value");
                    let number = number.parse().unwrap();
                    assert_eq!(filling.len(), filling_of(writer, number));
                    (entry.key.to_string(), number)
                })
                .collect();
            let number = found.get(&format!("/{writer}/always")).copied().unwrap_or_default();
            assert_eq!(found, state_of(writer, number), "one commit is there by half");
            let (acknowledged, revision) = self.last.get(&writer).copied().unwrap_or_default();
            assert!(number >= acknowledged, "writer {writer} lost {acknowledged}: {number} is there");
            let newest = entries.iter().map(|entry| entry.modified).max().unwrap_or_default();
            assert!(newest >= revision);
            self.last.insert(writer, (number, newest));
        }
    }
}

/// What a writer leaves behind: a key that each commit writes, one that each other commit removes, and the last few of
/// those that each commit adds.
fn state_of(writer: u64, number: u64) -> BTreeMap<String, u64> {
    let mut state = BTreeMap::new();
    if number > 0 {
        state.insert(format!("/{writer}/always"), number);
    }
    if number % 2 == 1 {
        state.insert(format!("/{writer}/odd"), number);
    }
    for kept in number.saturating_sub(KEPT - 1).max(1)..=number {
        state.insert(format!("/{writer}/kept/{kept}"), kept);
    }
    state
}

fn filling_of(writer: u64, number: u64) -> usize {
    let dice = dice(writer * 1_000_003 + number);
    if dice.is_multiple_of(16) { dice as usize % 9_000 } else { dice as usize % 700 }
}

/// The commit that leads from one number to the next.
fn commit(writer: u64, number: u64) -> Vec<Write> {
    let before = state_of(writer, number - 1);
    let after = state_of(writer, number);
    let mut writes = Vec::new();
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        writes.push(Write { key: key.as_str().into(), expect: Expect::Anything, value: None });
    }
    for key in after.iter().filter(|(key, value)| before.get(*key) != Some(value)).map(|(key, _)| key) {
        let head = format!("{number} ");
        let text = format!("{head} {}", "x".repeat(filling_of(writer, number)));
        let value = Value { bytes: Bytes::from(text), revision_at: Some(head.len()), relies_on: None };
        writes.push(Write { key: key.as_str().into(), expect: Expect::Anything, value: Some(value) });
    }
    writes
}

/// Writes on from what is there, and says what was acknowledged.
fn write_until_killed(path: &Path) -> ! {
    let store = Options::file(path).open().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let entry = runtime.block_on(store.get(&format!("/{writer}/always"))).unwrap();
                let text = entry.map_or(Bytes::from_static(b"0 "), |entry| entry.value.clone());
                let number = std::str::from_utf8(&text).unwrap().split(' ').next().unwrap().parse().unwrap();
                for number in (1_u64..).skip_while(|next| *next <= number) {
                    let done = runtime.block_on(store.commit(commit(writer, number))).unwrap();
                    let line = format!("ack {writer} {number} {}\n", done.revision.0);
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
    std::process::exit(0)
}
