//! The libraries that others embed can be packaged for crates.io, and nothing else is. Those that decide need no operating system.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use serde_json::Value;

/// The libraries, each after those that it depends on.
const PUBLISHED: [&str; 3] = ["apimachinery", "policy", "pki"];

fn cargo(words: &[&str]) -> String {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo).args(words).current_dir(repository()).output().unwrap();
    assert!(output.status.success(), "cargo {words:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The members of the workspace, as `cargo metadata` prints them.
fn members() -> Vec<Value> {
    let all: Value =
        serde_json::from_str(&cargo(&["metadata", "--no-deps", "--locked", "--format-version", "1"]))
            .unwrap();
    all["packages"].as_array().unwrap().clone()
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("{} has no {field}", value["name"]))
}

#[test]
fn the_libraries_alone_may_be_published() {
    let may = members().into_iter().filter(|member| member["publish"] != Value::Array(Vec::new()));
    let found: BTreeSet<String> = may.map(|member| text(&member, "name").to_owned()).collect();
    assert_eq!(found, PUBLISHED.map(|name| format!("portcullis-{name}")).into());
}

#[test]
fn the_libraries_say_what_crates_io_asks_for() {
    let members = members();
    for name in PUBLISHED {
        let package = format!("portcullis-{name}");
        let member = members.iter().find(|member| member["name"] == package.as_str()).unwrap();
        assert!(
            !text(member, "description").is_empty() && text(member, "license") == "Apache-2.0",
            "{package}"
        );
        assert_eq!(text(member, "documentation"), format!("https://docs.rs/{package}"));
        assert_eq!(text(member, "readme"), "README.md");
        assert!(!member["categories"].as_array().unwrap().is_empty(), "{package} has no categories");
        let keywords = member["keywords"].as_array().unwrap();
        assert!((1..=5).contains(&keywords.len()), "{package} has one to five keywords");
        assert!(keywords.iter().all(|word| word.as_str().unwrap().len() <= 20), "{package}: {keywords:?}");
        let version = text(member, "version");
        for needed in member["dependencies"].as_array().unwrap() {
            // Without a version, only tests use it: Cargo leaves it out.
            let is_ours = needed["path"].is_string();
            let for_tests = needed["kind"] == "dev" && needed["req"] == "*";
            let is_same = needed["req"].as_str() == Some(&format!("^{version}"));
            assert!(
                !is_ours || for_tests || is_same,
                "{package}: {} must have version {version}",
                needed["name"]
            );
        }
    }
}

#[test]
fn a_package_has_its_sources_its_examples_and_its_licence() {
    let licence = fs::read_to_string(repository().join("LICENSE")).unwrap();
    for name in PUBLISHED {
        let folder = repository().join("crates").join(name);
        assert_eq!(fs::read_to_string(folder.join("LICENSE")).unwrap(), licence, "crates/{name}/LICENSE");
        let listed =
            cargo(&["package", "--list", "--allow-dirty", "--offline", "-p", &format!("portcullis-{name}")]);
        let files: BTreeSet<&str> = listed.lines().collect();
        for file in ["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"] {
            assert!(files.contains(file), "portcullis-{name} has no {file}");
        }
        for entry in fs::read_dir(folder.join("examples")).into_iter().flatten() {
            let file = format!("examples/{}", entry.unwrap().file_name().to_str().unwrap());
            assert!(files.contains(file.as_str()), "portcullis-{name} has no {file}");
        }
        let made =
            ["Cargo.lock", "Cargo.toml.orig", ".cargo_vcs_info.json", "Cargo.toml", "LICENSE", "README.md"];
        let other = files
            .iter()
            .find(|file| !made.contains(file) && !file.starts_with("src/") && !file.starts_with("examples/"));
        assert_eq!(other, None, "portcullis-{name} has a file that nobody needs");
    }
}

#[test]
fn the_libraries_can_be_packaged_together() {
    let scratch = Scratch::new();
    let target = scratch.path().to_str().unwrap();
    let packages = PUBLISHED.map(|name| format!("portcullis-{name}"));
    let mut words = vec!["package", "--no-verify", "--allow-dirty", "--offline", "--target-dir", target];
    words.extend(packages.iter().flat_map(|package| ["-p", package]));
    cargo(&words);
}

/// `docs/embedding.md` promises it. The target has no files, no clock, no threads and no C library.
#[test]
fn the_library_that_decides_is_built_for_a_target_without_an_operating_system() {
    let target = "wasm32-unknown-unknown";
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .current_dir(repository())
        .output()
        .unwrap();
    let folder = String::from_utf8(libraries.stdout).unwrap();
    assert!(Path::new(folder.trim()).is_dir(), "run `rustup target add {target}`");
    // A folder of its own: another cargo may hold the lock of the usual one for minutes.
    let scratch = Scratch::new();
    let built = scratch.path().to_str().unwrap();
    cargo(&["check", "--locked", "-p", "portcullis-policy", "--target", target, "--target-dir", built]);
}
