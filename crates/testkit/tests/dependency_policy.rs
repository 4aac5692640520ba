//! Which crates may be part of the build. The same rules stand in `deny.toml` for those who run cargo-deny; here they
//! are checked by every test run.
#![allow(
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_testkit::recorded::repository;

/// Crates that may not be compiled: a second crypto or TLS stack, and YAML readers that are given up.
const BANNED: &[&str] =
    &["native-tls", "openssl", "openssl-sys", "ring", "rustls-pemfile", "serde_yaml", "serde_yml"];

/// Crates that one member alone may name.
const CONFINED: &[(&str, &str)] =
    &[("axum", "server"), ("jsonwebtoken", "pki"), ("k8s-openapi", "client"), ("kube", "client")];

/// Crates without I/O, a clock or randomness of their own, and dependencies that would bring them. The lints of
/// `clippy-no-io.toml` say the same of the standard library.
const WITHOUT_IO: &[&str] = &["apimachinery", "attestation", "kinds", "pki", "policy"];
const DOES_IO: &[&str] = &["getrandom", "hyper", "hyper-util", "kube", "redb", "rustix", "tokio", "tracing"];

/// Libraries that are built without a C compiler, and crates that need one.
const WITHOUT_C: &[&str] = &["apimachinery", "kinds", "policy"];
const NEEDS_C: &[&str] = &["bindgen", "cc", "cmake", "pkg-config", "vcpkg"];

/// Licences that may be used.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that are compiled in two versions, and who must move before that ends.
const DUPLICATES: &[(&str, &str)] = &[
    ("base64", "jsonwebtoken, to base64 0.23"),
    ("cpufeatures", "crypto_secretbox, to cpufeatures 0.3"),
    ("getrandom", "ahash, by kube-runtime, to getrandom 0.4; the example of controllers alone"),
    ("hashbrown", "kube-runtime, to hashbrown 0.17; the example of controllers alone"),
    ("syn", "zerocopy-derive, to syn 3; build time only"),
    ("thiserror", "cel, to thiserror 2"),
    ("thiserror-impl", "cel, to thiserror 2"),
    ("untrusted", "aws-lc-rs, whose defaults jsonwebtoken asks for, to untrusted 0.9"),
];

/// Crates that no source names, and why they are declared.
const UNNAMED: &[(&str, &str)] =
    &[("k8s-openapi", "kube needs one of its features that name a version of Kubernetes")];

/// Every crate of the build for this machine, tests and build scripts included: name, version and licence.
fn crates() -> BTreeSet<(String, String, String)> {
    tree(&["--workspace", "--edges", "normal,build,dev"])
}

/// The crates that `cargo tree` lists: name, version and licence.
fn tree(words: &[&str]) -> BTreeSet<(String, String, String)> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--prefix", "none", "--format", "{p}|{l}|"])
        .args(words)
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let found: BTreeSet<_> = listed
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let mut parts = line.split('|');
            let mut package = parts.next().unwrap().split(' ');
            let mut next = || package.next().unwrap_or_else(|| panic!("a package: {line}")).to_owned();
            (next(), next(), parts.next().unwrap().to_owned())
        })
        .collect();
    assert!(found.iter().any(|(name, ..)| name == "serde_json"), "the tree is read");
    found
}

/// The crates that these members of the workspace need.
fn tree_of(members: &[&str], words: &[&str]) -> BTreeSet<(String, String, String)> {
    let packages: Vec<String> = members.iter().map(|member| format!("portcullis-{member}")).collect();
    let mut all = words.to_vec();
    all.extend(packages.iter().flat_map(|package| ["--package", package]));
    tree(&all)
}

#[test]
fn no_banned_crate_is_compiled() {
    for (name, version, _) in crates() {
        assert!(!BANNED.contains(&name.as_str()), "{name} {version}: see `cargo tree -i {name}`");
    }
}

#[test]
fn every_licence_is_one_that_we_may_use() {
    for (name, version, licence) in crates() {
        assert!(allowed(&licence), "{name} {version}: {licence}");
    }
}

/// Whether a licence expression can be met.
fn allowed(expression: &str) -> bool {
    let expression = expression.trim().replace('/', " OR ");
    split(&expression, " OR ").iter().any(|choice| {
        split(choice, " AND ").iter().all(|term| {
            let term = term.trim();
            match term.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
                Some(inner) => allowed(inner),
                None => LICENCES.contains(&term),
            }
        })
    })
}

/// Splits at an operator outside of parentheses.
fn split(expression: &str, operator: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for piece in expression.split_inclusive(operator) {
        let last = parts.last_mut().unwrap();
        last.push_str(piece);
        if last.matches('(').count() == last.matches(')').count() && last.ends_with(operator) {
            last.truncate(last.len() - operator.len());
            parts.push(String::new());
        }
    }
    parts
}

#[test]
fn licence_expressions_are_read_as_they_are_meant() {
    for yes in ["MIT", "MIT/GPL-3.0", "GPL-3.0 OR MIT", "(MIT OR GPL-3.0) AND Unicode-3.0", "ISC AND (MIT)"] {
        assert!(allowed(yes), "{yes}");
    }
    for no in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "(MIT AND GPL-3.0) OR GPL-2.0"] {
        assert!(!allowed(no), "{no}");
    }
}

#[test]
fn every_crate_comes_from_the_public_registry() {
    let lock = fs::read_to_string(repository().join("Cargo.lock")).unwrap();
    let registry = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    let sources: Vec<&str> = lock.lines().filter(|line| line.starts_with("source")).collect();
    assert!(!sources.is_empty());
    for source in sources {
        assert_eq!(source, registry);
    }
}

#[test]
fn crates_compiled_in_two_versions_are_known() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, version, _) in crates() {
        versions.entry(name).or_default().insert(version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let known: BTreeSet<&str> = DUPLICATES.iter().map(|(name, _)| *name).collect();
    let found: BTreeSet<&str> = versions.keys().map(String::as_str).collect();
    let new: Vec<_> = versions.iter().filter(|(name, _)| !known.contains(name.as_str())).collect();
    assert!(new.is_empty(), "new duplicates, see `cargo tree -d`: {new:?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "no longer duplicates, remove them from the list: {gone:?}");
}

#[test]
fn confined_crates_stay_where_they_belong() {
    for member in fs::read_dir(repository().join("crates")).unwrap() {
        let folder = member.unwrap().path();
        let member = folder.file_name().unwrap().to_str().unwrap();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for line in manifest.lines() {
            let name: String =
                line.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
            for (confined, home) in CONFINED {
                assert!(name != *confined || member == *home, "{confined} is named by {member}: {line}");
            }
        }
    }
}

/// Packages whose library has another name than the package.
const LIBRARIES: &[(&str, &str)] = &[("portcullis", "portcullis_cli"), ("rustls-webpki", "webpki")];

/// The packages of one section of a manifest.
fn declared(manifest: &str, section: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| *line != format!("[{section}]")).skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .map(|line| line.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect())
        .filter(|name: &String| !name.is_empty())
        .collect()
}

/// The text of all source files below a folder, without comments.
fn sources(folder: &Path) -> String {
    let Ok(entries) = fs::read_dir(folder) else { return String::new() };
    let mut text = String::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = fs::read_to_string(&path).unwrap();
            for line in file.lines().filter(|line| !line.trim_start().starts_with("//")) {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// Whether a source names a package's library, as the beginning of a path or in `use NAME as`, `use NAME;` or `extern crate NAME as`.
fn names(source: &str, package: &str) -> bool {
    let renamed = LIBRARIES.iter().find(|(known, _)| *known == package);
    let library = renamed.map_or_else(|| package.replace('-', "_"), |(_, library)| (*library).to_owned());
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    source.match_indices(&library).any(|(at, _)| {
        let (before, after) = (&source[..at], &source[at + library.len()..]);
        let begins = !before.strip_suffix("::").unwrap_or(before).ends_with(is_part);
        let is_used = (before.ends_with("use ") || before.ends_with("extern crate "))
            && (after.starts_with(" as ") || after.starts_with(';'));
        begins && (after.starts_with("::") || is_used)
    })
}

fn members() -> Vec<PathBuf> {
    let crates = fs::read_dir(repository().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    crates
        .chain(["examples/controllers", "fuzz", "site/explain"].map(|member| repository().join(member)))
        .collect()
}

#[test]
fn crates_without_io_depend_on_nothing_that_does_io() {
    for folder in members() {
        let member = folder.file_name().unwrap().to_str().unwrap();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        if WITHOUT_IO.contains(&member) {
            let own = declared(&manifest, "dependencies");
            let found: Vec<_> = own.iter().filter(|package| DOES_IO.contains(&package.as_str())).collect();
            assert!(found.is_empty(), "{member} depends on {found:?}");
            assert!(folder.join("clippy.toml").exists(), "{member} has no lints against I/O");
        }
    }
    let all = tree_of(WITHOUT_IO, &["--edges", "normal"]);
    let found: Vec<_> = all.iter().filter(|(name, ..)| DOES_IO.contains(&name.as_str())).collect();
    assert!(found.is_empty(), "one of {WITHOUT_IO:?} depends on {found:?}: see `cargo tree -i NAME`");
}

#[test]
fn libraries_without_c_need_no_c_compiler() {
    let needs_c = |name: &str| name.ends_with("-sys") || NEEDS_C.contains(&name);
    let find = |members: &[&str]| {
        let mut all = tree_of(members, &["--edges", "normal,build"]);
        all.retain(|(name, ..)| needs_c(name));
        all
    };
    let found = find(WITHOUT_C);
    assert!(found.is_empty(), "one of {WITHOUT_C:?} needs {found:?}: see `cargo tree -i NAME`");
    assert!(!find(&["pki"]).is_empty(), "pki needs C, and that is found");
}

#[test]
fn every_declared_dependency_is_named_by_a_source() {
    let mut needed = BTreeSet::new();
    for folder in members() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let product = sources(&folder.join("src"));
        let tests: String =
            ["src", "tests", "benches", "examples"].iter().map(|part| sources(&folder.join(part))).collect();
        let (own, dev) = (declared(&manifest, "dependencies"), declared(&manifest, "dev-dependencies"));
        assert!(!own.is_empty(), "{}", folder.display());
        for (packages, source) in [(&own, &product), (&dev, &tests)] {
            for package in packages.iter().filter(|package| UNNAMED.iter().all(|(name, _)| name != package)) {
                assert!(names(source, package), "{} never names {package}: remove it", folder.display());
            }
        }
        let twice: Vec<_> = dev.iter().filter(|package| own.contains(package)).collect();
        assert!(twice.is_empty(), "{} declares {twice:?} for tests once more", folder.display());
        needed.extend(own.into_iter().chain(dev));
    }
    let workspace = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    for package in declared(&workspace, "workspace.dependencies") {
        assert!(needed.contains(&package), "no crate needs {package}: remove it from the workspace");
    }
}

#[test]
fn a_dependency_is_named_where_a_path_begins_with_its_library() {
    for yes in [
        "use http::Uri;",
        "use serde_json as http;\nuse http as h;",
        "pub use http;",
        "&http::Uri",
        "(::http::Uri)",
    ] {
        assert!(names(yes, "http"), "{yes}");
    }
    for no in [
        "use hyper::http::Uri;",
        "use http_body::Body;",
        "send(http);",
        "let a = http;",
        "crate::http::Body",
        "xhttp::a",
    ] {
        assert!(!names(no, "http"), "{no}");
    }
    assert!(names("use webpki::EndEntityCert;", "rustls-webpki"));
}
