//! The krew manifest: the template that a release fills in is what krew checks for, and what it installs runs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use portcullis_testkit::program;
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use serde_json::{Value, json};

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The archives of a release, with the program and the licence. The other architecture has no program here that could run.
fn archives(folder: &Path) {
    let inside = folder.join("inside");
    fs::create_dir(&inside).unwrap();
    fs::copy(repository().join("LICENSE"), inside.join("LICENSE")).unwrap();
    for arch in ["amd64", "arm64"] {
        let program = inside.join("portcullis");
        let _ = fs::remove_file(&program);
        match arch == this_architecture() {
            true => symlink(program!().path(), &program).unwrap(),
            false => fs::write(&program, "not for this machine").unwrap(),
        }
        let archive = folder.join(format!("portcullis-linux-{arch}.tar.gz"));
        let mut tar = tool::command("tar");
        tar.args(["--create", "--dereference", "--use-compress-program", "gzip -1", "--file"]);
        Finished::of(tar.arg(archive).arg("-C").arg(&inside).args(["portcullis", "LICENSE"])).ok();
    }
}

fn this_architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

fn fill(arguments: &[&str]) -> Finished {
    tool::require("envsubst");
    Finished::of(Command::new(repository().join("deploy/krew/fill")).args(arguments))
}

/// Checks a manifest as krew's `validate-krew-manifest` does, and against the documentation of its fields.
fn check(manifest: &Value) {
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
    let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    assert_eq!(manifest["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(manifest["kind"], "Plugin");
    assert_eq!(fields(manifest), known(&["apiVersion", "kind", "metadata", "spec"]));
    assert_eq!(manifest["metadata"], json!({"name": "portcullis"}), "the name of the file");
    let spec = &manifest["spec"];
    assert!(fields(spec).is_subset(&known(&[
        "version",
        "homepage",
        "shortDescription",
        "description",
        "caveats",
        "platforms"
    ])));
    let version = spec["version"].as_str().unwrap().strip_prefix('v').unwrap();
    let numbers: Vec<&str> = version.split('.').collect();
    assert!(numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u32>().is_ok()), "{version}");
    let short = spec["shortDescription"].as_str().unwrap();
    assert!(!short.is_empty() && !short.contains(['\n', '\r']) && short.len() <= 50, "{short}");
    assert!(spec["homepage"].as_str().unwrap().starts_with("https://"));
    let mut selected = BTreeSet::new();
    for platform in spec["platforms"].as_array().unwrap() {
        assert!(
            fields(platform).is_subset(&known(&["selector", "uri", "sha256", "files", "bin"])),
            "{platform}"
        );
        let sum = platform["sha256"].as_str().unwrap();
        assert!(sum.len() == 64 && sum.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')), "{sum}");
        assert!(platform["uri"].as_str().unwrap().starts_with("https://"), "{platform}");
        assert!(!platform["bin"].as_str().unwrap().is_empty());
        let labels = &platform["selector"]["matchLabels"];
        assert_eq!(fields(labels), known(&["os", "arch"]));
        selected.insert(format!("{}/{}", labels["os"].as_str().unwrap(), labels["arch"].as_str().unwrap()));
    }
    assert_eq!(selected, known(&["linux/amd64", "linux/arm64"]));
}

#[test]
fn a_release_fills_the_manifest_in_and_what_krew_would_install_runs() {
    let scratch = Scratch::new();
    let folder = scratch.path();
    archives(folder);
    let here = folder.to_str().unwrap();
    // Hosts of examples: there is no release yet.
    let filled = fill(&[VERSION, "https://portcullis.example", "https://releases.example/v/", here]).ok();
    assert!(!filled.contains("${") && !filled.contains("There are no"), "{filled}");
    let manifest: Value = serde_saphyr::from_str(&filled).unwrap();
    check(&manifest);
    assert_eq!(manifest["spec"]["version"], VERSION);

    // What krew does with it: the platform of this machine, its archive, the digest, the files, the link.
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    let mine = platforms
        .iter()
        .find(|platform| platform["selector"]["matchLabels"]["arch"] == this_architecture())
        .unwrap();
    let uri = mine["uri"].as_str().unwrap();
    let archive = uri.strip_prefix("https://releases.example/v/").unwrap();
    let sums = scratch.write("sums", format!("{}  {archive}\n", mine["sha256"].as_str().unwrap()));
    Finished::of(tool::command("sha256sum").arg("--check").arg(&sums).current_dir(folder)).ok();
    let (store, links) = (folder.join("store"), folder.join("links"));
    fs::create_dir_all(&store).unwrap();
    fs::create_dir_all(&links).unwrap();
    Finished::of(tool::command("tar").arg("-xf").arg(folder.join(archive)).arg("-C").arg(&store)).ok();
    assert!(store.join("LICENSE").is_file());
    symlink(store.join(mine["bin"].as_str().unwrap()), links.join("kubectl-portcullis")).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(std::iter::once(links).chain(std::env::split_paths(&path))).unwrap();
    let version =
        Finished::of(tool::command("kubectl").args(["portcullis", "version"]).env("PATH", path)).ok();
    assert_eq!(format!("v{}", version.trim().trim_start_matches("portcullis ")), VERSION);
}

#[test]
fn a_release_without_its_archives_or_with_another_version_has_no_manifest() {
    let scratch = Scratch::new();
    let here = scratch.path().to_str().unwrap();
    let urls = ["https://portcullis.example", "https://releases.example"];
    let absent = fill(&[VERSION, urls[0], urls[1], here]);
    assert!(absent.code != 0 && absent.stdout.is_empty(), "{absent:?}");
    for arch in ["amd64", "arm64"] {
        scratch.write(&format!("portcullis-linux-{arch}.tar.gz"), "archive");
    }
    assert_eq!(fill(&["0.1.0", urls[0], urls[1], here]).code, 2);
    assert_eq!(fill(&[VERSION]).code, 2);
    fill(&[VERSION, urls[0], urls[1], here]).ok();
}
