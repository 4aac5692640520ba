//! The beginning of the page: the verdict, numbers, and what to change first.

use portcullis_policy::audit::findings::{Finding, RULES, Severity};
use portcullis_policy::audit::reach::{ClusterAdmin, MapNode};

use super::content::{Content, Listed};
use super::escape::{attribute, name, number, text};
use super::findings::{changes, not_audited};
use super::words::{admin, severity};

/// How many fixes are shown first.
const FIRST: usize = 5;

/// The verdict and the numbers.
pub(super) fn head(content: &Content<'_>) -> String {
    let mut out = format!("<p class=verdict>{}</p>\n", verdict(content));
    out.push_str(
        "<p class=lead>This page shows what an attacker gets who takes over one node: first what the node may read by itself, then \
         everything that follows from it. It was made from a copy of the objects of the cluster and changed nothing.</p>\n",
    );
    if !content.map.nodes.is_empty() {
        out.push_str(&share(content));
    }
    out.push_str("<dl class=tiles>\n");
    if content.audited.is_some() {
        out.push_str(&severities(&content.findings()));
    }
    out.push_str(&unchecked(content));
    out.push_str(&typical(
        "Secrets",
        &content.map.nodes,
        |node| node.direct.secrets,
        |node| node.size.counts.secrets.count,
    ));
    out.push_str(&typical(
        "Accounts",
        &content.map.nodes,
        |node| node.direct.accounts,
        |node| node.size.counts.serviceaccounts,
    ));
    out.push_str("</dl>");
    out
}

fn verdict(content: &Content<'_>) -> String {
    let all = number(content.map.nodes.len());
    match (content.count(ClusterAdmin::Yes), content.count(ClusterAdmin::Conditional)) {
        _ if content.map.nodes.is_empty() => "There are no nodes in this state.".to_owned(),
        (0, 0) if content.map.nodes.len() == 1 => "The node does not lead to cluster admin.".to_owned(),
        (0, 0) => format!("None of the {all} nodes leads to cluster admin."),
        (0, 1) => format!("No node leads to cluster admin by itself; 1 of {all} does if somebody else acts."),
        (0, some) => format!(
            "No node leads to cluster admin by itself; {} of {all} do if somebody else acts.",
            number(some)
        ),
        (1, _) if content.map.nodes.len() == 1 => "The node leads to cluster admin.".to_owned(),
        (1, _) => format!("1 of {all} nodes leads to cluster admin."),
        (some, _) => format!("{} of {all} nodes lead to cluster admin.", number(some)),
    }
}

/// The share of nodes that lead to admin, as a bar and as a legend.
fn share(content: &Content<'_>) -> String {
    let parts = [
        (ClusterAdmin::Yes, ["leads to cluster admin", "lead to cluster admin"]),
        (ClusterAdmin::Conditional, ["does if somebody else acts", "do if somebody else acts"]),
        (ClusterAdmin::No, ["does not", "do not"]),
    ];
    let counted = parts.map(|(word, [one, many])| {
        let count = content.count(word);
        (word, count, if count == 1 { one } else { many })
    });
    let parts = || counted.iter().filter(|(_, count, _)| *count > 0);
    let label: Vec<String> = parts().map(|(_, count, label)| format!("{} {label}", number(*count))).collect();
    let bar: String = parts()
        .map(|(word, count, _)| format!("<i class=\"{}\" style=\"flex-grow:{count}\"></i>", word.as_str()))
        .collect();
    let legend: String = parts()
        .map(|(word, count, label)| {
            format!("<li>{} <span>{} {label}</span></li>", admin(*word), number(*count))
        })
        .collect();
    format!(
        "<div class=share role=\"img\" aria-label=\"Nodes: {}\">{bar}</div>\n<ul class=legend>{legend}</ul>\n",
        label.join("; ")
    )
}

fn severities(findings: &[Listed<'_>]) -> String {
    let mut links = Vec::new();
    for level in Severity::ALL.into_iter().rev() {
        let count = findings.iter().filter(|listed| listed.finding.severity == level).count();
        if count > 0 {
            let query = format!("data-query=\"severity={}\"", level.as_str());
            links.push(format!("<a href=\"#findings\" {query}>{} {}</a>", severity(level), number(count)));
        }
    }
    let all = number(findings.len());
    format!("<div><dt>Findings</dt><dd>{all}</dd><dd class=more>{}</dd></div>\n", links.join(" "))
}

fn unchecked(content: &Content<'_>) -> String {
    let gaps = content.gaps();
    let count = match content.audited {
        Some(_) => format!(
            "{} <small>of {} rules</small>",
            number(RULES.iter().filter(|rule| gaps.contains(rule.id)).count()),
            RULES.len()
        ),
        None => format!("{} <small>inputs</small>", number(content.incomplete.len())),
    };
    let more = match content.incomplete.is_empty() {
        true => "Every rule had its input.",
        false => "<a href=\"#unchecked\">What was missing</a>",
    };
    let title = if content.audited.is_some() { "Not checked in full" } else { "Missing" };
    format!("<div><dt>{title}</dt><dd>{count}</dd><dd class=more>{more}</dd></div>\n")
}

/// The median of all nodes, and the largest number.
fn typical(
    what: &str,
    nodes: &[MapNode],
    first: impl Fn(&MapNode) -> usize,
    end: impl Fn(&MapNode) -> usize,
) -> String {
    let sorted = |of: &dyn Fn(&MapNode) -> usize| {
        let mut all: Vec<usize> = nodes.iter().map(of).collect();
        all.sort_unstable();
        all
    };
    let (first, end) = (sorted(&first), sorted(&end));
    let middle = |all: &[usize]| number(all.get(all.len() / 2).copied().unwrap_or_default());
    let last = |all: &[usize]| number(all.last().copied().unwrap_or_default());
    if nodes.is_empty() {
        return String::new();
    }
    format!(
        "<div><dt>{what}, typical node</dt><dd>{} <small>by itself</small> <span class=to>→</span> {} <small>in the end</small></dd>\
         <dd class=more>largest: {} by itself, {} in the end</dd></div>\n",
        middle(&first),
        middle(&end),
        last(&first),
        last(&end)
    )
}

/// The first findings whose fixes change what nodes reach, with what they change.
pub(super) fn first(content: &Content<'_>) -> String {
    if content.audited.is_none() {
        return not_audited();
    }
    let findings = content.findings();
    let shown = findings.iter().filter(|listed| listed.suppressed.is_none());
    let items: Vec<String> = shown.filter_map(|listed| first_item(listed.finding)).take(FIRST).collect();
    match (items.is_empty(), findings.is_empty()) {
        (false, _) => format!("<ol class=first>{}</ol>", items.concat()),
        (true, false) => "<p class=none>No single fix changes what the nodes reach.</p>".to_owned(),
        (true, true) => "<p class=none>Nothing was found.</p>".to_owned(),
    }
}

fn first_item(finding: &Finding) -> Option<String> {
    let reach = finding.reach.as_ref()?;
    let changed: Vec<String> = changes(reach)?
        .into_iter()
        .filter(|(_, before, after)| before != after)
        .map(|(label, before, after)| format!("{label} {before} <span class=to>→</span> {after}"))
        .collect();
    if changed.is_empty() {
        return None;
    }
    Some(format!(
        "<li>{} <a href=\"#finding/{}\"><span class=id>{}</span> {}</a><span class=title>{}</span><span class=grant>After the fix, \
         node {}: {}</span></li>",
        severity(finding.severity),
        attribute(&finding.fingerprint),
        finding.rule.id,
        name(&finding.subject),
        text(finding.rule.title),
        name(&reach.node),
        changed.join(", ")
    ))
}
