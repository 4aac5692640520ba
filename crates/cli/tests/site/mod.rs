//! The documentation as a site: it is built as anybody builds it, its links lead somewhere, and its pages work in a browser and ask
//! nobody else.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use portcullis_testkit::recorded::repository;
use portcullis_testkit::tool::{self, Finished};

/// The site, built once for all tests.
static SITE: LazyLock<PathBuf> = LazyLock::new(|| {
    let site = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site");
    tool::require("dot");
    let mut mkdocs = tool::command("mkdocs");
    mkdocs.args(["build", "--strict", "--site-dir"]).arg(&site);
    mkdocs.current_dir(repository()).env("PYTHONDONTWRITEBYTECODE", "1");
    Finished::of(&mut mkdocs).ok();
    site
});

/// The files below a folder with this extension.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|its| its == extension) {
            found.push(path);
        }
    }
}

/// The links of a page, and the files that it loads.
#[derive(Default)]
struct Html {
    /// The anchors of the page.
    ids: BTreeSet<String>,
    /// The targets of its links.
    links: Vec<String>,
    /// The URLs that a browser loads with it: scripts, styles, pictures.
    loads: Vec<String>,
}

impl Html {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut html = Self::default();
        for tag in text.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
            let value = |name: &str| {
                let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
                Some(rest.split('"').next()?.replace("&amp;", "&"))
            };
            html.ids.extend(value("id"));
            if tag.starts_with("a ") {
                html.links.extend(value("href"));
            } else {
                html.loads.extend(["href", "src"].into_iter().filter_map(value));
            }
        }
        html
    }
}

fn pages() -> BTreeMap<PathBuf, Html> {
    let mut paths = Vec::new();
    files(&SITE, "html", &mut paths);
    // Where the page of an error is shown is not known, so its links begin at the root.
    paths.retain(|path| !path.ends_with("404.html"));
    assert!(paths.len() > 100, "{}", paths.len());
    paths.into_iter().map(|path| (path.clone(), Html::read(&path))).collect()
}

fn is_elsewhere(link: &str) -> bool {
    link.contains("://") || link.starts_with("//") || link.starts_with("mailto:")
}

/// The file that a link of a page leads to, and the place in it.
fn target<'a>(page: &Path, link: &'a str) -> (PathBuf, &'a str) {
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    let mut path = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().to_owned() };
    for part in file.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            path.pop();
        } else {
            path.push(part);
        }
    }
    if path.is_dir() {
        path.push("index.html");
    }
    (path, place)
}

#[test]
fn every_link_of_the_site_leads_to_a_page_and_a_place_in_it() {
    let pages = pages();
    let mut broken = Vec::new();
    let mut count = 0;
    for (page, html) in &pages {
        for link in html.links.iter().chain(&html.loads).filter(|link| !is_elsewhere(link)) {
            let (path, place) = target(page, link);
            let has_place =
                || pages.get(&path).is_none_or(|html| place.is_empty() || html.ids.contains(place));
            if !path.exists() || !has_place() {
                broken.push(format!("{}: {link}", page.strip_prefix(&*SITE).unwrap().display()));
            }
            count += 1;
        }
    }
    assert_eq!(broken, [""; 0]);
    assert!(count > 10_000, "{count} links");
}

/// A heading "Explain" has the anchor `explain`: only the page with the form may become one.
#[test]
fn one_page_alone_has_the_form_that_explains() {
    let loads = |html: &Html| html.loads.iter().any(|load| load.ends_with("/explain.js"));
    let with_form: Vec<PathBuf> =
        pages().into_iter().filter(|(_, html)| loads(html)).map(|(page, _)| page).collect();
    assert_eq!(with_form, [SITE.join("explain-in-browser/index.html")]);
}

#[test]
fn no_page_of_the_site_loads_anything_from_elsewhere() {
    for (page, html) in pages() {
        let elsewhere: Vec<&String> = html.loads.iter().filter(|load| is_elsewhere(load)).collect();
        assert_eq!(elsewhere, [""; 0], "{}", page.display());
    }
    let mut sheets = Vec::new();
    files(&SITE, "css", &mut sheets);
    assert!(!sheets.is_empty());
    for sheet in sheets {
        let text = fs::read_to_string(&sheet).unwrap();
        for (_, rest) in text.match_indices("url(").map(|(at, start)| text.split_at(at + start.len())) {
            let url = rest.trim_start_matches(['"', '\'']);
            assert!(!is_elsewhere(url.split(')').next().unwrap()) || url.starts_with("data:"), "{url:.80}");
        }
    }
}

#[test]
fn every_page_of_the_documentation_is_in_the_navigation() {
    let configuration = fs::read_to_string(repository().join("mkdocs.yml")).unwrap();
    let (_, navigation) = configuration.split_once("\nnav:\n").unwrap();
    let words = navigation.split_whitespace().filter(|word| word.ends_with(".md"));
    let listed: Vec<PathBuf> = words.map(|word| repository().join(word)).collect();
    let mut pages = Vec::new();
    files(&repository().join("docs"), "md", &mut pages);
    for page in pages {
        let times = listed.iter().filter(|path| **path == page).count();
        assert_eq!(times, 1, "mkdocs.yml must have {} once", page.display());
    }
}

#[test]
fn pages_of_the_site_work_in_a_browser_at_the_width_of_a_desk_and_of_a_phone() {
    tool::require("chromium");
    let script = repository().join("crates/cli/tests/site/check.py");
    let mut python = tool::command("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).arg(&*SITE);
    Finished::of(&mut python).ok();
}
