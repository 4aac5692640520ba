//! The dashboards and alerts in `deploy`: they ask for nothing that the command does not export, and promtool runs the unit
//! tests of the alerts in `tests/alerts`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use portcullis_testkit::metrics::{Metrics, documented, family};
use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool;
use serde_json::Value;

/// The commands that are scraped in a cluster, and the name of the job.
const COMMANDS: [(&str, &str); 5] = [
    ("approve", "portcullis-approver"),
    ("attest", "portcullis-attest"),
    ("guard", "portcullis-guard"),
    ("serve", "portcullis-serve"),
    ("webhook", "portcullis-webhook"),
];
/// The labels that a scrape adds to every series.
const OF_TARGET: [&str; 4] = ["instance", "job", "namespace", "pod"];

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The spec of the alerts of a command. Without the descriptions, which are the same in each case.
fn rules(command: &str) -> Value {
    let text = read(&format!("deploy/{command}/monitoring.yaml"));
    let documents = text.split("---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    let mut found: Vec<Value> = documents.filter(|object| object["kind"] == "PrometheusRule").collect();
    assert_eq!(found.len(), 1, "{command}");
    let mut spec = found.remove(0)["spec"].take();
    for rule in
        spec["groups"].as_array_mut().unwrap().iter_mut().flat_map(|g| g["rules"].as_array_mut().unwrap())
    {
        let description = rule["annotations"].as_object_mut().unwrap().remove("description");
        let text = description.as_ref().and_then(Value::as_str).unwrap_or_default();
        assert!(text.len() > 20, "{}: the description says what to do", rule["alert"]);
    }
    spec
}

fn alerts(rules: &Value) -> impl Iterator<Item = &Value> {
    rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap())
}

/// The series and labels that a PromQL expression uses.
#[derive(Debug, Default)]
struct Asked {
    /// Series, and the labels that they are selected by.
    series: Vec<(String, BTreeSet<String>)>,
    /// The labels that it groups and joins by.
    groups: BTreeSet<String>,
    /// The names of jobs.
    jobs: BTreeSet<String>,
}

impl Asked {
    fn of(expression: &str) -> Self {
        let mut asked = Self::default();
        let mut rest = expression;
        while let Some(start) = rest.find(|letter: char| !letter.is_whitespace()) {
            rest = &rest[start..];
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let end = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            if word.is_empty() {
                rest = match rest.as_bytes()[0] {
                    b'[' => &rest[rest.find(']').unwrap()..],
                    b'"' => &rest[1 + rest[1..].find('"').unwrap() + 1..],
                    _ => &rest[1..],
                };
                continue;
            }
            rest = behind.trim_start();
            if matches!(word, "by" | "on" | "ignoring" | "without") {
                let (labels, behind) = rest.strip_prefix('(').unwrap().split_once(')').unwrap();
                asked.groups.extend(labels.split(',').map(|label| label.trim().to_owned()));
                rest = behind;
            } else if word.starts_with(|letter: char| letter.is_ascii_digit())
                || matches!(word, "and" | "or" | "unless" | "offset")
                || ["(", "by ", "without "].iter().any(|next| rest.starts_with(next))
            {
                // A number, an operator, or a function. A sum names what it groups by first.
            } else if matches!(rest.strip_prefix('{'), Some(matchers) if !matchers.is_empty()) {
                let (labels, behind) = matchers(&rest[1..]);
                asked.jobs.extend(labels.get("job").cloned());
                asked.series.push((word.to_owned(), labels.into_keys().collect()));
                rest = behind;
            } else {
                asked.series.push((word.to_owned(), BTreeSet::new()));
            }
        }
        asked
    }
}

/// Labels with what they are compared with, and what is behind the brace.
fn matchers(text: &str) -> (BTreeMap<String, String>, &str) {
    let (mut labels, mut rest) = (BTreeMap::new(), text);
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(behind) = rest.strip_prefix('}') {
            return (labels, behind);
        }
        let (label, value) = rest.split_once('"').unwrap();
        let (value, behind) = value.split_once('"').unwrap();
        labels.insert(label.trim_end_matches(['=', '!', '~']).to_owned(), value.to_owned());
        rest = behind;
    }
}

/// An expression asks for metrics of the command alone, by labels that they have. Returns these labels.
#[track_caller]
fn assert_exported(metrics: &Metrics, job: &str, expression: &str) -> BTreeSet<String> {
    let asked = Asked::of(expression);
    assert!(!asked.series.is_empty(), "{expression}");
    assert!(asked.jobs.iter().all(|asked| asked == job), "{expression}: the job is {job}");
    let mut all: BTreeSet<String> = OF_TARGET.map(str::to_owned).into();
    for (series, selected) in asked.series {
        let mut labels: BTreeSet<String> = OF_TARGET.map(str::to_owned).into();
        if series != "up" {
            let family = family(metrics, &series).unwrap_or_else(|| panic!("{expression}: no {series}"));
            let metric = &metrics[&family];
            assert!(metric.kind != "histogram" || family != series, "{expression}: {series} has no series");
            labels.extend(metric.labels.iter().flatten().cloned());
            labels.extend(series.ends_with("_bucket").then(|| "le".to_owned()));
        }
        assert!(selected.is_subset(&labels), "{expression}: {series} has {labels:?}");
        all.extend(labels);
    }
    assert!(asked.groups.is_subset(&all), "{expression}: {all:?}");
    all
}

#[test]
fn expressions_are_read_as_prometheus_reads_them() {
    let asked = Asked::of(
        "sum by (le, pod) (rate(a_bucket{x=~\"p|q{\", job=\"j\"}[5m])) > 0.5 * (b unless on (z) c offset 5m) and vector(1)",
    );
    let names: Vec<_> = asked.series.iter().map(|(name, labels)| (&**name, labels.len())).collect();
    assert_eq!(names, [("a_bucket", 2), ("b", 0), ("c", 0)]);
    assert_eq!(asked.groups.iter().collect::<Vec<_>>(), ["le", "pod", "z"]);
    assert_eq!(asked.jobs.iter().collect::<Vec<_>>(), ["j"]);
}

#[test]
fn alerts_use_metrics_that_are_there_and_promtool_finds_that_each_fires_when_it_must_bc_25() {
    for (command, job) in COMMANDS {
        let (metrics, rules) = (documented(command), rules(command));
        let tests: Value = serde_saphyr::from_str(&read(&format!("tests/alerts/{command}.yaml"))).unwrap();
        let tests_of = |name: &str, field: &str| -> Vec<Value> {
            let cases = tests["tests"].as_array().unwrap().iter();
            let all = cases.flat_map(|case| case[field].as_array().unwrap());
            all.filter(|test| name.is_empty() || test["alertname"] == name).cloned().collect()
        };
        for alert in alerts(&rules) {
            assert_exported(&metrics, job, alert["expr"].as_str().unwrap());
            let name = alert["alert"].as_str().unwrap();
            let expected: Vec<bool> = tests_of(name, "alert_rule_test")
                .iter()
                .map(|test| !test["exp_alerts"].as_array().unwrap().is_empty())
                .collect();
            assert!(expected.contains(&true) && expected.contains(&false), "{name}: one test each");
        }
        // The tests are about series as they are exported.
        for series in tests_of("", "input_series") {
            let series = series["series"].as_str().unwrap();
            assert_exported(&metrics, job, series);
            let (name, labels) = series.split_once('{').unwrap();
            if name != "up" {
                let (labels, _) = matchers(labels);
                let mut labels: BTreeSet<String> = labels.into_keys().collect();
                labels.retain(|label| label != "le" && !OF_TARGET.contains(&&**label));
                assert_eq!(Some(labels), metrics[&family(&metrics, name).unwrap()].labels, "{series}");
            }
        }
        let scratch = Scratch::new();
        scratch.write("rules.yaml", rules.to_string());
        let test = scratch.write("test.yaml", tests.to_string());
        tool::run("promtool", ["check", "rules", scratch.path().join("rules.yaml").to_str().unwrap()]);
        tool::run("promtool", ["test", "rules", test.to_str().unwrap()]);
    }
}

#[test]
fn dashboards_use_metrics_that_are_there_bc_25() {
    for (command, job) in COMMANDS {
        let metrics = documented(command);
        let dashboard: Value =
            serde_json::from_str(&read(&format!("deploy/{command}/dashboard.json"))).unwrap();
        assert_eq!(dashboard["uid"], format!("portcullis-{command}"));
        let panels = dashboard["panels"].as_array().unwrap();
        assert!(panels.len() >= 4, "{command}");
        let mut recorded = Vec::new();
        for (number, panel) in (1..).zip(panels) {
            assert_eq!(panel["id"], number, "{command}");
            assert_eq!(panel["datasource"]["uid"], "${datasource}");
            for target in panel["targets"].as_array().unwrap() {
                let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "5m");
                let labels = assert_exported(&metrics, job, &expression);
                let legend = target["legendFormat"].as_str().unwrap();
                for label in legend.split("{{").skip(1).map(|rest| rest.split_once("}}").unwrap().0) {
                    assert!(labels.contains(label), "{command}: {legend} of {expression}");
                }
                let name = format!("panel:{number}");
                recorded.push(serde_json::json!({"record": name, "expr": expression, "labels": {"target": target["refId"]}}));
            }
        }
        // What promtool accepts as rules is what Prometheus can evaluate.
        let scratch = Scratch::new();
        let rules = serde_json::json!({"groups": [{"name": "dashboard", "rules": recorded}]});
        let path = scratch.write("rules.yaml", rules.to_string());
        tool::run("promtool", ["check", "rules", path.to_str().unwrap()]);
    }
}
