//! `./release`: the files of a release, made twice and compared; and a Debian machine on which an administrator installs, uses, upgrades
//! and removes the package.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

mod container;
mod files;

use std::fs;
use std::path::Path;

use portcullis_testkit::program;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;

/// The version in Cargo.toml.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Packs the program of this test into a folder, from the files that are here, committed or not.
fn pack(out: &Path, version: &str) {
    let mut release = std::process::Command::new(repository().join("release"));
    release.args(["--allow-dirty", "--version", version, "--out"]).arg(out);
    // The program of this test was built for this machine.
    Finished::of(release.env("PORTCULLIS", program!().path())).ok();
}

/// The names of the files in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_release_is_the_same_bytes_each_time_and_is_installed_used_upgraded_and_removed_as_its_page_says() {
    let scratch = Scratch::new();
    let [one, other] = ["one", "other"].map(|name| scratch.path().join(name));
    pack(&one, VERSION);
    pack(&other, VERSION);
    assert_eq!(names(&one), names(&other));
    for name in names(&one) {
        assert_eq!(fs::read(one.join(&name)).unwrap(), fs::read(other.join(&name)).unwrap(), "{name}");
    }
    files::are_what_the_page_lists(&one);
    container::does_what_the_page_shows(&one);
}
