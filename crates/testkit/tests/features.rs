//! Every feature gate has something that asks whether it is on: a gate that nothing reads promises what is not there.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use portcullis_testkit::recorded::repository;

/// The gates that nothing reads, each with its reason.
const UNREAD: &[(&str, &str)] =
    &[("AuthorizeWithSelectors", "locked on in 1.36: authorizers are always told the selectors (AC-48)")];

/// The names in the table of gates.
fn gates(features: &str) -> BTreeSet<&str> {
    let (_, table) = features.split_once("const GATES: &[Gate] = gates![").unwrap();
    let (table, _) = table.split_once("];").unwrap();
    table.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

/// The gates that a file names, its comments and its tests apart.
fn named_in(source: &str, names: &mut BTreeSet<String>) {
    let product = source.split_once("#[cfg(test)]").map_or(source, |(product, _)| product);
    for line in product.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for (_, rest) in line.match_indices("Feature::").map(|(at, name)| line.split_at(at + name.len())) {
            names.insert(rest.chars().take_while(char::is_ascii_alphanumeric).collect());
        }
    }
    // `use crate::features::Feature::{A, B};`
    for (_, list) in product.match_indices("Feature::{").map(|(at, start)| product.split_at(at + start.len()))
    {
        let (list, _) = list.split_once('}').unwrap();
        names.extend(list.split(',').map(|name| name.trim().to_owned()));
    }
}

fn read(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("policy/src/features/mod.rs")
        {
            named_in(&fs::read_to_string(&path).unwrap(), names);
        }
    }
}

#[test]
fn every_gate_is_read_by_something_or_listed_with_its_reason() {
    let features = fs::read_to_string(repository().join("crates/policy/src/features/mod.rs")).unwrap();
    let gates = gates(&features);
    assert!(gates.len() > 20, "{gates:?}");
    let mut names = BTreeSet::new();
    for krate in fs::read_dir(repository().join("crates")).unwrap() {
        let path = krate.unwrap().path();
        if !path.ends_with("testkit") {
            read(&path.join("src"), &mut names);
        }
    }
    let unread: BTreeSet<&str> = gates.iter().copied().filter(|gate| !names.contains(*gate)).collect();
    let listed: BTreeSet<&str> = UNREAD.iter().map(|(gate, _)| *gate).collect();
    assert_eq!(unread, listed, "read the gate where it decides, or list why nothing does");
}
