//! Prints findings for people. Names come from the cluster, so they are escaped for the terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use portcullis_policy::audit::findings::{Evidence, Finding, Fix, FixKind, ReachChange, Severity};
use portcullis_policy::audit::reach::ReachSize;
use portcullis_policy::audit::{Incomplete, Why};

use super::selection::Selected;
use crate::table::columns;
use crate::terminal::plain;

/// Prints a table: severity, id, subject, and one line.
pub(super) fn table(out: &mut dyn Write, selected: &Selected) -> io::Result<()> {
    let findings = &selected.report.findings;
    if !findings.is_empty() {
        let mut rows = vec![["SEVERITY", "ID", "SUBJECT", "FINDING"].map(str::to_owned).to_vec()];
        rows.extend(findings.iter().map(|finding| {
            vec![
                finding.severity.to_string(),
                finding.rule.id.to_owned(),
                plain(&finding.subject).to_string(),
                finding.rule.title.to_owned(),
            ]
        }));
        columns(out, &rows)?;
        writeln!(out)?;
    }
    not_checked(out, &selected.report.incomplete)?;
    end(out, selected)
}

/// Which rules were not checked in full, and what the state lacks, in two lines.
fn not_checked(out: &mut dyn Write, incomplete: &[Incomplete]) -> io::Result<()> {
    let rules: BTreeSet<&str> = incomplete.iter().flat_map(|missing| &missing.rules).copied().collect();
    let inputs: Vec<&str> = incomplete.iter().map(|missing| missing.input.as_str()).collect();
    if rules.is_empty() {
        return Ok(());
    }
    let rules: Vec<&str> = rules.into_iter().collect();
    writeln!(out, "not checked in full: {}", rules.join(", "))?;
    writeln!(out, "because of: {} (-o wide says why)\n", plain(&inputs.join(", ")))
}

/// Prints each finding with where it holds, why, what proves it, and how to mend it.
pub(super) fn wide(out: &mut dyn Write, selected: &Selected) -> io::Result<()> {
    for finding in &selected.report.findings {
        let Finding { rule, severity, subject, instances, .. } = finding;
        writeln!(out, "{} {} {}", severity.as_str().to_uppercase(), rule.id, plain(subject))?;
        writeln!(out, "  {}. {}", rule.title, rule.why)?;
        let places: Vec<String> =
            instances.iter().map(|place| plain(&place.to_string()).to_string()).collect();
        writeln!(out, "  where: {}", places.join(", "))?;
        for evidence in &finding.evidence {
            writeln!(out, "  {}", plain(&evidence_line(evidence)))?;
        }
        if !finding.assumed.is_empty() {
            writeln!(out, "  assumed: {}", finding.assumed.join(", "))?;
        }
        if let Some(reach) = &finding.reach {
            writeln!(out, "  {}", plain(&reach_line(reach)))?;
        }
        writeln!(out, "  fix ({}): {}", how(&finding.fix), rule.fix)?;
        writeln!(out, "  fingerprint: {}\n", finding.fingerprint)?;
    }
    for missing in &selected.report.incomplete {
        writeln!(out, "not checked: {}", plain(&missing_line(missing)))?;
    }
    if !selected.report.incomplete.is_empty() {
        writeln!(out)?;
    }
    end(out, selected)
}

/// Prints the subjects, each once.
pub(super) fn names(out: &mut dyn Write, selected: &Selected) -> io::Result<()> {
    let subjects: BTreeSet<&str> =
        selected.report.findings.iter().map(|finding| finding.subject.as_str()).collect();
    subjects.iter().try_for_each(|subject| writeln!(out, "{}", plain(subject)))
}

/// How a fix is applied.
fn how(fix: &Fix) -> &'static str {
    let has = |kind| fix.parts.iter().any(|part| part.kind == kind);
    let is = |check| fix.parts.iter().any(|part| part.self_check == Some(check));
    if is("failed") {
        "by hand: a patch was tried and was not enough"
    } else if has(FixKind::Manual) {
        "by hand"
    } else if has(FixKind::Config) {
        "configuration"
    } else if is("passed") {
        "patch, tried in memory"
    } else {
        "patch"
    }
}

fn evidence_line(evidence: &Evidence) -> String {
    let Evidence { object, edge, pointer, value, file, line } = evidence;
    let edge = edge.as_ref().map(|edge| format!(" ({edge})")).unwrap_or_default();
    let pointer = pointer.as_ref().map(|pointer| format!(" {pointer}")).unwrap_or_default();
    let value = value.as_ref().map(|value| format!(": {value}")).unwrap_or_default();
    let place = file.as_ref().zip(*line).map(|(file, line)| format!(" ({file}:{line})")).unwrap_or_default();
    format!("-> {object}{edge}{pointer}{value}{place}")
}

fn reach_line(reach: &ReachChange) -> String {
    let words = |size: &ReachSize| {
        let counts = &size.counts;
        let secrets = if counts.secrets.all { "all".to_owned() } else { counts.secrets.count.to_string() };
        format!(
            "cluster admin: {}; other nodes: {}, pods: {}, secrets: {secrets}, service accounts: {}",
            size.cluster_admin.as_str(),
            counts.nodes,
            counts.pods.count,
            counts.serviceaccounts
        )
    };
    let after =
        reach.after.as_ref().map(|after| format!(" | after the fix: {}", words(after))).unwrap_or_default();
    format!("reach of node/{}: {}{after}", reach.node, words(&reach.before))
}

/// What is worth knowing beside the findings, and the sum.
fn end(out: &mut dyn Write, selected: &Selected) -> io::Result<()> {
    for note in &selected.report.notes {
        writeln!(out, "note: {} {}", plain(&note.object), plain(&note.detail))?;
    }
    for fixed in &selected.fixed {
        writeln!(out, "fixed: {} {}", plain(&fixed.id), plain(&fixed.subject))?;
    }
    if !selected.report.notes.is_empty() || !selected.fixed.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "{}", sum(selected))
}

/// Which rules an input is missing for.
fn missing_line(missing: &Incomplete) -> String {
    let why = match missing.why {
        Why::NotGiven => "is not in the state",
        Why::Refused => "was refused",
        Why::Failed => "could not be read",
        Why::Undecodable => "cannot be decoded",
        Why::Unresolved => "is not enough",
    };
    format!("{}: {} {why}: {}", missing.rules.join(", "), missing.input, missing.detail)
}

/// The number of findings by severity.
fn sum(selected: &Selected) -> String {
    let mut counts = BTreeMap::<Severity, usize>::new();
    for finding in &selected.report.findings {
        *counts.entry(finding.severity).or_default() += 1;
    }
    let by_severity: Vec<String> =
        counts.iter().rev().map(|(severity, count)| format!("{count} {severity}")).collect();
    let found = match selected.report.findings.len() {
        0 => "no findings".to_owned(),
        1 => format!("1 finding: {}", by_severity.join(", ")),
        count => format!("{count} findings: {}", by_severity.join(", ")),
    };
    let suppressed = match selected.suppressed.len() {
        0 => String::new(),
        count => format!("; {count} suppressed"),
    };
    format!("{found}{suppressed}")
}
