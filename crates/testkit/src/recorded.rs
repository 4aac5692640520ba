//! The recorded answers of Kubernetes 1.36 under `tests/recorded/`.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::scratch::Scratch;

/// The members that recorded answers lack at any depth, because they differ from run to run: uids, revisions, times,
/// messages.
pub const LEFT_OUT: &[&str] = &[
    "certificate",
    "continue",
    "creationTimestamp",
    "deletionTimestamp",
    "eventTime",
    "expirationTimestamp",
    "firstTimestamp",
    "generation",
    "hash",
    "kubeProxyVersion",
    "lastHeartbeatTime",
    "lastTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "managedFields",
    "message",
    "observedGeneration",
    "remainingItemCount",
    "resourceVersion",
    "retryAfterSeconds",
    "selfLink",
    "startTime",
    "time",
    "token",
    "uid",
];

/// A document without the members that recordings lack ([`LEFT_OUT`]).
pub fn cleaned(document: &Value) -> Value {
    without(document, LEFT_OUT)
}

/// As [`cleaned`], but with the members of these names as a whole; the times in them are replaced by `<time>`.
pub fn cleaned_but(document: &Value, kept: &[&str]) -> Value {
    match document {
        Value::Array(items) => items.iter().map(|item| cleaned_but(item, kept)).collect(),
        Value::Object(members) => {
            let is_left = |name: &str| kept.contains(&name) || !LEFT_OUT.contains(&name);
            let left = members.iter().filter(|(name, _)| is_left(name));
            let clean = |name: &str, value| match kept.contains(&name) {
                true => timeless(value),
                false => cleaned_but(value, kept),
            };
            left.map(|(name, value)| (name.clone(), clean(name, value))).collect()
        }
        other => other.clone(),
    }
}

/// A value with all times in texts replaced by `<time>`.
pub fn timeless(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(timeless).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), timeless(value))).collect()
        }
        Value::String(text) => without_times(text).into(),
        other => other.clone(),
    }
}

/// A text with each time as in objects, `2026-01-02T03:04:05Z` with or without a fraction or an offset, replaced by
/// `<time>`.
fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match time_at(rest) {
            Some(length) => {
                out.push_str("<time>");
                rest = rest.get(length..).unwrap_or_default();
            }
            None => {
                out.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
    out
}

/// The length of the time that a text begins with.
fn time_at(text: &str) -> Option<usize> {
    let is_like = |text: &str, pattern: &str| {
        let like =
            |(byte, wanted): (u8, u8)| if wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted };
        text.len() >= pattern.len() && text.bytes().zip(pattern.bytes()).all(like)
    };
    let seconds = "0000-00-00T00:00:00";
    if !is_like(text, seconds) {
        return None;
    }
    let mut at = seconds.len();
    let rest = |at: usize| text.get(at..).unwrap_or_default();
    if let Some(fraction) = rest(at).strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            at += digits + 1;
        }
    }
    match rest(at) {
        zone if zone.starts_with('Z') => Some(at + 1),
        zone if is_like(zone, "+00:00") || is_like(zone, "-00:00") => Some(at + "+00:00".len()),
        _ => None,
    }
}

/// A document without the members of these names, at any depth.
pub fn without(document: &Value, names: &[&str]) -> Value {
    match document {
        Value::Array(items) => items.iter().map(|item| without(item, names)).collect(),
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| !names.contains(&name.as_str()));
            kept.map(|(name, value)| (name.clone(), without(value, names))).collect()
        }
        other => other.clone(),
    }
}

/// Whether all that is in `a` is in `b`: objects may have more members there.
pub fn is_within(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.iter().all(|(name, value)| b.get(name).is_some_and(|other| is_within(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_within(a, b))
        }
        (a, b) => a == b,
    }
}

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// The folder of the recordings.
pub fn folder() -> PathBuf {
    repository().join("tests/recorded")
}

/// The text of a recording, named as it was recorded: `rbac/case1/reviews.jsonl`.
pub fn text(name: &str) -> String {
    decompressed(&folder().join(format!("{name}.gz")))
}

/// The text of a gzip file.
pub fn decompressed(path: &Path) -> String {
    let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text
}

/// The lines of a recording, each parsed.
pub fn lines(name: &str) -> Vec<Value> {
    let lines: Vec<Value> = text(name)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{name}: {e}: {line}")))
        .collect();
    assert!(!lines.is_empty(), "{name} holds no line");
    lines
}

/// Writes a recording to a folder as it was recorded, for a program that reads files, and returns its path.
pub fn unpacked(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.write(name.rsplit('/').next().unwrap_or(name), text(name))
}

/// The folder of the original recordings, `shared`, which lies beside the repository or above it. Tests use the copies
/// in the repository; only the test that compares both needs the originals.
///
/// Without them, it says on standard error that nothing was compared.
///
/// # Panics
/// In CI (`CI` is set) the originals must be there.
pub fn originals() -> Option<PathBuf> {
    let repository = repository();
    let found = repository
        .ancestors()
        .map(|folder| folder.join("shared"))
        .find(|folder| folder.join("conformance").is_dir());
    if found.is_none() {
        let problem = "there is no folder shared/conformance beside the repository or above it";
        assert!(std::env::var_os("CI").is_none(), "{problem}: in CI the recordings must be compared");
        // Not by a macro: its output would be shown only if the test failed.
        let _ = writeln!(io::stderr(), "{problem}: the recordings were compared with NOTHING");
    }
    found
}

/// The controllers (`--controllers`) of a server that is compared with recordings: no kube-controller-manager ran beside
/// the recorded API server.
pub const CONTROLLERS: &str =
    "*,-garbagecollector,-nodelifecycle,-podgc,-pv-protection,-pvc-protection,-taint-eviction";

/// The names of the recorded HTTP exchanges.
pub fn exchanges() -> Vec<String> {
    let mut names = names();
    names.retain(|name| name.starts_with("http/") && name.ends_with(".jsonl"));
    assert!(names.len() > 30, "the recordings are there");
    names
}

/// The names of all recordings, as [`text`] takes them.
pub fn names() -> Vec<String> {
    fn walk(folder: &Path, under: &str, names: &mut Vec<String>) {
        let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for entry in entries {
            let entry = entry.expect("the folder is readable");
            let name = format!("{under}{}", entry.file_name().to_str().expect("recordings have plain names"));
            if entry.path().is_dir() {
                walk(&entry.path(), &format!("{name}/"), names);
            } else if let Some(name) = name.strip_suffix(".gz") {
                names.push(name.to_owned());
            }
        }
    }
    let mut names = Vec::new();
    walk(&folder(), "", &mut names);
    names.sort();
    names
}
