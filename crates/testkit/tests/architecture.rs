//! The structure that ARCHITECTURE.md draws: crates depend on each other as it says, imports between the modules of a crate
//! run one way, and those of the server run downward.
//!
//! The source is read with `syn`. A file depends on another when a `use` line, or a path that begins with `crate`, `super` or
//! `self`, leads to something that the other file defines. A re-export leads to the file behind it and is no dependency of
//! the file that it stands in. Modules for tests do not count.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use portcullis_testkit::recorded::repository;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// Which crates of the workspace each crate may depend on, tests and benchmarks apart.
const CRATES: &[(&str, &[&str])] = &[
    ("apimachinery", &[]),
    ("policy", &["apimachinery"]),
    ("kinds", &["apimachinery"]),
    ("store", &[]),
    ("pki", &["apimachinery"]),
    ("attestation", &["apimachinery", "pki"]),
    ("tpm", &[]),
    ("client", &["apimachinery", "attestation", "pki", "policy", "tpm"]),
    ("server", &["apimachinery", "client", "kinds", "pki", "policy", "store"]),
    ("cli", &["apimachinery", "attestation", "client", "pki", "policy", "server", "store", "tpm"]),
    ("testkit", &[]),
];

/// Crates without I/O: see `clippy-no-io.toml`, whose lints look at each function that is called. Here it is the modules of the
/// standard library: those that reach out of the program, and what is a plain value in them.
const WITHOUT_IO: [&str; 5] = ["apimachinery", "attestation", "kinds", "pki", "policy"];
const REACHING_OUT: [&str; 6] = ["env", "fs", "net", "os", "process", "thread"];
const PLAIN: [&str; 4] = ["net::IpAddr", "net::Ipv4Addr", "net::Ipv6Addr", "net::SocketAddr"];

/// The exceptions: the file, the path below `std`, and the reason.
const REACHES_OUT: [(&str, &str, &str); 2] = [
    ("audit/reach/mod.rs", "thread", "a report reads rights on another thread, where there are threads"),
    ("graph/table.rs", "thread", "a reader that meets a change lets the writer run, where there are threads"),
];

/// Circles of files that are left, each with its reason: the crate, the files below `src`, and why.
const CIRCLES: &[(&str, &[&str], &str)] = &[];

/// The floors of the server from the lowest up, as `crates/server/src/lib.rs` draws them.
const SERVER_FLOORS: &[&[&str]] = &[
    &[
        "bootstrap",
        "certificate_requests",
        "clock",
        "encryption",
        "logging",
        "match_conditions",
        "metrics",
        "signing",
        "state",
    ],
    &["http"],
    &["proxy", "remote"],
    &["registry"],
    &["audit", "authn"],
    &["authz"],
    &["admission"],
    &["api"],
    &["controller", "guard", "webhook"],
    &["api_server"],
];

/// A module: its path below the crate's root, such as `["authz", "webhook"]`.
type ModulePath = Vec<String>;

/// What a module says of its names.
#[derive(Default)]
struct Module {
    /// The file, below `src`. Modules that are written within a file share it.
    file: String,
    /// Names that are re-exported, and the paths that they stand for.
    exported: BTreeMap<String, Vec<String>>,
    /// Paths of modules that are re-exported whole (`pub use path::*`).
    globs: Vec<Vec<String>>,
    /// Paths that the module names elsewhere.
    named: Vec<Vec<String>>,
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Every path of a `use` tree, with the name that it gets; `*` for a glob.
fn leaves(tree: &UseTree, prefix: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            leaves(&path.tree, prefix, found);
            prefix.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, prefix, found)),
        UseTree::Glob(_) => found.push(("*".to_owned(), prefix.clone())),
        UseTree::Name(name) => found.push(leaf(&name.ident.to_string(), None, prefix)),
        UseTree::Rename(name) => {
            found.push(leaf(&name.ident.to_string(), Some(name.rename.to_string()), prefix));
        }
    }
}

fn leaf(name: &str, rename: Option<String>, prefix: &[String]) -> (String, Vec<String>) {
    let mut path = prefix.to_vec();
    if name != "self" {
        path.push(name.to_owned());
    }
    (rename.unwrap_or_else(|| path.last().unwrap().clone()), path)
}

/// Collects the paths of a module that are not in its `use` lines.
struct Paths<'m>(&'m mut Vec<Vec<String>>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.0.push(segments);
        }
        visit::visit_path(self, path);
    }

    // `pub(in path)` says who may see an item and imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_item_mod(&mut self, _: &'ast syn::ItemMod) {}

    fn visit_item_use(&mut self, _: &'ast syn::ItemUse) {}

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }
}

/// A crate's modules.
struct Source {
    modules: BTreeMap<ModulePath, Module>,
}

impl Source {
    fn read(name: &str) -> Self {
        let root = repository().join("crates").join(name).join("src");
        let mut source = Self { modules: BTreeMap::new() };
        source.file(&root, "lib.rs", &Vec::new());
        assert!(source.modules.len() > 1 || name == "testkit", "the modules of {name} are found");
        source
    }

    fn file(&mut self, root: &Path, file: &str, at: &ModulePath) {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.module(root, file, at, &parsed.items);
    }

    fn module(&mut self, root: &Path, file: &str, at: &ModulePath, items: &[Item]) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            match item {
                Item::Mod(child) => {
                    let mut inner = at.clone();
                    inner.push(child.ident.to_string());
                    match &child.content {
                        Some((_, items)) => self.module(root, file, &inner, items),
                        None => {
                            let stem = inner.join("/");
                            let files = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
                            let file = files.iter().find(|file| root.join(file).is_file());
                            self.file(root, file.unwrap_or_else(|| panic!("{stem}: no file")), &inner);
                        }
                    }
                }
                Item::Use(line) => {
                    let mut found = Vec::new();
                    leaves(&line.tree, &mut Vec::new(), &mut found);
                    let is_export = !matches!(line.vis, Visibility::Inherited);
                    for (name, path) in found {
                        match (is_export, name.as_str()) {
                            (true, "*") => module.globs.push(path),
                            (true, _) => drop(module.exported.insert(name, path)),
                            (false, _) => module.named.push(path),
                        }
                    }
                }
                item => Paths(&mut module.named).visit_item(item),
            }
        }
        self.modules.insert(at.clone(), module);
    }

    /// The file that a path leads to from a module; nothing for a path out of the crate.
    fn target(&self, from: &ModulePath, path: &[String]) -> Option<&str> {
        self.resolve(from, path, 0)
    }

    fn resolve(&self, from: &ModulePath, path: &[String], depth: usize) -> Option<&str> {
        assert!(depth < 32, "a circle of re-exports: {from:?} {path:?}");
        let mut at: ModulePath;
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                at = Vec::new();
                rest = &rest[1..];
            }
            "self" | "super" => {
                at = from.clone();
                while let Some(word) = rest.first().filter(|word| *word == "self" || *word == "super") {
                    if word == "super" {
                        at.pop()?;
                    }
                    rest = &rest[1..];
                }
            }
            first => {
                let mut child = from.clone();
                child.push(first.to_owned());
                if !self.modules.contains_key(&child) {
                    return None;
                }
                at = from.clone();
            }
        }
        loop {
            let module = &self.modules[&at];
            let Some(name) = rest.first() else { return Some(&module.file) };
            let mut child = at.clone();
            child.push(name.clone());
            if self.modules.contains_key(&child) {
                at = child;
                rest = &rest[1..];
                continue;
            }
            if let Some(behind) = module.exported.get(name) {
                // What is re-exported from another crate is as good as defined here.
                return self.resolve(&at, behind, depth + 1).or(Some(&module.file));
            }
            let behind = module.globs.iter().find_map(|glob| {
                let mut path = glob.clone();
                path.push(name.clone());
                self.resolve(&at, &path, depth + 1)
            });
            return behind.or(Some(&module.file));
        }
    }

    /// Which file depends on which others.
    fn imports(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (at, module) in &self.modules {
            let found = imports.entry(&module.file).or_default();
            found.extend(module.named.iter().filter_map(|path| self.target(at, path)));
            found.remove(module.file.as_str());
        }
        imports
    }
}

/// The sets of files that reach each other, larger than one.
fn circles<'s>(imports: &BTreeMap<&'s str, BTreeSet<&'s str>>) -> Vec<BTreeSet<&'s str>> {
    let reach = |from: &'s str| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            for next in imports.get(file).into_iter().flatten() {
                if reached.insert(*next) {
                    open.push(next);
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports.keys().map(|file| (*file, reach(file))).collect();
    let mut found: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    for (file, files) in &reached {
        if files.contains(file) {
            found.insert(files.iter().copied().filter(|other| reached[other].contains(file)).collect());
        }
    }
    found.into_iter().collect()
}

#[test]
fn no_crate_has_a_circle_of_files_that_is_not_named_here() {
    let mut wrong = Vec::new();
    for (name, _) in CRATES {
        let source = Source::read(name);
        let imports = source.imports();
        for circle in circles(&imports) {
            let known = CIRCLES.iter().any(|(crate_name, files, reason)| {
                crate_name == name && !reason.is_empty() && files.iter().copied().eq(circle.iter().copied())
            });
            if !known {
                let edges = circle.iter().flat_map(|file| {
                    let inside = imports[file].intersection(&circle);
                    inside.map(move |to| format!("    {file} -> {to}"))
                });
                let edges: Vec<String> = edges.collect();
                wrong.push(format!("{name}: {} files\n{}", circle.len(), edges.join("\n")));
            }
        }
    }
    assert!(wrong.is_empty(), "circles of files:\n{}", wrong.join("\n"));
}

#[test]
fn crates_without_io_name_no_part_of_std_that_does_it() {
    for name in WITHOUT_IO {
        for module in Source::read(name).modules.values() {
            for path in module.named.iter().chain(module.exported.values()).chain(&module.globs) {
                let is_known = REACHES_OUT.iter().any(|(file, part, why)| {
                    *file == module.file
                        && path.get(1).is_some_and(|module| module == part)
                        && !why.is_empty()
                });
                assert!(is_known || !reaches_out(path), "{name}: {}: {}", module.file, path.join("::"));
            }
        }
    }
}

/// Whether a path leads to a part of the standard library that does I/O, starts threads or asks the system.
fn reaches_out(path: &[String]) -> bool {
    let [root, module, rest @ ..] = path else { return false };
    root == "std"
        && REACHING_OUT.contains(&module.as_str())
        && !rest.first().is_some_and(|item| PLAIN.contains(&format!("{module}::{item}").as_str()))
}

#[test]
fn the_floors_of_the_server_import_downward_only() {
    // `authn/webhook.rs` is of `authn`, `clock.rs` of `clock`.
    fn part(file: &str) -> &str {
        file.split(['/', '.']).next().unwrap()
    }
    let floor = |part: &str| SERVER_FLOORS.iter().position(|parts| parts.contains(&part));
    let source = Source::read("server");
    let imports = source.imports();
    let mut parts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (from, files) in imports.iter().filter(|(from, _)| **from != "lib.rs") {
        let Some(above) = floor(part(from)) else {
            wrong.push(format!("{from} stands on no floor"));
            continue;
        };
        for to in files.iter().filter(|to| part(from) != part(to)) {
            parts.entry(part(from)).or_default().insert(part(to));
            if floor(part(to)).is_none_or(|below| below > above) {
                wrong.push(format!("{from} -> {to} runs upward"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Parts of one floor may import each other, but not in a circle.
    assert_eq!(circles(&parts), [], "circles of parts");
    let drawn: BTreeSet<&str> = SERVER_FLOORS.iter().copied().flatten().copied().collect();
    let found: BTreeSet<&str> =
        imports.keys().filter(|file| **file != "lib.rs").map(|file| part(file)).collect();
    assert_eq!(drawn, found, "the parts of the server");
}

#[test]
fn crates_depend_on_each_other_as_drawn() {
    let mut folders = BTreeSet::new();
    for entry in fs::read_dir(repository().join("crates")).unwrap() {
        folders.insert(entry.unwrap().file_name().into_string().unwrap());
    }
    let drawn: BTreeSet<String> = CRATES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(folders, drawn);
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(repository().join("crates").join(name).join("Cargo.toml")).unwrap();
        let section = manifest.split("[dependencies]").nth(1).unwrap_or_default();
        let section = section.split("\n[").next().unwrap();
        let found: BTreeSet<&str> = section
            .lines()
            .filter_map(|line| line.strip_prefix("portcullis-"))
            .map(|line| line.split(['.', ' ', '=']).next().unwrap())
            .collect();
        assert_eq!(found, allowed.iter().copied().collect(), "crates/{name}/Cargo.toml");
    }
}

mod the_check_itself {
    use super::*;

    fn source(files: &[(&str, &str)]) -> Source {
        let mut source = Source { modules: BTreeMap::new() };
        for (at, text) in files {
            let path: ModulePath = at.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
            let file = format!("{at}.rs");
            source.module(Path::new("/nowhere"), &file, &path, &syn::parse_file(text).unwrap().items);
        }
        source
    }

    #[test]
    fn finds_circles_through_use_lines_paths_and_parents() {
        let files = [
            ("", "pub use a::A; const X: u8 = 0;"),
            ("a", "use crate::b::B; pub struct A; mod tests { #![x] }"),
            ("b", "pub struct B(super::A);"),
            ("c", "use crate::b; fn f() { b::g(); }"),
        ];
        let source = source(&files);
        let imports = source.imports();
        let expected: BTreeSet<&str> = ["a.rs", "b.rs"].into();
        assert_eq!(circles(&imports), [expected]);
        assert_eq!(imports["c.rs"], BTreeSet::from(["b.rs"]));
    }

    #[test]
    fn finds_what_reaches_out_of_the_program() {
        let named = |text: &str| source(&[("", text)]).modules[&Vec::new()].named.clone();
        for yes in [
            "use std::fs;",
            "use std::fs::*;",
            "use std::net::{IpAddr, TcpStream as S};",
            "fn f() { std::env::var(\"A\"); }",
            "struct S(std::process::Command);",
            "use std::thread;",
        ] {
            assert!(named(yes).iter().any(|path| reaches_out(path)), "{yes}");
        }
        for no in
            ["use std::net::IpAddr;", "use std::fmt;", "use crate::fs;", "fn f(_: std::net::SocketAddr) {}"]
        {
            assert!(!named(no).iter().any(|path| reaches_out(path)), "{no}");
        }
    }

    #[test]
    fn passes_over_tests_and_re_exports() {
        let files = [
            ("", ""),
            ("a", "pub use self::inner::I; mod unit { use super::*; }"),
            ("a/inner", "pub struct I; #[cfg(test)] mod tests { use crate::a::I; use crate::c::C; }"),
            ("c", "use crate::a::I; pub struct C(I);"),
        ];
        let source = source(&files);
        assert!(circles(&source.imports()).is_empty());
        assert_eq!(source.imports()["c.rs"], BTreeSet::from(["a/inner.rs"]));
    }
}
