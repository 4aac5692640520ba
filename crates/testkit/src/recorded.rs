//! The recorded answers of Kubernetes 1.36 under `tests/recorded/`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

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

/// The folder of reference data beside the repository, found by walking up from it: nothing where it is not kept.
///
/// # Panics
/// In CI, where it must be there.
pub fn shared_folder() -> Option<PathBuf> {
    let found =
        repository().ancestors().map(|up| up.join("shared")).find(|folder| folder.join("data/rbac").is_dir());
    assert!(
        found.is_some() || std::env::var_os("CI").is_none(),
        "the reference data is not there: CI needs a folder shared/data/rbac beside the repository"
    );
    found
}
