//! `portcullis audit` on the command line: output and exit codes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod archives;
mod collected;
mod deployed;
mod fake_cluster;
mod findings;
mod kubelets;
mod page;
mod reach;
mod salt;

use portcullis_testkit::program;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::Finished;
use serde_json::{Value, json};

/// A monitoring agent, an operator by a wildcard, everybody by an aggregated role, and a RoleBinding that grants nothing.
const STATE: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: monitoring}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list]}
- {apiGroups: [""], resources: [nodes/proxy, nodes/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: monitoring}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: monitoring}
subjects:
- {kind: ServiceAccount, name: agent, namespace: monitoring}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: cluster-admin}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: admins}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
- {kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:masters"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: useless, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: monitoring}
subjects:
- {kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}
"#;

fn audit(scratch: &Scratch, flags: &[&str]) -> Finished {
    let state = scratch.write("state.yaml", STATE);
    let fixed = ["audit", "kubelet-access", "--state", state.to_str().unwrap()];
    program!().run(fixed.iter().chain(flags))
}

#[test]
fn everybody_who_holds_it_is_named_and_the_exit_code_says_so() {
    let run = audit(&Scratch::new(), &["-o", "name"]);
    assert_eq!(
        (run.code, &*run.stdout),
        (1, "group/system:masters\nserviceaccount/monitoring/agent\n"),
        "{}",
        run.stderr
    );
    let table = audit(&Scratch::new(), &[]);
    let of_agent =
        table.stdout.lines().find(|line| line.starts_with("serviceaccount/monitoring/agent")).unwrap();
    for part in [" get ", " all ", "yes (GET)", " no ", "monitoring -> monitoring rules[1]"] {
        assert!(of_agent.contains(part), "{part:?} is not in: {of_agent}");
    }
    assert!(table.stdout.contains("RoleBinding shop/useless names nodes/proxy"), "{}", table.stdout);
    assert!(!table.stdout.contains("jane"), "a RoleBinding grants nothing on nodes");
}

#[test]
fn well_known_holders_are_left_out_by_name_and_nobody_left_is_clean() {
    let run = audit(&Scratch::new(), &["-o", "name", "--ignore-group", "system:masters"]);
    assert_eq!((run.code, &*run.stdout), (1, "serviceaccount/monitoring/agent\n"));
    let run = audit(&Scratch::new(), &["--ignore-group", "system:masters", "--ignore-role", "monitoring"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.starts_with("nobody holds nodes/proxy"), "{}", run.stdout);
}

#[test]
fn the_document_says_how_code_can_be_run() {
    let run = audit(&Scratch::new(), &["-o", "json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap();
    let [masters, agent] = document["holders"].as_array().unwrap().as_slice() else { panic!("{document:#}") };
    assert_eq!(masters["execution"], json!({"byWebsocket": true, "byPost": true, "behindGuard": true}));
    assert_eq!(agent["execution"], json!({"byWebsocket": true, "byPost": false, "behindGuard": false}));
    assert_eq!(
        agent["subject"],
        json!({"kind": "ServiceAccount", "namespace": "monitoring", "name": "agent"})
    );
    assert_eq!(agent["grants"][0]["rule"], 1);
}

/// What the rules that are printed let the agent do, asked of the same binary.
fn may(scratch: &Scratch, rules: &str, verb: &str, subresource: &str) -> bool {
    let state = scratch.write("rules.yaml", rules);
    let agent = "system:serviceaccount:monitoring:agent";
    let run = program!().run([
        "can-i",
        "--state",
        state.to_str().unwrap(),
        "--as",
        agent,
        "--subresource",
        subresource,
        verb,
        "nodes",
        "n1",
    ]);
    assert!(run.code < 2, "{}", run.stderr);
    run.code == 0
}

#[test]
fn the_rules_can_be_applied_and_grant_what_was_used_and_no_more() {
    let scratch = Scratch::new();
    let line = |method: &str, path: &str, code: u16| {
        json!({
            "user": "system:serviceaccount:monitoring:agent", "groups": ["system:serviceaccounts"], "method": method,
            "path": path, "verb": "get", "subresource": "x", "endpoint": "x", "code": code,
        })
    };
    let log = [line("GET", "/stats/summary", 200), line("GET", "/pods", 200), line("GET", "/configz", 403)];
    let log = scratch.write("access.jsonl", log.map(|line| line.to_string() + "\n").concat());
    let ignored = ["--ignore-group", "system:masters", "-o", "yaml"];
    let guessed = audit(&scratch, &ignored).stdout;
    let exact = audit(&scratch, &[&ignored[..], &["--access-log", log.to_str().unwrap()]].concat()).stdout;
    for (subresource, by_guess, by_evidence) in [
        ("pods", true, true),
        ("stats", false, true),
        ("healthz", true, false),
        ("configz", true, false),
        ("proxy", false, false),
        ("metrics", false, false),
    ] {
        assert_eq!(may(&scratch, &guessed, "get", subresource), by_guess, "{subresource}: {guessed}");
        assert_eq!(may(&scratch, &exact, "get", subresource), by_evidence, "{subresource}: {exact}");
        assert!(!may(&scratch, &exact, "create", subresource), "{subresource}: {exact}");
    }
}

#[test]
fn bad_input_is_refused_with_the_file_and_the_line() {
    let scratch = Scratch::new();
    let refused = |run: Finished, parts: &[&str]| {
        assert_eq!((run.code, &*run.stdout), (2, ""), "{}", run.stderr);
        for part in parts {
            assert!(run.stderr.contains(part), "{part:?} is not in: {}", run.stderr);
        }
    };
    let good = r#"{"code":200,"user":"u","method":"GET","path":"/pods"}"#;
    for (name, text, parts) in [
        ("a.jsonl", format!("{good}\n{{\"user\":\"u\"}}\n"), ["a.jsonl:2: ", "code"]),
        ("b.jsonl", format!("{good}\n\n{good}x\n"), ["b.jsonl:3: ", ""]),
    ] {
        let log = scratch.write(name, text);
        refused(audit(&scratch, &["--access-log", log.to_str().unwrap()]), &parts);
    }
    let log = scratch.write("c.jsonl", r#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1"}"#);
    refused(
        audit(&scratch, &["--audit-log", log.to_str().unwrap()]),
        &["c.jsonl:1: ", "kind: must be Event"],
    );
    refused(audit(&scratch, &["--access-log", "/nonexistent"]), &["/nonexistent"]);
    refused(program!().run(["audit", "kubelet-access"]), &["--state"]);
    let state = scratch
        .write("broken.yaml", "kind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1\nrules: 1\n");
    refused(
        program!().run(["audit", "kubelet-access", "--state", state.to_str().unwrap()]),
        &["broken.yaml"],
    );
}

#[test]
fn names_that_would_command_a_terminal_are_printed_without_effect() {
    let scratch = Scratch::new();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "evil\u{1b}[2J\n---\nkind: Pod"}]});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]});
    let state = scratch.write("state.json", list.to_string());
    for output in ["table", "wide", "json", "yaml", "name"] {
        let run =
            program!().run(["audit", "kubelet-access", "--state", state.to_str().unwrap(), "-o", output]);
        assert_eq!(run.code, 1, "{}", run.stderr);
        assert!(
            !run.stdout.contains('\u{1b}') && !run.stdout.contains("\nkind: Pod"),
            "{output}: {}",
            run.stdout
        );
    }
}
