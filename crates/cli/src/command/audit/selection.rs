//! What of the findings is shown: some rules only, without what is excluded, and without what a baseline knows (AU-133, AU-134).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use portcullis_policy::audit::findings::{Finding, Report, rule};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::yaml;

/// A finding that is not shown as such, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Suppressed {
    #[serde(flatten)]
    pub(super) finding: Finding,
    /// `baseline` or `exclusion`.
    pub(super) suppressed_by: &'static str,
    /// The reason of an exclusion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

/// A finding of the baseline that is there no more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Fixed {
    pub(super) id: String,
    pub(super) subject: String,
    pub(super) fingerprint: String,
}

/// What is shown.
#[derive(Debug, Serialize)]
pub(in crate::command) struct Selected {
    #[serde(flatten)]
    pub(super) report: Report,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) suppressed: Vec<Suppressed>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) fixed: Vec<Fixed>,
}

/// One entry of an exclusion file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exclusion {
    id: String,
    subject: String,
    reason: String,
    expires: String,
    #[serde(skip)]
    is_used: bool,
}

/// The findings that an earlier run knew: id and subject by fingerprint.
type Baseline = BTreeMap<String, (String, String)>;

/// Selects what is shown. `today` decides which exclusions have expired; warnings are for the standard error.
///
/// # Errors
/// A file cannot be read, or is not what it must be; a rule is not known.
pub(super) fn select(
    report: Report,
    rules: &[String],
    exclude: Option<&Path>,
    baseline: Option<&Path>,
    today: Date,
) -> Result<(Selected, Vec<String>), Failure> {
    if let Some(unknown) = rules.iter().find(|id| rule(id).is_none()) {
        return Err(Failure::input(format_args!(
            "--rule {unknown:?}: there is no such rule; they are PC101 to PC137"
        )));
    }
    let mut report = report;
    if !rules.is_empty() {
        report.findings.retain(|finding| rules.iter().any(|id| id == finding.rule.id));
    }
    let mut warnings = Vec::new();
    let mut exclusions = exclude.map(exclusions).transpose()?.unwrap_or_default();
    exclusions.retain(|exclusion| match exclusion.expires.parse::<Date>() {
        Ok(expires) if expires >= today => true,
        _ => {
            let Exclusion { id, subject, expires, .. } = exclusion;
            warnings.push(format!(
                "the exclusion of {id} for {subject} expired on {expires}: it suppresses nothing"
            ));
            false
        }
    });
    let known = baseline.map(read_baseline).transpose()?.unwrap_or_default();
    let mut selected = Selected { report, suppressed: Vec::new(), fixed: Vec::new() };
    let mut seen = BTreeSet::new();
    for finding in std::mem::take(&mut selected.report.findings) {
        let exclusion = exclusions.iter_mut().find(|exclusion| {
            matches(&exclusion.id, finding.rule.id) && matches(&exclusion.subject, &finding.subject)
        });
        seen.insert(finding.fingerprint.clone());
        if let Some(exclusion) = exclusion {
            exclusion.is_used = true;
            let reason = Some(exclusion.reason.clone());
            selected.suppressed.push(Suppressed { finding, suppressed_by: "exclusion", reason });
        } else if known.contains_key(&finding.fingerprint) {
            selected.suppressed.push(Suppressed { finding, suppressed_by: "baseline", reason: None });
        } else {
            selected.report.findings.push(finding);
        }
    }
    let is_gone = |(fingerprint, _): &(&String, &(String, String))| !seen.contains(*fingerprint);
    let fixed = |(fingerprint, (id, subject)): (&String, &(String, String))| Fixed {
        id: id.clone(),
        subject: subject.clone(),
        fingerprint: fingerprint.clone(),
    };
    selected.fixed = known.iter().filter(is_gone).map(fixed).collect();
    selected.fixed.sort();
    for Exclusion { id, subject, .. } in exclusions.iter().filter(|exclusion| !exclusion.is_used) {
        warnings.push(format!("the exclusion of {id} for {subject} matches no finding: remove it"));
    }
    Ok((selected, warnings))
}

/// Whether a pattern, in which `*` stands for any text, matches.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at.saturating_add(part.len())..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn exclusions(path: &Path) -> Result<Vec<Exclusion>, Failure> {
    let text = read(path)?;
    let wrong = |reason: &dyn std::fmt::Display| {
        Failure::input(format_args!(
            "{}: {reason}; write a list of entries with id, subject, reason and expires (YYYY-MM-DD)",
            path.display()
        ))
    };
    let entries: Vec<Exclusion> = serde_saphyr::from_str(&text).map_err(|error| wrong(&error))?;
    for entry in &entries {
        if entry.reason.trim().is_empty() {
            return Err(wrong(&format_args!(
                "the exclusion of {} for {} has no reason",
                entry.id, entry.subject
            )));
        }
        entry.expires.parse::<Date>().map_err(|error| {
            wrong(&format_args!("the exclusion of {} for {}: expires: {error}", entry.id, entry.subject))
        })?;
    }
    Ok(entries)
}

/// Reads the JSON output of an earlier run, or its SARIF. What was suppressed there stays so.
fn read_baseline(path: &Path) -> Result<Baseline, Failure> {
    let text = read(path)?;
    let wrong = |reason: String| Failure::input(format_args!("{}: {reason}", path.display()));
    let document: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let list = |key: &str| document.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let text_at =
        |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let mut baseline = Baseline::new();
    let runs = list("runs");
    if runs.is_empty() && document.get("findings").is_none() {
        return Err(wrong("is neither the JSON output of `portcullis audit` nor SARIF".to_owned()));
    }
    for finding in list("findings").iter().chain(&list("suppressed")) {
        let words = ["/fingerprint", "/id", "/subject"].map(|pointer| text_at(finding, pointer));
        let [Some(fingerprint), Some(id), Some(subject)] = words else {
            return Err(wrong("a finding lacks its fingerprint, id or subject".to_owned()));
        };
        baseline.insert(fingerprint, (id, subject));
    }
    let results = runs.iter().filter_map(|run| run.get("results").and_then(Value::as_array)).flatten();
    for result in results {
        let words = [
            "/partialFingerprints/portcullis~1v1",
            "/ruleId",
            "/locations/0/logicalLocations/0/fullyQualifiedName",
        ]
        .map(|pointer| text_at(result, pointer));
        let [Some(fingerprint), Some(id), Some(subject)] = words else {
            return Err(wrong("a result is not one of `portcullis audit`".to_owned()));
        };
        baseline.insert(fingerprint, (id, subject));
    }
    Ok(baseline)
}

/// The baseline of what is shown and suppressed now.
pub(super) fn baseline_of(selected: &Selected) -> Value {
    let suppressed = selected.suppressed.iter().map(|suppressed| &suppressed.finding);
    let entry = |finding: &Finding| json!({"id": finding.rule.id, "subject": finding.subject, "fingerprint": finding.fingerprint});
    let findings: Vec<Value> = selected.report.findings.iter().chain(suppressed).map(entry).collect();
    json!({"findings": findings})
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format_args!("cannot read {}: {error}", path.display())))
}

/// Writes a baseline.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write_baseline(path: &PathBuf, selected: &Selected) -> Result<(), Failure> {
    let text = format!("{:#}\n", baseline_of(selected));
    std::fs::write(path, text)
        .map_err(|error| Failure::unreachable(format_args!("cannot write {}: {error}", path.display())))
}

/// The document as YAML.
pub(super) fn as_yaml(selected: &Selected) -> String {
    yaml::block(&serde_json::to_value(selected).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text) in [
            ("PC101", "PC101"),
            ("PC1*", "PC101"),
            ("*", ""),
            ("serviceaccount/*/agent", "serviceaccount/monitoring/agent"),
            ("*a*a", "banana"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("PC10", "PC101"), ("*x", "PC101"), ("a*a", "a"), ("a*b*c", "acb")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
