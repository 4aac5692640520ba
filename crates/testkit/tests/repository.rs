//! Conventions that no compiler checks, over every file of the repository.
#![allow(
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::fs;
use std::path::{Path, PathBuf};

use portcullis_testkit::recorded::repository;

/// Generated files.
const MADE: &[&str] = &["target", ".git", "artifacts", "recorded", "portcullis-data"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if MADE.contains(&name) {
            continue;
        }
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn all_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&repository(), &mut found);
    assert!(found.len() > 20, "the repository has files");
    found
}

#[test]
fn every_module_opens_by_saying_what_it_is_for() {
    for path in all_files().iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with("//! "), "{} must open with //!", path.display());
    }
}

#[test]
fn no_file_speaks_of_a_machine_or_leaves_work_undone() {
    // Written in halves, so that this file passes as well.
    let forbidden: Vec<String> = [
        ("/ro", "ot/"),
        ("/ho", "me/"),
        ("/wo", "rk/"),
        ("/Use", "rs/"),
        ("TO", "DO"),
        ("FIX", "ME"),
        ("XX", "X"),
        ("local", "host:5000"),
    ]
    .iter()
    .map(|(start, end)| format!("{start}{end}"))
    .collect();
    for path in all_files() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for word in &forbidden {
            let line = text.lines().position(|line| line.contains(word.as_str()));
            assert_eq!(line, None, "{}: {word:?} (lines from 0)", path.display());
        }
    }
}

#[test]
fn no_test_is_ignored() {
    let ignored = format!("#[{}", "ignore");
    for path in all_files().iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let text = fs::read_to_string(path).unwrap();
        assert!(!text.contains(&ignored), "{} ignores a test", path.display());
    }
}
