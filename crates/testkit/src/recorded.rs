//! The recorded answers of Kubernetes 1.36 under `tests/recorded/`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

/// The members that recorded answers lack wherever they stood, for they differ from run to run: unique ids, revisions,
/// times, texts for people.
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

/// A document without what recordings lack ([`LEFT_OUT`]).
pub fn cleaned(document: &Value) -> Value {
    without(document, LEFT_OUT)
}

/// A document without the members of these names, wherever they stand.
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
    let path = folder().join(format!("{name}.gz"));
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
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

/// The folder `shared` that lies beside the repository or above it and holds the recordings as they were made, or
/// nothing where there is none.
///
/// # Panics
/// In CI (`CI` is set) it must be there.
pub fn shared_folder() -> Option<PathBuf> {
    let repository = repository();
    let found = repository
        .ancestors()
        .map(|folder| folder.join("shared"))
        .find(|folder| folder.join("conformance").is_dir());
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "shared/conformance must be there in CI");
    found
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
