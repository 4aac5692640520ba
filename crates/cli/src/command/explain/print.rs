//! Prints explanations. Names come from the cluster, so they are escaped for the terminal.

use std::io::{self, Write};

use portcullis_policy::audit::Incomplete;
use portcullis_policy::audit::explain::{Answer, List, Listed, Miss, MissKind, Place};
use portcullis_policy::audit::who_can::{RuleWay, Way};
use serde_json::Value;

use crate::table::{columns, without_empty_columns};
use crate::terminal::plain;
use crate::yaml;

/// What is printed.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) answer: Answer,
    /// The revision of the objects, if they are those of etcd.
    pub(super) revision: Option<u64>,
}

/// How many values of a factor a table shows.
const SHOWN: usize = 3;

/// Prints tables for people: with `is_wide`, with the text of rules.
pub(super) fn table(out: &mut dyn Write, report: &Report, is_wide: bool) -> io::Result<()> {
    let answer = &report.answer;
    writeln!(out, "{}", answer.answer.as_str())?;
    ways(out, "", &answer.ways, is_wide)?;
    ways(out, "would allow it:", &answer.blocked, is_wide)?;
    let title = "will allow it when the aggregation controller has added rules to their roles:";
    ways(out, title, &answer.pending, is_wide)?;
    if !answer.needed.is_empty() {
        writeln!(out, "\nneeded:")?;
        for needed in &answer.needed {
            writeln!(out, "  {}", plain(&needed.to_string()))?;
        }
    }
    if !answer.misses.is_empty() {
        writeln!(out, "\nnear misses:")?;
        let head = ["NEAR MISS", "FACTOR", "IT HAS", "WANTED", "HINT", "SUBJECT", "WHERE"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(answer.misses.listed.iter().map(|miss| miss_row(miss, is_wide)));
        if rows.len() > 1 {
            columns(out, &without_empty_columns(&rows))?;
        }
        left_out(out, answer.misses.left_out, "--misses")?;
    }
    if let Some(revision) = report.revision {
        writeln!(out, "\nnote: as of revision {revision} of etcd")?;
    }
    for Incomplete { input, why, detail, .. } in &answer.incomplete {
        writeln!(out, "\nincomplete: {} ({}): {}", plain(input), why.as_str(), plain(detail))?;
    }
    if let Some(plugin) = answer.admission {
        writeln!(out, "\nnote: the admission plugin {plugin} checks what a node writes, and may refuse it")?;
    }
    for note in &answer.notes {
        writeln!(out, "\nnote: {}", plain(&note.to_string()))?;
    }
    Ok(())
}

fn ways(out: &mut dyn Write, title: &str, ways: &List<Listed>, is_wide: bool) -> io::Result<()> {
    if ways.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    if !title.is_empty() {
        writeln!(out, "{title}")?;
    }
    let mut rows = vec![["FIRST", "SUBJECT", "THROUGH", "BLOCKED BY"].map(str::to_owned).to_vec()];
    rows.extend(ways.listed.iter().map(|listed| {
        let subject = listed.subject.as_ref().map(ToString::to_string).unwrap_or_default();
        let first = if listed.is_first { "*" } else { "" };
        let way = match &listed.way {
            Way::Rule(rule) if !is_wide => format!("RBAC: {}", short(rule)),
            way => way.to_string(),
        };
        let blocked = listed.blocked_by.as_deref().unwrap_or_default();
        [first, &subject, &way, blocked].map(plain).to_vec()
    }));
    if rows.len() > 1 {
        columns(out, &without_empty_columns(&rows))?;
    }
    left_out(out, ways.left_out, "--paths")
}

fn left_out(out: &mut dyn Write, count: usize, flag: &str) -> io::Result<()> {
    if count > 0 { writeln!(out, "and {count} more: see {flag}") } else { Ok(()) }
}

/// A way without the text of the rule. A rule that the role does not have yet has no number, so its text stays.
fn short(way: &RuleWay) -> String {
    match way.rule().and_then(|rule| rule.index) {
        Some(index) => format!("{} -> {} rules[{index}]", way.binding(), way.role()),
        None => way.to_string(),
    }
}

fn miss_row(miss: &Miss, is_wide: bool) -> Vec<String> {
    let kind = match miss.kind {
        MissKind::Denial => "denied",
        MissKind::OwnGrant => "one factor",
        MissKind::OtherSubject => "granted to others",
        MissKind::UnboundRole => "role without binding",
        MissKind::DanglingBinding => "binding without role",
        MissKind::Node => "node",
    };
    let place = match &miss.place {
        Place::Rule(way) if !is_wide => format!("RBAC: {}", short(way)),
        Place::Role { role, rule_index, .. } if !is_wide => format!("RBAC: {role} rules[{rule_index}]"),
        place => place.to_string(),
    };
    let subject = miss.subject.as_ref().map(ToString::to_string).unwrap_or_default();
    let Some(difference) = &miss.difference else {
        return [kind, "", "", "", "", &subject, &place].map(plain).to_vec();
    };
    let hint = difference.typing_error.map(|error| error.to_string()).unwrap_or_default();
    let factor = difference.factor.as_str();
    let wanted = value(&difference.wanted);
    [kind, factor, &values(&difference.has), &wanted, &hint, &subject, &place].map(plain).to_vec()
}

/// The first values, and how many there are beside them.
fn values(all: &[String]) -> String {
    if all.is_empty() {
        return "nothing".to_owned();
    }
    let shown: Vec<String> = all.iter().take(SHOWN).map(|text| value(text)).collect();
    let more = all.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}

/// A value; the empty one in quotes.
fn value(text: &str) -> String {
    if text.is_empty() { "\"\"".to_owned() } else { text.to_owned() }
}

/// Prints everything as JSON.
pub(super) fn json(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    writeln!(out, "{:#}", document(report)?)
}

/// Prints everything as YAML.
pub(super) fn yaml(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    write!(out, "{}", yaml::block(&document(report)?))
}

fn document(report: &Report) -> Result<Value, serde_json::Error> {
    let mut document = serde_json::to_value(&report.answer)?;
    if let (Some(revision), Some(fields)) = (report.revision, document.as_object_mut()) {
        fields.insert("etcdRevision".to_owned(), revision.into());
    }
    Ok(document)
}
