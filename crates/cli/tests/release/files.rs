//! Checks the contents of the files of a release.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use serde_json::Value;

use crate::release::{VERSION, names};

/// The name of the architecture in the names of files, as Debian has it.
fn architecture() -> String {
    tool::run("dpkg", ["--print-architecture"]).trim().to_owned()
}

/// The libraries in the program, as cargo knows them: name and version.
fn libraries() -> BTreeSet<(String, String)> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args([
        "tree",
        "--package",
        "portcullis",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    tree.args(["--locked", "--offline"]).current_dir(repository());
    let printed = Finished::of(&mut tree).ok();
    let word = |line: &str, at: usize| line.split(' ').nth(at).unwrap_or_default().to_owned();
    let all = printed.lines().filter(|line| !line.is_empty() && !line.contains("(proc-macro)"));
    all.map(|line| (word(line, 0), word(line, 1).trim_start_matches('v').to_owned())).collect()
}

/// The files are those that the page lists, and have in them what it says.
pub(super) fn are_what_the_page_lists(release: &Path) {
    let architecture = architecture();
    let listed = names(release);
    let expected = [
        "SHA256SUMS".to_owned(),
        format!("portcullis-chart-{VERSION}.tgz"),
        format!("portcullis-linux-{architecture}-image.tar"),
        format!("portcullis-linux-{architecture}.cdx.json"),
        format!("portcullis-linux-{architecture}.tar.gz"),
        format!("portcullis_{VERSION}_{architecture}.deb"),
    ];
    assert_eq!(listed, expected);
    let page = fs::read_to_string(repository().join("docs/releases.md")).unwrap();
    for name in &listed {
        let written = name.replace(VERSION, "VERSION").replace(&architecture, "amd64");
        assert!(page.contains(&format!("\n| `{written}` | ")), "{written}");
    }
    let checked =
        Finished::of(tool::command("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(release)).ok();
    assert_eq!(checked.lines().count(), listed.len() - 1, "{checked}");

    // The list of components names each library that is in the program.
    let components = fs::read_to_string(release.join(&listed[3])).unwrap();
    assert!(!components.contains(repository().to_str().unwrap()), "a path of this machine");
    let components: Value = serde_json::from_str(&components).unwrap();
    assert_eq!(components["bomFormat"], "CycloneDX");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all =
        components["components"].as_array().unwrap().iter().chain([&components["metadata"]["component"]]);
    let known: BTreeSet<(String, String)> =
        all.map(|component| (text(&component["name"]), text(&component["version"]))).collect();
    let missing: Vec<_> = libraries().into_iter().filter(|library| !known.contains(library)).collect();
    assert!(missing.is_empty(), "{missing:?}");

    // krew takes the program and the license from the archive.
    let archive = release.join(&listed[4]);
    assert_eq!(tool::run("tar", ["-tzf", archive.to_str().unwrap()]), "LICENSE\nportcullis\n");

    image(&Scratch::new(), release.join(&listed[2]).to_str().unwrap());
}

/// The image has one layer without a shell; its program runs as a user without rights.
fn image(scratch: &Scratch, file: &str) {
    let layout = scratch.path().join("layout");
    fs::create_dir(&layout).unwrap();
    tool::run("tar", ["-xf", file, "-C", layout.to_str().unwrap()]);
    let image = format!("{}:{VERSION}", layout.display());
    let stat: Value =
        serde_json::from_str(&tool::run("umoci", ["stat", "--json", "--image", &image])).unwrap();
    let layers = stat["history"].as_array().unwrap().iter().filter(|entry| entry["empty_layer"] != true);
    assert_eq!(layers.count(), 1, "{stat}");
    let bundle = scratch.path().join("bundle");
    tool::run("umoci", ["unpack", "--rootless", "--image", &image, bundle.to_str().unwrap()]);
    let config: Value =
        serde_json::from_str(&fs::read_to_string(bundle.join("config.json")).unwrap()).unwrap();
    assert_eq!(config["process"]["args"], serde_json::json!(["/usr/bin/portcullis"]));
    let user = &config["process"]["user"];
    assert_eq!((&user["uid"], &user["gid"]), (&65532.into(), &65532.into()));
    let root = bundle.join("rootfs");
    let files =
        tool::run("find", [root.to_str().unwrap(), "-type", "f", "-executable", "-not", "-name", "*.so*"]);
    assert_eq!(files.trim(), root.join("usr/bin/portcullis").to_str().unwrap());
    for package in ["libc6", "portcullis"] {
        let folder = root.join("usr/share/doc").join(package);
        assert_eq!(names(&folder).len(), 1, "the license of {package} is in the image");
    }
    let mut version = tool::command("unshare");
    version.args(["--user", "--map-user=65532", "--map-group=65532", "--root"]).arg(&root);
    let version = Finished::of(version.args(["/usr/bin/portcullis", "version"]));
    assert_eq!(version.ok(), format!("portcullis {VERSION}\n"));
}
