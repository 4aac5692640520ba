//! The metrics that a program under test exports: promtool reads them, and their reference is `docs/metrics.md`.
//!
//! The tables of the page are generated: with `UPDATE_METRICS` set, [`assert_documented`] writes them instead of comparing.
//! A scrape shows name, type and help of every metric, but the labels of those only that have counted something. What a
//! scrape does not show stays as the page has it, until a test scrapes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use crate::recorded::repository;
use crate::tool::{self, Finished};

const UPDATE: &str = "UPDATE_METRICS";
const COMMAND: &str = "UPDATE_METRICS=1 cargo test -p portcullis -p portcullis-server";
const HEAD: &str = "| Metric | Type | Labels | Unit | Meaning |\n| --- | --- | --- | --- | --- |\n";

/// The metrics whose names promtool does not like. They are those of Kubernetes.
const NAMES_OF_KUBERNETES: [&str; 6] = [
    "apiserver_admission_webhook_fail_open_count",
    "apiserver_admission_webhook_rejection_count",
    "authenticated_user_requests",
    "authentication_attempts",
    "kubelet_certificate_manager_client_expiration_renew_errors",
    "kubelet_server_expiration_renew_errors",
];

/// A metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Counter, gauge or histogram.
    pub kind: String,
    /// The help text: the meaning of the metric.
    pub help: String,
    /// The names of its labels, if they are known.
    pub labels: Option<BTreeSet<String>>,
}

/// Metrics by name.
pub type Metrics = BTreeMap<String, Metric>;

/// Reads the text format of Prometheus.
///
/// # Panics
/// A line is not of this format.
pub fn exported(text: &str) -> Metrics {
    let mut metrics = Metrics::new();
    let mut help = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
            // The library ends each with a full stop.
            let text = text.strip_suffix('.').unwrap_or(text);
            assert!(help.insert(name, text).is_none(), "{name} is there twice");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            let help = help.get(name).copied().unwrap_or_default().to_owned();
            metrics.insert(name.to_owned(), Metric { kind: kind.to_owned(), help, labels: None });
        } else {
            let (name, labels) = sample(line);
            let family = family(&metrics, &name).unwrap_or_else(|| panic!("{line} has no type"));
            let metric = metrics.get_mut(&family).expect("it is there");
            metric.labels.get_or_insert_default().extend(labels);
        }
    }
    metrics
}

/// The value of a metric without labels.
///
/// # Panics
/// It is not there.
#[track_caller]
pub fn value(scrape: &str, name: &str) -> f64 {
    let found = scrape.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {name}:\n{scrape}")).parse().expect("a number")
}

/// The metric that a series of this name belongs to.
pub fn family(metrics: &Metrics, series: &str) -> Option<String> {
    if metrics.contains_key(series) {
        return Some(series.to_owned());
    }
    let base = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| series.strip_suffix(suffix))?;
    metrics.get(base).is_some_and(|metric| metric.kind == "histogram").then(|| base.to_owned())
}

/// Name and labels of a line, without the bound of a bucket.
fn sample(line: &str) -> (String, BTreeSet<String>) {
    let Some((name, rest)) = line.split_once('{') else {
        return (line.split(' ').next().unwrap_or_default().to_owned(), BTreeSet::new());
    };
    let mut labels = BTreeSet::new();
    let mut rest = rest;
    while let Some((label, value)) = rest.split_once("=\"") {
        labels.insert(label.trim_start_matches(',').to_owned());
        let mut is_escaped = false;
        let end = value.find(|letter| {
            let is_end = letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            is_end
        });
        rest = &value[end.unwrap_or_else(|| panic!("a value without end: {line}")) + 1..];
    }
    labels.remove("le");
    (name.to_owned(), labels)
}

fn path() -> PathBuf {
    repository().join("docs/metrics.md")
}

/// The metrics in the section of the page with this title.
///
/// # Panics
/// There is none.
pub fn documented(section: &str) -> Metrics {
    let page = fs::read_to_string(path()).expect("docs/metrics.md");
    let (_, table, _) = split(&page, section);
    table.lines().skip(2).map(row).collect()
}

/// Splits the page into the text before the table of a section, the table, and the text after it.
fn split<'a>(page: &'a str, section: &str) -> (&'a str, &'a str, &'a str) {
    let title = format!("\n## {section}\n");
    let start = page.find(&title).unwrap_or_else(|| panic!("docs/metrics.md has no section {section}"));
    let start = start + title.len();
    let end = page[start..].find("\n## ").map_or(page.len(), |at| start + at + 1);
    let table = page[start..end].find("| Metric |").map_or(end, |at| start + at);
    let behind = page[table..end].find("\n\n").map_or(end, |at| table + at + 1);
    (&page[..table], &page[table..behind], &page[behind..])
}

fn row(line: &str) -> (String, Metric) {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [name, kind, labels, _, help] = cells[..] else { panic!("docs/metrics.md: {line}") };
    let labels = labels.split(", ").filter(|label| !label.is_empty());
    let labels = labels.map(|label| label.trim_matches('`').to_owned()).collect();
    let metric = Metric { kind: kind.to_owned(), help: help.to_owned(), labels: Some(labels) };
    (name.trim_matches('`').to_owned(), metric)
}

fn table(metrics: &Metrics) -> String {
    let mut table = HEAD.to_owned();
    for (name, metric) in metrics {
        let labels = metric.labels.iter().flatten().map(|label| format!("`{label}`"));
        let (kind, labels) = (&metric.kind, labels.collect::<Vec<_>>().join(", "));
        let name_of_unit = name.trim_end_matches("_total");
        let unit = ["seconds", "bytes", "revisions"].iter().find(|unit| name_of_unit.ends_with(**unit));
        let (unit, help) = (unit.unwrap_or(&""), metric.help.replace('|', "\\|"));
        writeln!(table, "| `{name}` | {kind} | {labels} | {unit} | {help} |").expect("memory");
    }
    table
}

/// A scrape is as promtool wants it, and has exactly the metrics of these sections of the page, with type, help and labels.
///
/// # Panics
/// It does not.
#[track_caller]
pub fn assert_documented(sections: &[&str], scrape: &str) {
    static PAGE: Mutex<()> = Mutex::new(());
    let checked =
        Finished::with_input(tool::command("promtool").args(["check", "metrics"]), scrape.as_bytes());
    for complaint in checked.stderr.lines() {
        let name = complaint.split(' ').next().unwrap_or_default();
        assert!(NAMES_OF_KUBERNETES.contains(&name), "{checked:?}");
    }
    let exported = exported(scrape);
    if std::env::var_os(UPDATE).is_some() {
        let _held = PAGE.lock();
        if let [section] = sections {
            update(section, &exported);
        }
    }
    let documented: Metrics = sections.iter().flat_map(|section| documented(section)).collect();
    let names = |metrics: &Metrics| metrics.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&exported), names(&documented), "docs/metrics.md, {sections:?}: run {COMMAND}");
    for (name, metric) in &exported {
        let mut written = documented[name].clone();
        if metric.labels.is_none() {
            written.labels = None;
        }
        assert_eq!(*metric, written, "docs/metrics.md, {name}: run {COMMAND}");
    }
}

/// Writes the table of a section.
fn update(section: &str, exported: &Metrics) {
    let (page, before) = (fs::read_to_string(path()).expect("docs/metrics.md"), documented(section));
    let mut metrics = exported.clone();
    for (name, metric) in &mut metrics {
        if metric.labels.is_none() {
            metric.labels = before.get(name).and_then(|written| written.labels.clone());
        }
    }
    let (start, _, end) = split(&page, section);
    // At once: other tests read it.
    let new = path().with_extension("new");
    fs::write(&new, format!("{start}{}{end}", table(&metrics))).expect("docs can be written");
    fs::rename(new, path()).expect("docs can be written");
}
