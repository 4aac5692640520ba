//! What README.md and the pages under docs/ show is what the program does: every `console` example is run.
//!
//! Commands of other programs are shown for people and not run here.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use portcullis_testkit::pages::{self, Example};
use portcullis_testkit::program;
use portcullis_testkit::recorded::repository;

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![repository().join("README.md"), repository().join("ARCHITECTURE.md")];
    let mut folders = vec![repository().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Runs a command as somebody in the repository's root would, and gives what it prints.
fn printed_by(command: &str) -> Vec<String> {
    let output = Command::new("bash")
        .args(["-c", &format!("{{ {command}\n}} 2>&1")])
        .current_dir(repository())
        .env("PATH", program!().search_path())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_example_prints_what_the_page_says() {
    let examples: Vec<Example> =
        pages().iter().flat_map(|page| pages::examples(page, "portcullis")).collect();
    // Those need a server or an etcd: the tests `kubectl`, `attest`, `audit` and `store` type them.
    let typed_elsewhere = [
        "docs/attestation.md",
        "docs/bootstrap.md",
        "docs/collect.md",
        "docs/etcd.md",
        "docs/guard.md",
        "docs/kubectl-plugin.md",
        "docs/node-identity.md",
        "docs/start/bare-metal.md",
        "docs/start/control-plane.md",
        "docs/start/kube-apiserver.md",
        "docs/webhook.md",
    ];
    let examples: Vec<Example> =
        examples.into_iter().filter(|example| !typed_elsewhere.contains(&example.file.as_str())).collect();
    for page in ["README.md", "docs/node-authorizer.md"] {
        assert!(examples.iter().any(|example| example.file == page), "{page} has examples");
    }
    for Example { file, line, command, expected } in examples {
        let printed = printed_by(&command);
        assert!(
            pages::fits(&expected, &printed),
            "{file}:{line}: {command}\nsays:\n{}\nprints:\n{}",
            expected.join("\n"),
            printed.join("\n")
        );
    }
}

#[test]
fn every_page_that_a_page_links_to_is_there() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (_, rest) in text.match_indices("](").map(|(at, _)| text.split_at(at + 2)) {
            let target = rest.split([')', '#']).next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = page.parent().unwrap().join(target);
            assert!(path.exists(), "{} links to {target}, which is not there", page.display());
        }
    }
}

#[test]
fn the_demonstration_shows_the_expected_answers_and_leaves_nothing_behind() {
    let scratch = portcullis_testkit::scratch::Scratch::new();
    let output = Command::new(repository().join("demo"))
        .env("PORTCULLIS", program!().path())
        .env("TMPDIR", scratch.path())
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{shown}\n{complaints}", output.status);
    assert!(shown.contains("\"allowed\":true") && shown.contains("\"allowed\":false"), "{shown}");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "the keys are gone");
}

#[test]
fn every_file_in_the_map_is_there() {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let map = text.split("## Where is what").nth(1).unwrap();
    let mut folder = PathBuf::new();
    let mut count = 0;
    for name in map.split('`').skip(1).step_by(2).filter(|name| name.contains('/') || name.ends_with(".rs")) {
        // A name without its folder lies beside the one before it.
        let path = if name.starts_with("crates/") || name.starts_with("tests/") {
            let path = repository().join(name);
            folder = if name.ends_with('/') { path.clone() } else { path.parent().unwrap().to_owned() };
            path
        } else {
            folder.join(name)
        };
        assert!(path.exists(), "{name}, at {}", path.display());
        count += 1;
    }
    assert!(count > 20, "the map names files");
}
