//! The public interface of the libraries that others embed is the recorded one, `crates/NAME/public-api.txt`.
//!
//! The first line of a record names the oldest version that it is compatible with. Once `CHANGELOG.md` has a section for that
//! version, it is released: whatever breaks programs then needs an incompatible version. `UPDATE_PUBLIC_API=1` records
//! all other changes.
//!
//! rustdoc lists the interface as JSON, a form that only its unstable options write. It alone is told to allow them: if cargo and
//! the build scripts were told as well, they would build every dependency again. `cargo doc` writes its pages of these
//! libraries again afterwards.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_testkit::recorded::repository;
use public_api::Builder;

/// The libraries: those that others embed, and the one whose types are part of their interface.
const LIBRARIES: [&str; 3] = ["apimachinery", "pki", "policy"];
const UPDATE: &str = "UPDATE_PUBLIC_API";
const COMMAND: &str = "UPDATE_PUBLIC_API=1 cargo test -p portcullis-testkit --test public_api";
const HEADING: &str = "# The public interface. Compatible since ";

/// A version: major, minor, patch.
type Version = [u32; 3];

fn version(text: &str) -> Version {
    let parts: Vec<u32> = text.trim().split('.').map(|part| part.parse().unwrap()).collect();
    parts.try_into().unwrap_or_else(|_| panic!("a version: {text:?}"))
}

/// Whether Cargo takes the new version where the old one is asked for.
fn is_compatible(old: Version, new: Version) -> bool {
    let leading = old.iter().position(|part| *part != 0).unwrap_or(2);
    old.iter().zip(new).take(leading + 1).all(|(old, new)| *old == new)
}

/// An interface, an item a line, and the oldest version that it is compatible with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interface {
    since: Version,
    items: BTreeSet<String>,
}

impl Interface {
    fn read(text: &str) -> Self {
        let (heading, items) = text.split_once('\n').unwrap();
        let since =
            heading.strip_prefix(HEADING).unwrap_or_else(|| panic!("a record begins with {HEADING:?}"));
        Self { since: version(since), items: items.lines().map(str::to_owned).collect() }
    }

    fn written(&self) -> String {
        let [major, minor, patch] = self.since;
        let mut text = format!("{HEADING}{major}.{minor}.{patch}\n");
        self.items.iter().for_each(|item| text.extend([item, "\n"]));
        text
    }

    /// Whether programs that fit this interface may not fit one with this new item: a variant or a field of a type that they
    /// know and may match or make whole, or an item of a trait that they may implement.
    fn is_broken_by(&self, added: &str) -> bool {
        let Some(item) = added.strip_prefix("pub ") else { return false };
        let (kinds, path): (&[&str], &str) = match item.split_once(' ') {
            Some(("fn" | "type" | "const", path)) => (&["trait"], path),
            Some((path, _)) if !path.contains("::") => return false,
            _ => (&["enum", "struct"], item),
        };
        let path = path.split(['(', '<', ' ']).next().unwrap_or_default().trim_end_matches(':');
        let Some((parent, _)) = path.rsplit_once("::") else { return false };
        self.items.iter().any(|known| {
            // Behind attributes, such as the form in memory. A type that may grow has another one.
            let known = match known.split_once("] pub ") {
                Some((attributes, item)) if !attributes.contains("non_exhaustive") => Some(item),
                _ => known.strip_prefix("pub "),
            };
            let Some(known) = known else { return false };
            known == parent && !kinds.contains(&"trait")
                || kinds.iter().any(|kind| {
                    let rest = known.strip_prefix(kind).and_then(|rest| rest.strip_prefix(' '));
                    let rest = rest.and_then(|rest| rest.strip_prefix(parent));
                    rest.is_some_and(|rest| {
                        rest.is_empty() || rest.starts_with(['<', ' ']) || rest.starts_with(": ")
                    })
                })
        })
    }

    /// The changes that break programs which use this interface.
    fn broken_by(&self, found: &BTreeSet<String>) -> Vec<String> {
        let gone = self.items.difference(found).map(|item| format!("- {item}"));
        let added = found.difference(&self.items).filter(|item| self.is_broken_by(item));
        gone.chain(added.map(|item| format!("+ {item}"))).collect()
    }

    /// The record of an interface that was found in a version.
    ///
    /// # Errors
    /// It breaks programs, and the version does not say so.
    fn follow(&self, found: BTreeSet<String>, now: Version, is_released: bool) -> Result<Self, Vec<String>> {
        if !is_compatible(self.since, now) {
            return Ok(Self { since: now, items: found });
        }
        let broken = self.broken_by(&found);
        match is_released && !broken.is_empty() {
            true => Err(broken),
            false => Ok(Self { since: self.since, items: found }),
        }
    }
}

/// The folder that Cargo builds in: this test is in `debug/deps` there.
fn target() -> PathBuf {
    std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned()
}

/// Has rustdoc list the interfaces.
fn list() {
    let rustdoc = target().join("rustdoc-with-unstable-options");
    let script = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";
    fs::write(&rustdoc, script).unwrap();
    fs::set_permissions(&rustdoc, fs::Permissions::from_mode(0o755)).unwrap();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["doc", "--no-deps", "--locked", "--lib", "--target-dir"])
        .arg(target())
        .args(LIBRARIES.iter().flat_map(|library| ["-p".to_owned(), format!("portcullis-{library}")]))
        .env("RUSTDOC", &rustdoc)
        .env("RUSTDOCFLAGS", "-Zunstable-options --output-format json")
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn json(library: &str) -> PathBuf {
    target().join("doc").join(format!("portcullis_{library}.json"))
}

/// The items of an interface. Of an implementation that is derived, the fact alone; Send and the like are not listed.
fn items(json: &Path) -> BTreeSet<String> {
    let of = |is_short: bool| -> BTreeSet<String> {
        let builder = Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_trait_impls(true);
        let interface = builder.omit_auto_derived_impls(is_short).build();
        let interface = interface.unwrap_or_else(|error| {
            panic!("{}: {error}: public-api in Cargo.toml must fit the compiler", json.display())
        });
        interface.items().map(ToString::to_string).collect()
    };
    let derived = of(false).into_iter().filter(|item| item.starts_with("impl"));
    of(true).into_iter().chain(derived.filter(|item| !item.contains("StructuralPartialEq"))).collect()
}

#[test]
fn the_public_interfaces_are_the_recorded_ones() {
    list();
    let changes = fs::read_to_string(repository().join("CHANGELOG.md")).unwrap();
    let now = version(env!("CARGO_PKG_VERSION"));
    let mut wrong = String::new();
    for library in LIBRARIES {
        let file = repository().join("crates").join(library).join("public-api.txt");
        let recorded = match fs::read_to_string(&file) {
            Ok(text) => Interface::read(&text),
            Err(_) => Interface { since: now, items: BTreeSet::new() },
        };
        let found = items(&json(library));
        let [major, minor, patch] = recorded.since;
        let is_released = changes.contains(&format!("\n## [{major}.{minor}.{patch}]"));
        let differences: Vec<String> = {
            let gone = recorded.items.difference(&found).map(|item| format!("- {item}"));
            gone.chain(found.difference(&recorded.items).map(|item| format!("+ {item}"))).collect()
        };
        match recorded.follow(found, now, is_released) {
            Err(broken) => {
                let next = if major > 0 { "major" } else { "minor" };
                wrong += &format!(
                    "portcullis-{library} breaks programs that use {major}.{minor}.{patch}: keep what they use, or raise the {next} version\n{}\n",
                    broken.join("\n")
                );
            }
            Ok(new) if std::env::var_os(UPDATE).is_some() => fs::write(&file, new.written()).unwrap(),
            Ok(new) if new != recorded => {
                wrong += &format!(
                    "the interface of portcullis-{library} is another one; if that is meant, {COMMAND}\n{}\n",
                    differences.join("\n")
                );
            }
            Ok(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn versions_are_compatible_as_cargo_says() {
    for (old, new) in [("1.2.3", "1.3.0"), ("0.1.0", "0.1.9"), ("0.0.3", "0.0.3")] {
        assert!(is_compatible(version(old), version(new)), "{old} {new}");
    }
    for (old, new) in [("1.2.3", "2.0.0"), ("0.1.0", "0.2.0"), ("0.0.3", "0.0.4"), ("0.9.0", "1.0.0")] {
        assert!(!is_compatible(version(old), version(new)), "{old} {new}");
    }
}

mod the_check_itself {
    use super::*;

    fn set(lines: &[&str]) -> BTreeSet<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    const OLD: [&str; 6] = [
        "#[repr(u8)] pub enum a::E<R>",
        "pub a::E::One(R)",
        "pub a::E::Two",
        "pub struct a::S",
        "pub trait a::T: core::fmt::Debug",
        "pub fn a::S::new() -> Self",
    ];

    fn follow(
        added: &[&str],
        left_out: &str,
        now: &str,
        is_released: bool,
    ) -> Result<Interface, Vec<String>> {
        let old = Interface { since: version("0.1.0"), items: set(&OLD) };
        let mut found = set(added);
        found.extend(old.items.iter().filter(|item| *item != left_out).cloned());
        old.follow(found, version(now), is_released)
    }

    #[test]
    fn a_released_interface_may_grow_only_where_no_program_breaks() {
        for added in [
            "pub fn a::S::other(&self)",
            "pub fn a::f(a::S) -> u8",
            "pub struct a::New",
            "pub a::New::field: u8",
            "pub mod a::E",
            "impl core::clone::Clone for a::S",
        ] {
            let new = follow(&[added], "", "0.1.1", true).unwrap();
            assert!(new.items.contains(added) && new.since == version("0.1.0"), "{added}");
        }
        for added in [
            "pub a::E::Three",
            "pub a::E::Two::field: u8",
            "pub a::S::field: u8",
            "pub fn a::T::more(&self) -> u8",
            "pub type a::T::Of",
        ] {
            assert_eq!(follow(&[added], "", "0.1.1", true), Err(vec![format!("+ {added}")]), "{added}");
        }
        assert_eq!(follow(&[], OLD[5], "0.1.1", true), Err(vec![format!("- {}", OLD[5])]));
    }

    #[test]
    fn an_incompatible_or_unreleased_version_may_change_anything() {
        let new = follow(&["pub a::E::Three"], OLD[5], "0.2.0", true).unwrap();
        assert_eq!((new.since, new.items.len()), (version("0.2.0"), OLD.len()));
        let new = follow(&["pub a::E::Three"], OLD[5], "0.1.0", false).unwrap();
        assert_eq!((new.since, new.items.len()), (version("0.1.0"), OLD.len()));
    }

    #[test]
    fn a_type_that_may_grow_grows() {
        let old = Interface { since: version("1.0.0"), items: set(&["#[non_exhaustive] pub enum a::E"]) };
        assert!(!old.is_broken_by("pub a::E::New"));
    }

    #[test]
    fn a_record_is_read_as_it_is_written() {
        let interface = Interface { since: version("0.3.1"), items: set(&OLD) };
        assert_eq!(Interface::read(&interface.written()), interface);
    }
}
