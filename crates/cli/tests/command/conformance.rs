//! `review --check` finds no difference from Kubernetes 1.36 in any recording.

use std::path::PathBuf;

use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use serde_json::Value;

use crate::command::support::{Finished, portcullis, text};

/// One recording of lines, unpacked, and the flags that answer it.
struct Recording {
    name: String,
    lines: String,
    flags: Vec<String>,
}

/// The recordings of lines that `review` answers, with what they need written to the folder.
fn recordings(scratch: &Scratch) -> Vec<Recording> {
    let names = recorded::names();
    let mut found = Vec::new();
    for name in &names {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
        let (group, flags) = match (folder.split('/').next().unwrap(), file) {
            ("node-authorizer", "reviews.jsonl") => ("node-authorizer", "--authorization-mode Node"),
            ("node-restriction", "admission.jsonl") => ("node-restriction", ""),
            ("rbac", "reviews.jsonl") => ("rbac", "--authorization-mode RBAC"),
            ("rbac", "rules.jsonl") => ("rbac", "--authorization-mode RBAC --rules"),
            ("rbac", "covers.jsonl") => ("", "--covers"),
            ("abac", "reviews.jsonl") => ("abac", "--authorization-mode ABAC"),
            ("", "requestinfo.jsonl") => ("", "--request-info"),
            ("", "kubelet-request-attributes.jsonl") => ("", "--kubelet-attributes"),
            _ => continue,
        };
        let mut flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        let beside = match group {
            "" => None,
            "abac" => Some(("--authorization-policy-file", "policy.jsonl")),
            _ => Some(("--state", "state.json")),
        };
        if let Some((flag, file)) = beside {
            let content = recorded::text(&format!("{folder}/{file}"));
            let path = scratch.write(&format!("{folder}/{file}"), content);
            flags.extend([flag.to_owned(), text(&path).to_owned()]);
        }
        found.push(Recording { name: name.clone(), lines: recorded::text(name), flags });
    }
    found
}

fn review(scratch: &Scratch, recording: &Recording, lines: &str, check: bool) -> Finished {
    let path: PathBuf = scratch.write("lines.jsonl", lines);
    let mut arguments = vec!["review", "--reviews", text(&path)];
    arguments.extend(recording.flags.iter().map(String::as_str));
    if check {
        arguments.push("--check");
    }
    portcullis(arguments)
}

#[test]
fn every_recording_is_answered_as_kubernetes_answered_it() {
    let scratch = Scratch::new();
    let recordings = recordings(&scratch);
    for (group, count) in [("node-authorizer/", 5), ("node-restriction/", 5), ("rbac/", 5), ("abac/", 3)] {
        assert_eq!(recordings.iter().filter(|r| r.name.starts_with(group)).count(), count, "{group}");
    }
    assert_eq!(recordings.len(), 20);
    for recording in &recordings {
        let run = review(&scratch, recording, &recording.lines, true);
        assert_eq!(
            (run.code, run.last_line()),
            (0, &*format!("{} checked, 0 differ", recording.lines.lines().count())),
            "{}: {}{}",
            recording.name,
            run.stdout.lines().next().unwrap_or_default(),
            run.stderr
        );
    }
}

#[test]
fn completed_lines_hold_the_question_and_pass_the_check() {
    let scratch = Scratch::new();
    for recording in &recordings(&scratch) {
        let run = review(&scratch, recording, &without_answers(&recording.lines), false);
        assert_eq!(run.code, 0, "{}: {}", recording.name, run.stderr);
        assert_eq!(run.stdout.lines().count(), recording.lines.lines().count(), "{}", recording.name);
        for (completed, recorded) in run.stdout.lines().zip(recording.lines.lines()) {
            let (completed, recorded): (Value, Value) =
                (serde_json::from_str(completed).unwrap(), serde_json::from_str(recorded).unwrap());
            for field in
                ["kind", "apiVersion", "spec", "request", "query", "owner", "servant", "method", "url"]
            {
                assert_eq!(completed.get(field), recorded.get(field), "{}: {recorded}", recording.name);
            }
        }
        let again = review(&scratch, recording, &run.stdout, true);
        let expected = format!("{} checked, 0 differ", recording.lines.lines().count());
        assert_eq!((again.code, again.last_line()), (0, &*expected), "{}", recording.name);
    }
}

/// The lines as questions only.
fn without_answers(lines: &str) -> String {
    changed(lines, |_, line| {
        for answer in ["status", "response", "covers", "uncovered", "info", "error", "attributes"] {
            line.as_object_mut().unwrap().remove(answer);
        }
    })
}

fn changed(lines: &str, mut change: impl FnMut(usize, &mut Value)) -> String {
    let mut out = String::new();
    for (number, line) in lines.lines().enumerate() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        change(number, &mut line);
        out.push_str(&line.to_string());
        out.push('\n');
    }
    out
}

#[test]
fn the_check_finds_exactly_the_answers_that_were_changed() {
    let scratch = Scratch::new();
    for recording in &recordings(&scratch) {
        let step = 97;
        let mut flipped = Vec::new();
        let lines = changed(&recording.lines, |number, line| {
            if number % step == 0 {
                flipped.push(number + 1);
                flip(line);
            }
        });
        let run = review(&scratch, recording, &lines, true);
        let expected = format!("{} checked, {} differ", recording.lines.lines().count(), flipped.len());
        assert_eq!((run.code, run.last_line()), (1, &*expected), "{}", recording.name);
        let named: Vec<usize> = run
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("line ")?.split(':').next()?.parse().ok())
            .collect();
        assert_eq!(named, flipped, "{}", recording.name);
    }
}

/// Makes the answer of a line another one.
fn flip(line: &mut Value) {
    for answer in
        ["/status/allowed", "/response/allowed", "/covers", "/status/incomplete", "/info/isResourceRequest"]
    {
        if let Some(value) = line.pointer_mut(answer) {
            *value = Value::Bool(!value.as_bool().unwrap());
            return;
        }
    }
    if let Some(attributes) = line.get_mut("attributes") {
        attributes.as_array_mut().unwrap().pop();
    } else {
        let fields = line.as_object_mut().unwrap();
        assert!(fields.remove("error").is_some(), "{fields:?}");
        fields.insert("info".to_owned(), serde_json::json!({"verb": "get"}));
    }
}

#[test]
fn the_check_looks_at_denials_codes_errors_and_lists_too() {
    let sar = |status: &str| {
        format!(
            r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{{"user":"a","resourceAttributes":{{"verb":"get","resource":"pods"}}}},"status":{status}}}"#
        )
    };
    let admission = |code: u16| {
        format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","resource":{{"group":"","version":"v1","resource":"nodes"}},"name":"n1","operation":"DELETE","userInfo":{{"username":"system:node:n0","groups":["system:nodes"]}}}},"response":{{"uid":"u","allowed":false,"status":{{"code":{code}}}}}}}"#
        )
    };
    let covers = |uncovered: &str| {
        format!(
            r#"{{"covers":false,"owner":[],"servant":[{{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}}],"uncovered":{uncovered}}}"#
        )
    };
    let rules = |resource_rules: &str, error: &str| {
        format!(
            r#"{{"query":{{"user":"a","groups":[],"namespace":"ns"}},"status":{{"resourceRules":{resource_rules},"nonResourceRules":[],"incomplete":false{error}}}}}"#
        )
    };
    let bad_url = |answer: &str| format!(r#"{{"method":"GET","url":"/api/v1/watch",{answer}}}"#);
    let cases = [
        (&[] as &[&str], sar(r#"{"allowed":false}"#), 0),
        (&[], sar(r#"{"allowed":false,"denied":true}"#), 1),
        (&[], sar(r#"{"allowed":true,"denied":true}"#), 1),
        // NR-35: another node's object is Forbidden.
        (&[], admission(403), 0),
        (&[], admission(400), 1),
        (&["--covers"], covers(r#"[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]"#), 0),
        (&["--covers"], covers("[]"), 1),
        (&["--rules"], rules("[]", ""), 0),
        (&["--rules"], rules("[]", r#","evaluationError":"x""#), 1),
        (&["--rules"], rules(r#"[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]"#, ""), 1),
        (&["--request-info"], bad_url(r#""error":"any text""#), 0),
        (&["--request-info"], bad_url(r#""info":{"verb":"get"}"#), 1),
    ];
    for (flags, line, differ) in cases {
        let run =
            crate::command::support::with_input([&["review", "--check"], flags].concat(), line.as_bytes());
        assert_eq!(
            (run.code, run.last_line()),
            (i32::from(differ != 0), &*format!("1 checked, {differ} differ")),
            "{line}: {}{}",
            run.stdout,
            run.stderr
        );
    }
}
