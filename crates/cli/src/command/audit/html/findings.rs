//! Findings, each with where it holds, why, and what to change.

use std::collections::BTreeMap;

use portcullis_policy::audit::findings::{Evidence, Finding, FixKind, FixPart, Instance, ReachChange};
use portcullis_policy::audit::reach::ReachSize;
use serde_json::Value;

use super::content::{Content, Listed};
use super::escape::{attribute, fragment, marked, name, nodes, number, text, text_lines};
use super::words::{admin_word, object_html, severity};
use crate::yaml;

/// All findings.
pub(super) fn findings(content: &Content<'_>) -> String {
    if content.audited.is_none() {
        return not_audited();
    }
    let findings = content.findings();
    if findings.is_empty() {
        return "<p class=none>No findings. Rules that were not checked are named under <a href=\"#unchecked\">Not checked</a>.</p>"
            .to_owned();
    }
    let reached_by = content.reached_by();
    findings.iter().map(|listed| one(*listed, &reached_by)).collect::<Vec<String>>().join("\n")
}

/// What stands in place of findings on a page about reach alone.
pub(super) fn not_audited() -> String {
    "<p class=none>This page shows reach alone. <code>portcullis audit -o html</code> also looks for findings.</p>".to_owned()
}

/// One finding, unfolded. Scripts fold it, and read its body only when it is unfolded again.
fn one(listed: Listed<'_>, reached_by: &BTreeMap<String, usize>) -> String {
    let Listed { finding, suppressed } = listed;
    let on = reached_by.get(&finding.subject).map(|count| {
        format!("<span class=on title=\"Nodes that reach it in the end\">{}</span>", nodes(*count))
    });
    let tag = suppressed.map(|_| "<span class=tag>suppressed</span>").unwrap_or_default();
    format!(
        "<details class=finding open id=\"finding/{}\" data-severity=\"{}\" data-rule=\"{id}\" data-subject=\"{}\"{}><summary>{} <span \
         class=id>{id}</span> <span class=what><b>{}</b><span class=title>{}</span></span>{}{tag}</summary><noscript><div \
         class=body>{}</div></noscript></details>",
        attribute(&finding.fingerprint),
        finding.severity.as_str(),
        attribute(&finding.subject),
        namespaces(finding),
        severity(finding.severity),
        name(&finding.subject),
        text(finding.rule.title),
        on.unwrap_or_default(),
        body(finding, suppressed),
        id = finding.rule.id,
    )
}

/// The namespaces that the subject does not name itself.
fn namespaces(finding: &Finding) -> String {
    let own = finding.subject.split('/').nth(1);
    let other = finding.instances.iter().filter_map(|instance| match instance {
        Instance::Namespace(name) if Some(name.as_str()) != own => Some(name.as_str()),
        _ => None,
    });
    let other: Vec<&str> = other.collect();
    match other.is_empty() {
        true => String::new(),
        false => format!(" data-namespaces=\"{}\"", attribute(&other.join("\n"))),
    }
}

fn body(finding: &Finding, suppressed: Option<&str>) -> String {
    let mut out = String::new();
    if let Some(reason) = suppressed {
        out.push_str(&format!("<p class=note>Suppressed: {}</p>", text(reason)));
    }
    if !finding.assumed.is_empty() {
        let assumed = text(&finding.assumed.join("; "));
        out.push_str(&format!("<p class=note>Assumed, because it is not known: {assumed}</p>"));
    }
    let places: Vec<String> =
        finding.instances.iter().map(|place| format!("<span>{}</span>", name(&place.to_string()))).collect();
    out.push_str(&format!("<h4>Where it holds</h4><p class=scopes>{}</p>", places.join(" ")));
    if !finding.evidence.is_empty() {
        let steps: String = finding.evidence.iter().map(evidence).collect();
        out.push_str(&format!("<h4>Evidence</h4><ol class=chain>{steps}</ol>"));
    }
    if !finding.grants.is_empty() {
        let grants: String =
            finding.grants.iter().map(|grant| format!("<li>{}</li>", self::grant(grant))).collect();
        out.push_str(&format!("<h4>Grants</h4><ul class=grants>{grants}</ul>"));
    }
    out.push_str("<h4>Fix</h4>");
    out.extend(finding.fix.parts.iter().map(fix));
    out.extend(finding.reach.as_ref().and_then(change));
    out.push_str(&format!(
        "<p class=refs><a href=\"#rule/{id}\">Rule {id}</a> · {} · <span class=fp>Fingerprint {}</span></p>",
        text(&finding.references.join(" · ")),
        text(&finding.fingerprint),
        id = finding.rule.id,
    ));
    out
}

fn evidence(step: &Evidence) -> String {
    let edge = step.edge.as_ref().map(|edge| {
        let edge = attribute(edge);
        format!("<a class=edge href=\"#step/{edge}\">{edge}</a> ")
    });
    let pointer = step.pointer.as_ref().map(|pointer| format!(" <span class=file>{}</span>", name(pointer)));
    let value = step.value.as_ref().map(|value| format!(" <code>{}</code>", text(value)));
    format!(
        "<li>{}{}{}{}</li>",
        edge.unwrap_or_default(),
        object_html(&step.object),
        pointer.unwrap_or_default(),
        value.unwrap_or_default()
    )
}

/// A grant of a finding (AU-71).
fn grant(grant: &Value) -> String {
    let of = |pointer: &str| grant.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let binding = match of("/binding/namespace") {
        "" => of("/binding/name").to_owned(),
        namespace => format!("{namespace}/{}", of("/binding/name")),
    };
    let rule = match grant.get("rule").and_then(Value::as_u64) {
        Some(rule) => format!(", rule {rule}"),
        None => ", rule to be added by aggregation".to_owned(),
    };
    let from = grant.get("aggregatedFrom").and_then(Value::as_array);
    let from: Vec<&str> = from.into_iter().flatten().filter_map(Value::as_str).collect();
    let from = match from.is_empty() {
        true => String::new(),
        false => format!(" from {}", name(&from.join(", "))),
    };
    format!(
        "{} {} to {} {}{rule}{from}",
        text(of("/binding/kind")),
        name(&binding),
        text(of("/role/kind")),
        name(of("/role/name"))
    )
}

fn fix(part: &FixPart) -> String {
    let mut out = format!("<p>{}</p>", marked(&part.text));
    if part.self_check == Some("failed") {
        out.push_str(
            "<p class=note>The check of this fix failed. It is described for a person and is not a patch.</p>",
        );
    }
    let (label, code) = match (part.kind, &part.patch, &part.manifest) {
        (FixKind::Manifest, _, Some(manifest)) => ("Manifest of", yaml::block(manifest)),
        (FixKind::Config, Some(patch), _) => ("Change of", yaml::block(patch)),
        (_, Some(patch), _) => ("Patch of", patch_lines(patch)),
        _ => return out,
    };
    let of = |field: &str| {
        let target = part.target.as_ref().and_then(|target| target.get(field));
        target.and_then(Value::as_str).unwrap_or_default()
    };
    let target = match of("namespace") {
        "" => of("name").to_owned(),
        namespace => format!("{namespace}/{}", of("name")),
    };
    out.push_str(&format!(
        "<p class=target>{label} {} {}</p><pre tabindex=\"0\">{}</pre>",
        text(of("kind")),
        name(&target),
        text_lines(code.trim_end_matches('\n'))
    ));
    out
}

/// A patch with one operation a line.
fn patch_lines(patch: &Value) -> String {
    let Some(operations) = patch.as_array() else { return format!("{patch:#}") };
    let lines: Vec<String> = operations.iter().map(|operation| format!("  {operation}")).collect();
    format!("[\n{}\n]", lines.join(",\n"))
}

/// What the fix changes for the worst node; none if that is nothing, or not known.
fn change(reach: &ReachChange) -> Option<String> {
    let rows = changes(reach)?;
    if rows.iter().all(|(_, before, after)| before == after) {
        return None;
    }
    let rows: String = rows
        .into_iter()
        .map(|(label, before, after)| {
            let same = if before == after { " class=\"same\"" } else { "" };
            format!("<tr{same}><th scope=row>{label}</th><td>{before}</td><td>{after}</td></tr>")
        })
        .collect();
    Some(format!(
        "<h4>What the fix changes for node <a href=\"#node/{}\">{}</a></h4><table class=change><thead><tr><th scope=col>In the end</th><th \
         scope=col>Before</th><th scope=col>After</th></tr></thead><tbody>{rows}</tbody></table>",
        fragment(&reach.node),
        name(&reach.node)
    ))
}

/// How much a node reaches before and after a fix; none if no fix was tried.
pub(super) fn changes(reach: &ReachChange) -> Option<[(&'static str, String, String); 5]> {
    let after = reach.after.as_ref()?;
    let row = |label, of: &dyn Fn(&ReachSize) -> String| (label, of(&reach.before), of(after));
    Some([
        row("Cluster admin", &|size| admin_word(size.cluster_admin).to_owned()),
        row("Other nodes", &|size| number(size.counts.nodes)),
        row("Pods elsewhere", &|size| number(size.counts.pods.of_others)),
        row("Secrets", &|size| number(size.counts.secrets.count)),
        row("Accounts", &|size| number(size.counts.serviceaccounts)),
    ])
}
