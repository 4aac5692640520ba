//! Prints answers of `who-can`. Names come from the cluster, so they are escaped for the terminal.

use std::collections::BTreeSet;
use std::io::{self, Write};

use portcullis_policy::audit::Incomplete;
use portcullis_policy::audit::who_can::{Listed, Lists, Note};
use serde_json::{Map, Value};

use crate::table::without_empty_columns;
use crate::terminal::plain;
use crate::yaml;

/// What is printed: one answer, or one for each namespace.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) parts: Vec<Part>,
    pub(super) incomplete: Vec<Incomplete>,
    pub(super) notes: BTreeSet<Note>,
    /// The revision of the objects, if they are those of etcd.
    pub(super) revision: Option<u64>,
}

/// The answer to one question.
#[derive(Debug)]
pub(super) struct Part {
    /// The namespace, if each one is asked about (AU-95).
    pub(super) namespace: Option<String>,
    pub(super) lists: Lists,
}

/// Picks one of the lists.
type Pick = fn(&Lists) -> &[Listed];

/// Prints tables for people: with `is_wide`, each way in a row of its own.
pub(super) fn table(out: &mut dyn Write, report: &Report, is_wide: bool) -> io::Result<()> {
    let lists: [(&str, Pick); 4] = [
        ("", |lists| &lists.subjects),
        ("for some names only:", |lists| &lists.limited),
        ("when the aggregation controller has added rules to their roles:", |lists| &lists.pending),
        ("not decided here:", |lists| &lists.undecided),
    ];
    for (title, pick) in lists {
        let rows: Vec<(Option<&str>, &Listed)> = report
            .parts
            .iter()
            .flat_map(|part| pick(&part.lists).iter().map(|listed| (part.namespace.as_deref(), listed)))
            .collect();
        if rows.is_empty() {
            continue;
        }
        if !title.is_empty() {
            writeln!(out, "\n{title}")?;
        }
        crate::table::columns(out, &cells(&rows, is_wide))?;
    }
    if let Some(revision) = report.revision {
        writeln!(out, "\nnote: as of revision {revision} of etcd")?;
    }
    for Incomplete { input, why, detail, .. } in &report.incomplete {
        writeln!(out, "\nincomplete: {} ({}): {}", plain(input), why.as_str(), plain(detail))?;
    }
    let listed = report.parts.iter().flat_map(|part| &part.lists.subjects);
    let meanings: BTreeSet<String> = listed
        .filter_map(|listed| Some(format!("{} is {}", listed.subject, listed.subject.meaning()?)))
        .collect();
    let notes = report.notes.iter().map(Note::to_string);
    for note in meanings.into_iter().chain(notes) {
        writeln!(out, "\nnote: {}", plain(&note))?;
    }
    Ok(())
}

/// The rows of a table. A column that nobody has something in is left out.
fn cells(listed: &[(Option<&str>, &Listed)], is_wide: bool) -> Vec<Vec<String>> {
    let head = ["NAMESPACE", "SUBJECT", "NAMES", "ADMISSION", "DEPENDS ON", "THROUGH"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (namespace, listed) in listed {
        let row = |way: String| {
            let cells = [
                namespace.unwrap_or_default(),
                &listed.subject.to_string(),
                &listed.resource_names.join(","),
                listed.admission.unwrap_or_default(),
                listed.depends.as_deref().unwrap_or_default(),
                &way,
            ];
            cells.map(plain).to_vec()
        };
        match is_wide {
            true => rows.extend(listed.through.iter().map(|way| row(way.to_string()))),
            false => rows.push(row(String::new())),
        }
    }
    without_empty_columns(&rows)
}

/// Prints everything as JSON.
pub(super) fn json(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    writeln!(out, "{:#}", document(report)?)
}

/// Prints everything as YAML.
pub(super) fn yaml(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    write!(out, "{}", yaml::block(&document(report)?))
}

/// The whole answer. For each namespace it has the lists of that namespace.
fn document(report: &Report) -> Result<Value, serde_json::Error> {
    let mut document = Map::new();
    let mut namespaces = Vec::new();
    for Part { namespace, lists } in &report.parts {
        let Value::Object(lists) = serde_json::to_value(lists)? else { continue };
        match namespace {
            None => document.extend(lists),
            Some(namespace) => {
                let mut part = Map::from_iter([("namespace".to_owned(), namespace.as_str().into())]);
                part.extend(lists);
                namespaces.push(Value::Object(part));
            }
        }
    }
    if report.parts.iter().all(|part| part.namespace.is_some()) {
        document.insert("namespaces".to_owned(), namespaces.into());
    }
    document.insert("incomplete".to_owned(), serde_json::to_value(&report.incomplete)?);
    document.insert("notes".to_owned(), serde_json::to_value(&report.notes)?);
    if let Some(revision) = report.revision {
        document.insert("etcdRevision".to_owned(), revision.into());
    }
    Ok(Value::Object(document))
}

/// Prints those who can, one a line: after the namespace and a tab, if each one is asked about.
pub(super) fn names(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for Part { namespace, lists } in &report.parts {
        for listed in &lists.subjects {
            if let Some(namespace) = namespace {
                write!(out, "{}\t", plain(namespace))?;
            }
            writeln!(out, "{}", plain(&listed.subject.to_string()))?;
        }
    }
    Ok(())
}
