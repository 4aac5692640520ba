//! The recorded exchanges of Kubernetes 1.36, replayed over HTTPS by the checker that came with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::recorded;
use crate::scratch::Scratch;
use crate::tool::{self, Finished};

/// How often a recording is replayed if nothing differs but cases whose answer depends on when a second ends: how many
/// seconds a second of the server takes in each try. A busy machine needs more than a second for requests that were recorded
/// within one.
const TRIES: [Clock; 3] = [Clock { slower: 1 }, Clock { slower: 4 }, Clock { slower: 8 }];
/// What such an answer has. A slow machine may step over an age that is waited for; and entries of `managedFields` get another
/// order if a second ends between requests that were recorded within one.
const OF_SECONDS: [&str; 2] = ["\"Age\"", "\"managedFields\""];

/// The cases that are answered differently: the recording, and the id. See docs/compatibility.md.
const OTHERWISE: &[(&str, &str)] = &[
    // On purpose (CS-18): keys on P-224 are refused.
    ("csr-create-request", "key-p224"),
    // On purpose (ST-2): an object that is too large to be stored is refused with 413. Kubernetes answers 500.
    ("crd-verbs", "big-1.6m"),
    // On purpose (AP-17): the error names the media types that custom objects have. Kubernetes also names protobuf.
    ("crd-tables", "protobuf"),
];

/// Those of which the code alone is compared.
const ONLY_THE_CODE: &[(&str, &str)] = &[
    // On purpose: Kubernetes forgets all managers when an update is made in a version that lacks a managed field.
    ("crd-versions", "update-a-v1alpha1"),
];

/// Whether a line of a recording is one of these cases.
fn is_one_of(cases: &[(&str, &str)], recording: &str, line: &str) -> bool {
    cases.iter().any(|(topic, id)| {
        recording == format!("http/{topic}.jsonl") && line.contains(&format!(r#""id":"{id}""#))
    })
}

/// Whether a case names the certificate of the administrator, which each server makes for itself.
fn names_administrator(line: &str) -> bool {
    line.contains("[\"X509SHA256=")
}

/// Whether all cases that the checker prints as different have answers that depend on when a second ends.
fn depend_on_seconds(recording: &str, differences: &str) -> bool {
    // `ID: METHOD PATH`, and below it two indented lines.
    let titles = differences.lines().filter(|line| !line.starts_with(' '));
    let mut ids = titles.filter_map(|line| Some(line.split_once(": ")?.0)).peekable();
    ids.peek().is_some()
        && ids.all(|id| {
            let case = recording.lines().find(|line| line.contains(&format!("\"id\":\"{id}\"")));
            case.is_some_and(|case| OF_SECONDS.iter().any(|word| case.contains(word)))
        })
}

/// The clock of the servers that a recording is replayed against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// How many seconds one of its seconds takes.
    slower: u64,
}

impl Clock {
    /// Makes the time of day pass for a command as it passes for this clock. Timers are not affected.
    pub fn set_for(self, command: &mut Command) {
        if self.slower > 1 {
            tool::require("faketime");
            // Not by the command `faketime`, which starts another process: a test stops the process that it has started.
            command.env("LD_PRELOAD", "/usr/$LIB/faketime/libfaketime.so.1");
            command.env("FAKETIME", format!("+0 x{}", 1.0 / self.slower as f64));
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
    }

    /// A case whose waits are as long for this clock as the recorded ones were.
    fn waits(self, case: &str) -> String {
        ["\"wait\":", "\"pause\":"].iter().fold(case.to_owned(), |case, name| {
            let Some((before, after)) = case.split_once(name) else { return case };
            let (seconds, rest) = after.split_at(after.find([',', '}']).unwrap_or(after.len()));
            let seconds: f64 = seconds.parse().unwrap_or_else(|e| panic!("{name}{seconds}: {e}"));
            format!("{before}{name}{}{rest}", seconds * self.slower as f64)
        })
    }
}

/// The checker.
#[derive(Debug)]
pub struct Checker(PathBuf);

impl Checker {
    /// Unpacks the checker to a folder, for as long as that is there.
    pub fn unpacked(scratch: &Scratch) -> Self {
        Self(recorded::unpacked(scratch, "http/cases.py"))
    }

    /// Replays a recording, each time against a new server, and returns the differences, if there are any. `serve` starts the
    /// server with this clock on a data directory below a folder, and returns what keeps it running, and the data directory.
    pub fn differences<S>(
        &self,
        recording: &str,
        serve: impl Fn(&Scratch, Clock) -> (S, PathBuf),
    ) -> Option<String> {
        let text = recorded::text(recording);
        let mut found = None;
        for clock in TRIES {
            let scratch = Scratch::new();
            let (_served, data) = serve(&scratch, clock);
            found = self.check(&scratch, recording, &data, clock);
            if !found.as_deref().is_some_and(|differences| depend_on_seconds(&text, differences)) {
                break;
            }
        }
        found.map(|differences| format!("{recording}:\n{differences}\n"))
    }

    fn check(&self, scratch: &Scratch, recording: &str, data: &Path, clock: Clock) -> Option<String> {
        let cases = recorded::unpacked(scratch, recording);
        let text = fs::read_to_string(&cases).unwrap();
        let is_kept = |line: &&str| !is_one_of(OTHERWISE, recording, line) && !names_administrator(line);
        let lines = text.lines().filter(is_kept).map(|line| {
            let line = clock.waits(line);
            match is_one_of(ONLY_THE_CODE, recording, &line) {
                true => format!("{}\n", line.replacen('{', r#"{"compare":"code","#, 1)),
                false => format!("{line}\n"),
            }
        });
        fs::write(&cases, lines.collect::<String>()).unwrap();
        let mut command = tool::command("python3");
        command.arg(&self.0).args(["check", "--kubeconfig"]).arg(data.join("admin.kubeconfig"));
        let finished = Finished::of(command.arg(cases));
        (finished.code != 0).then(|| finished.stdout + &finished.stderr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_that_depend_on_seconds_are_asked_for_again() {
        let recording = "{\"id\":\"a\",\"expect\":{\"body\":{\"metadata\":{\"managedFields\":[]}}}}\n{\"id\":\"b\",\"expect\":{}}\n";
        let differs =
            |id: &str| format!("{id}: GET /api/v1/pods\n   want {{}}\n   got  {{\"managedFields\": 1}}\n");
        let end = "2 checked, 1 differ\n";
        assert!(depend_on_seconds(recording, &(differs("a") + end)));
        assert!(!depend_on_seconds(recording, &(differs("b") + end)));
        assert!(!depend_on_seconds(recording, &(differs("a") + &differs("b") + end)));
        assert!(!depend_on_seconds(recording, "Traceback (most recent call last):\n  File\nKeyError: 'x'\n"));
        assert!(!depend_on_seconds(recording, end));
    }

    #[test]
    fn waits_are_longer_for_a_slower_clock() {
        let case = r#"{"id":"a","pause":1.5,"path":"/","wait":15}"#;
        assert_eq!(Clock { slower: 1 }.waits(case), case);
        assert_eq!(Clock { slower: 4 }.waits(case), r#"{"id":"a","pause":6,"path":"/","wait":60}"#);
    }
}
