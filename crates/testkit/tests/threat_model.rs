//! The threat model, and the page on the attestation proposal, name tests that exist.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Adds the names of all functions in the files below a folder that are tests.
fn add_tests(folder: &Path, tests: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            add_tests(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            // Attributes with arguments and properties are tests too.
            for part in text.split("#[test]").skip(1).chain(text.split("#[tokio::test").skip(1)) {
                let name = part.split_once("fn ").map_or("", |(_, rest)| rest);
                tests.insert(name.split('(').next().unwrap().to_owned());
            }
        }
    }
}

#[test]
fn every_test_of_the_threat_model_exists() {
    assert!(named_tests("docs/threat-model.md") > 30);
}

#[test]
fn every_test_of_the_attestation_proposal_exists() {
    assert!(named_tests("docs/attestation-proposal.md") > 15);
}

/// Checks that the last column of a page's tables names tests that exist. Returns the number of rows.
fn named_tests(page: &str) -> usize {
    let mut tests = BTreeSet::new();
    add_tests(&root().join("crates"), &mut tests);
    let page = fs::read_to_string(root().join(page)).unwrap();
    let mut rows = 0;
    for line in page.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        let [_, _, named] = cells.as_slice() else { panic!("not three columns: {line}") };
        let names: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test answers this: {line}");
        for name in names {
            assert!(tests.contains(name), "there is no test {name}");
        }
        rows += 1;
    }
    rows
}
