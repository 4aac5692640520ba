//! The rules with what they found, what the steps of paths mean, and what was not checked.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::audit::Why;
use portcullis_policy::audit::findings::{Note, RULES, Rule};
use portcullis_policy::audit::reach::STEPS;

use super::content::{Audited, Content, Listed};
use super::escape::{marked, name, number, text};
use super::findings::not_audited;
use super::words::{object_html, severity};

/// The rules. None of them is called passed: what is not found may not be known.
pub(super) fn rules(content: &Content<'_>) -> String {
    let Some(audited) = content.audited else { return not_audited() };
    let findings = content.findings();
    let gaps = content.gaps();
    let row = |rule: &Rule| {
        format!(
            "<tr id=\"rule/{}\"><th scope=row>{}</th><td>{}</td><td><b>{}</b> {} {}</td><td>{}</td></tr>",
            rule.id,
            rule.id,
            severity(rule.severity),
            text(rule.title),
            marked(rule.what),
            marked(rule.why),
            result(rule.id, audited, &findings, gaps.contains(rule.id))
        )
    };
    format!(
        "<div class=wide tabindex=\"0\" role=\"region\" aria-label=\"Rules\"><table class=rules><thead><tr><th scope=col>Rule</th><th \
         scope=col>Severity</th><th scope=col>What it looks for</th><th scope=col>Result</th></tr></thead><tbody>\n{}\n</tbody></table></div>",
        RULES.iter().map(row).collect::<Vec<String>>().join("\n")
    )
}

fn result(id: &str, audited: Audited<'_>, findings: &[Listed<'_>], has_gap: bool) -> String {
    if !audited.rules.is_empty() && !audited.rules.iter().any(|rule| rule == id) {
        return "not asked for".to_owned();
    }
    let count = findings.iter().filter(|listed| listed.finding.rule.id == id).count();
    let found = (count > 0).then(|| {
        let plural = if count == 1 { "" } else { "s" };
        format!("<a href=\"#findings\" data-query=\"rule={id}\">{} finding{plural}</a>", number(count))
    });
    let missing = has_gap.then(|| "<a class=gap href=\"#unchecked\">not checked in full</a>".to_owned());
    let parts: Vec<String> = found.into_iter().chain(missing).collect();
    if parts.is_empty() { "nothing found".to_owned() } else { parts.join(" · ") }
}

/// What each step of a path means.
pub(super) fn steps() -> String {
    let steps = (1..).zip(STEPS).map(|(number, (title, meaning))| {
        format!(
            "<div id=\"step/E{number}\"><dt>E{number} <span>{}</span></dt><dd>{}</dd></div>",
            text(title),
            text(meaning)
        )
    });
    format!("<dl class=steps>{}</dl>", steps.collect::<String>())
}

/// What was missing, and what else is worth knowing.
pub(super) fn unchecked(content: &Content<'_>) -> String {
    let mut out = match content.incomplete.is_empty() {
        true => "<p class=none>Every rule had the input that it needs.</p>".to_owned(),
        false => gaps(content),
    };
    let selected = content.audited.map(|audited| audited.selected);
    let notes = selected.into_iter().flat_map(|selected| &selected.report.notes).map(note);
    let fixed = selected.into_iter().flat_map(|selected| &selected.fixed).map(|fixed| {
        format!("<li><span class=k>Fixed</span> {} {}</li>", name(&fixed.id), name(&fixed.subject))
    });
    let items: Vec<String> = notes.chain(fixed).collect();
    if !items.is_empty() {
        out.push_str(&format!("\n<h3>Notes</h3><ul class=notes>{}</ul>", items.concat()));
    }
    out
}

fn gaps(content: &Content<'_>) -> String {
    // Findings and reach may lack the same.
    let mut rules = BTreeMap::<(&str, Why, &str), BTreeSet<&str>>::new();
    for missing in &content.incomplete {
        rules.entry((&missing.input, missing.why, &missing.detail)).or_default().extend(&missing.rules);
    }
    let rows = rules.into_iter().map(|((input, why, detail), rules)| {
        let rules: Vec<&str> = rules.into_iter().collect();
        format!(
            "<tr><th scope=row>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            text(input),
            why.as_str().replace('-', " "),
            text(detail),
            text(&rules.join(" "))
        )
    });
    format!(
        "<div class=wide tabindex=\"0\" role=\"region\" aria-label=\"What was missing\"><table class=gaps><thead><tr><th \
         scope=col>Input</th><th scope=col>Why</th><th scope=col>What that means</th><th scope=col>Not checked in full</th></tr></thead>\
         <tbody>\n{}\n</tbody></table></div>",
        rows.collect::<Vec<String>>().join("\n")
    )
}

fn note(note: &Note) -> String {
    let kind = match note.kind {
        "danglingBinding" => "Dangling binding",
        "unreadableRequest" => "Unreadable request",
        kind => kind,
    };
    let creators = match note.creators.is_empty() {
        true => String::new(),
        false => format!(" Who can create it: {}", name(&note.creators.join(", "))),
    };
    format!(
        "<li><span class=k>{kind}</span> {} {}{creators}</li>",
        object_html(&note.object),
        text(&note.detail)
    )
}
