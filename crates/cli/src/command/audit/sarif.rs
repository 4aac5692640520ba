//! Findings as SARIF 2.1.0, for code scanning of GitHub and others (AU-135).

use std::collections::BTreeMap;
use std::path::Path;

use portcullis_policy::audit::Incomplete;
use portcullis_policy::audit::findings::{Evidence, Finding, RULES, Rule, Severity};
use serde_json::{Value, json};

use super::selection::{Selected, Suppressed};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// The key of the fingerprint.
const FINGERPRINT: &str = "portcullis/v1";

/// The document of one run.
pub(super) fn document(selected: &Selected) -> Value {
    let places: BTreeMap<&str, usize> =
        RULES.iter().enumerate().map(|(place, rule)| (rule.id, place)).collect();
    let place = |finding: &Finding| places.get(finding.rule.id).copied().unwrap_or_default();
    let shown = selected.report.findings.iter().map(|finding| result(finding, place(finding), None));
    let suppressed = selected
        .suppressed
        .iter()
        .map(|suppressed| result(&suppressed.finding, place(&suppressed.finding), Some(suppressed)));
    let results: Vec<Value> = shown.chain(suppressed).collect();
    let notifications: Vec<Value> = selected.report.incomplete.iter().map(notification).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "portcullis",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": RULES.iter().map(rule).collect::<Vec<Value>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": notifications.is_empty(),
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    })
}

fn rule(rule: &Rule) -> Value {
    let text = format!("{} {}\n\nBy hand: {}\n\nFix: {}", rule.what, rule.why, rule.by_hand, rule.fix);
    let markdown = format!(
        "{} {}\n\n**By hand**: `{}`\n\n**Fix**: {}\n\n**What a stolen node still reaches**: {}",
        rule.what, rule.why, rule.by_hand, rule.fix, rule.residual
    );
    json!({
        "id": rule.id,
        "name": name(rule.title),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": format!("{} {}", rule.what, rule.why)},
        "help": {"text": text, "markdown": markdown},
        "defaultConfiguration": {"level": level(rule.severity)},
        "properties": {
            "security-severity": security_severity(rule.severity),
            "tags": ["security", "kubernetes"],
        },
    })
}

/// A title as one word in Pascal case, as SARIF wants names of rules.
fn name(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let mut chars = word.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(chars).collect::<String>()
        })
        .collect()
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low | Severity::Info => "note",
    }
}

fn security_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "9.5",
        Severity::High => "8.0",
        Severity::Medium => "5.5",
        Severity::Low => "3.0",
        Severity::Info => "0.0",
    }
}

fn result(finding: &Finding, place: usize, suppressed: Option<&Suppressed>) -> Value {
    let places: Vec<String> = finding.instances.iter().map(ToString::to_string).collect();
    let message = format!("{}: {} ({})", finding.subject, finding.rule.title, places.join(", "));
    let mut result = json!({
        "ruleId": finding.rule.id,
        "ruleIndex": place,
        "level": level(finding.severity),
        "message": {"text": message},
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "locations": [location(&finding.subject, place_of(finding))],
        "properties": {"severity": finding.severity, "security-severity": security_severity(finding.severity)},
    });
    let Some(fields) = result.as_object_mut() else { return result };
    if !finding.evidence.is_empty() {
        let steps: Vec<Value> = finding.evidence.iter().map(step).collect();
        fields.insert("codeFlows".to_owned(), json!([{"threadFlows": [{"locations": steps}]}]));
    }
    if let Some(suppressed) = suppressed {
        let why = suppressed.reason.clone().unwrap_or_else(|| "known from the baseline".to_owned());
        let suppressions = json!([{"kind": "external", "status": "accepted", "justification": why}]);
        fields.insert("suppressions".to_owned(), suppressions);
    }
    result
}

/// Where an object is: it has a name, and perhaps a file and a line.
fn location(object: &str, place: Option<(&str, usize)>) -> Value {
    let mut location = json!({"logicalLocations": [{"fullyQualifiedName": object, "kind": "resource"}]});
    if let (Some(fields), Some((file, line))) = (location.as_object_mut(), place) {
        let physical = json!({"artifactLocation": {"uri": uri(file)}, "region": {"startLine": line}});
        fields.insert("physicalLocation".to_owned(), physical);
    }
    location
}

/// The place of the rule, field or object that proves a finding: the last of the evidence that is in a file, with a field if one has.
fn place_of(finding: &Finding) -> Option<(&str, usize)> {
    let place = |evidence: &'_ &Evidence| evidence.file.is_some();
    let with_field = finding.evidence.iter().filter(place).rfind(|evidence| evidence.pointer.is_some());
    let last = with_field.or_else(|| finding.evidence.iter().rfind(place))?;
    Some((last.file.as_deref()?, last.line?))
}

/// A path as a URI, relative to the working directory where it can be.
fn uri(file: &str) -> String {
    let directory = std::env::current_dir().unwrap_or_default();
    let path = Path::new(file);
    let path = path.strip_prefix(&directory).unwrap_or(path);
    let words = path.to_string_lossy();
    let mut uri = String::from(if path.is_absolute() { "file://" } else { "" });
    for byte in words.trim_start_matches("./").bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(char::from(byte))
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

fn step(evidence: &Evidence) -> Value {
    let words = [evidence.pointer.as_deref(), evidence.value.as_deref()].into_iter().flatten();
    let text = std::iter::once(evidence.object.as_str()).chain(words).collect::<Vec<_>>().join(" ");
    let place = evidence.file.as_deref().zip(evidence.line);
    let mut at = location(&evidence.object, place);
    if let Some(fields) = at.as_object_mut() {
        fields.insert("message".to_owned(), json!({"text": text}));
    }
    json!({"location": at})
}

/// What was not checked.
fn notification(missing: &Incomplete) -> Value {
    let text = format!(
        "not checked: {}: {} {}: {}",
        missing.rules.join(", "),
        missing.input,
        missing.why.as_str(),
        missing.detail
    );
    json!({"level": "warning", "message": {"text": text}})
}
