//! docs/compatibility.md is complete: it names every place where the code says that it differs from Kubernetes.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use portcullis_testkit::recorded::repository;

/// The mark, in halves, so that this file has none.
fn mark() -> String {
    ["DIV", "ERGES"].concat()
}

/// How many marks each source file has. A mark in backquotes speaks of marks.
fn marks(folder: &Path, found: &mut BTreeMap<String, usize>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            marks(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let quoted = text.matches(&format!("`{}", mark())).count();
            let count = text.matches(&mark()).count() - quoted;
            if count > 0 {
                let name = path.strip_prefix(repository()).unwrap().display().to_string();
                found.insert(name, count);
            }
        }
    }
}

fn page() -> String {
    fs::read_to_string(repository().join("docs/compatibility.md")).unwrap()
}

#[test]
fn every_marked_difference_is_on_the_page() {
    let mut found = BTreeMap::new();
    marks(&repository().join("crates"), &mut found);
    assert!(found.len() > 5, "the marks are found: {found:?}");
    let page = page();
    for (file, count) in found {
        let named = page.matches(&format!("`{file}`")).count();
        assert_eq!(named, count, "docs/compatibility.md must name `{file}` once for each mark in it");
    }
}

#[test]
fn every_row_says_all_five_things() {
    for line in page().lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 5, "{line}");
        assert!(cells.iter().skip(1).all(|cell| !cell.trim().is_empty()), "an empty cell: {line}");
    }
}
