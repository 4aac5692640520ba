//! `diff`: what a change gives and takes, the forms of answers, and exit codes. The expectations follow from reading the states.

use portcullis_testkit::program;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

use crate::command::support::{Finished, portcullis, text, words};

const OLD: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: shop, name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: watchers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: health}
subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: watchers}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: health}
rules: [{nonResourceURLs: [/healthz], verbs: [get]}]
"#;

/// Readers may also list, and there are more of them; health is for nobody.
fn new() -> String {
    let cut = OLD.find("kind: ClusterRoleBinding").unwrap();
    let (kept, rest) = (&OLD[..cut], &OLD[cut..]);
    let kept = kept.replace("verbs: [get]", "verbs: [get, list]").replace(
        "name: jane}]",
        "name: jane}, {kind: Group, apiGroup: rbac.authorization.k8s.io, name: ops}]",
    );
    kept + &rest.replace("name: watchers}]", "name: \"system:masters\"}]")
}

fn diff(old: &str, new: &str, flags: &str) -> Finished {
    let scratch = Scratch::new();
    let (old, new) = (scratch.write("old.yaml", old), scratch.write("new.yaml", new));
    portcullis([vec!["diff", "--state", text(&old), "--to", text(&new)], words(flags)].concat())
}

#[track_caller]
fn document(run: &Finished) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:#?}"))
}

#[test]
fn each_class_that_one_side_alone_allows_is_a_row_au_111() {
    let run = diff(OLD, &new(), "--authorization-mode RBAC -o json");
    let answer = document(&run);
    assert_eq!(run.code, 1, "{run:#?}");
    let through = json!([{
        "by": "RBAC",
        "binding": {"kind": "RoleBinding", "namespace": "shop", "name": "readers"},
        "role": {"kind": "ClusterRole", "name": "reader"},
        "ruleIndex": 0,
        "rule": "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}",
    }]);
    let row = |subject: &str, verbs: Value, name: &str| {
        json!({
            "subject": subject, "verbs": verbs, "group": "", "resource": "pods", "subresource": "", "name": name,
            "namespace": "shop", "was": false, "now": true, "through": through,
        })
    };
    // Without a name, and with one that no rule names.
    let gained = json!([
        row("group/ops", json!(["get", "list"]), ""),
        row("group/ops", json!(["get", "list"]), "<other>"),
        row("user/jane", json!(["list"]), ""),
        row("user/jane", json!(["list"]), "<other>"),
    ]);
    assert_eq!(answer["gained"], gained);
    let lost = json!([{
        "subject": "group/watchers", "verbs": ["get"], "nonResourceURL": "/healthz", "was": true, "now": false,
        "through": [{
            "by": "RBAC",
            "binding": {"kind": "ClusterRoleBinding", "name": "watchers"},
            "role": {"kind": "ClusterRole", "name": "health"},
            "ruleIndex": 0,
            "rule": "{NonResourceURLs:[\"/healthz\"], Verbs:[\"get\"]}",
        }],
    }]);
    assert_eq!(answer["lost"], lost, "and group system:masters gains nothing, because it has everything");
    assert_eq!(answer["reach"], json!({"nodes": []}));
    let yaml = diff(OLD, &new(), "--authorization-mode RBAC -o yaml");
    let yaml: Value = serde_saphyr::from_str(&yaml.stdout).unwrap();
    assert_eq!(yaml, answer);
}

#[test]
fn tables_say_the_same_in_short() {
    let run = diff(OLD, &new(), "");
    let expected = "\
gained:
SUBJECT     VERBS      GROUPS   RESOURCES   NAMES   NAMESPACES
group/ops   get,list   \"\"       pods        *       shop
user/jane   list       \"\"       pods        *       shop

lost:
SUBJECT          VERBS   URLS
group/watchers   get     /healthz
";
    assert_eq!((run.code, run.stdout.as_str()), (1, expected), "{run:#?}");
    let wide = diff(OLD, &new(), "-o wide").stdout;
    assert!(
        wide.contains("RBAC: RoleBinding shop/readers -> ClusterRole reader rules[0] {APIGroups"),
        "{wide}"
    );
    assert_eq!(diff(OLD, &new(), "-o name").stdout, "group/ops\ngroup/watchers\nuser/jane\n");
}

#[test]
fn the_exit_code_says_whether_something_differs_au_112() {
    assert_eq!(diff(OLD, OLD, "").code, 0);
    assert_eq!(diff(OLD, OLD, "").stdout, "no difference\n");
    let grown = OLD.replace("verbs: [get]}\n---", "verbs: [get, list]}\n---");
    for (old, new, fail_on, code) in [
        (OLD, grown.as_str(), "any", 1),
        (OLD, grown.as_str(), "gained", 1),
        (OLD, grown.as_str(), "lost", 0),
        (OLD, grown.as_str(), "none", 0),
        (grown.as_str(), OLD, "lost", 1),
        (grown.as_str(), OLD, "gained", 0),
    ] {
        let run = diff(old, new, &format!("--fail-on {fail_on}"));
        assert_eq!(run.code, code, "{fail_on}: {run:#?}");
    }
}

#[test]
fn modes_are_compared_over_one_state() {
    let scratch = Scratch::new();
    let state = scratch.write("state.yaml", OLD);
    let run = |flags: &str| portcullis([vec!["diff", "--state", text(&state)], words(flags)].concat());
    let strict = run("--authorization-mode AlwaysAllow --to-authorization-mode RBAC");
    let cells: Vec<Vec<&str>> = strict.stdout.lines().map(words).collect();
    assert_eq!((strict.code, cells[0].as_slice()), (1, ["lost:"].as_slice()), "{strict:#?}");
    for group in ["group/system:authenticated", "group/system:unauthenticated"] {
        let [of_resources, of_urls] = [vec![group, "*", "*", "*", "*", "*", "*"], vec![group, "*", "*"]];
        assert!(cells.contains(&of_resources) && cells.contains(&of_urls), "{group}: {}", strict.stdout);
    }
    // Jane keeps what she is granted.
    assert!(cells.iter().any(|row| row.first() == Some(&"user/jane")) && !strict.stdout.contains("gained"));
    let line = |user: &str| {
        format!(
            r#"{{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec":
                {{"user": "{user}", "namespace": "shop", "resource": "pods", "apiGroup": "", "readonly": true}}}}"#
        )
        .replace('\n', " ")
    };
    let (old, new) = (scratch.write("old.jsonl", line("jane")), scratch.write("new.jsonl", line("dora")));
    let flags = format!(
        "--authorization-mode ABAC --authorization-policy-file {} --to-authorization-policy-file {} -o name",
        text(&old),
        text(&new)
    );
    assert_eq!(run(&flags).stdout, "user/dora\nuser/jane\n");
    // A side without the mode has no use for its file.
    let flags = format!(
        "--authorization-mode ABAC --authorization-policy-file {} --to-authorization-mode RBAC",
        text(&old)
    );
    assert_eq!(run(&flags).code, 1);
}

#[test]
fn what_is_not_in_a_state_and_what_is_cut_is_told_au_22() {
    let run = diff(OLD, &new(), "-o json --rows 1");
    let answer = document(&run);
    assert_eq!(
        (answer["gained"].as_array().unwrap().len(), answer["lost"].as_array().unwrap().len()),
        (1, 1)
    );
    let details = |input: &str| -> Vec<&str> {
        let incomplete = answer["incomplete"].as_array().unwrap().iter();
        incomplete.filter(|one| one["input"] == input).map(|one| one["detail"].as_str().unwrap()).collect()
    };
    assert!(
        details("comparison")[0].contains("more requests of different classes are gained and 0 more lost")
    );
    assert!(details("roles")[0].starts_with("both states: no Role: "), "{answer:#}");
    assert!(details("pods")[0].starts_with("both states: what nodes reach"), "{answer:#}");
    assert!(run.stderr.contains("note: roles is not in the state: both states: no Role"), "{}", run.stderr);
    let without = OLD.split("---").next().unwrap();
    let run = diff(OLD, without, "-o json");
    assert!(run.stdout.contains("the new state: no RoleBinding"), "{}", run.stdout);
}

#[test]
fn bad_input_is_exit_code_2_and_says_which_side_au_132() {
    let scratch = Scratch::new();
    let state = scratch.write("state.yaml", OLD);
    let run = |flags: &str| portcullis([vec!["diff"], words(flags)].concat());
    for (flags, said) in [
        ("--to x".to_owned(), "--state is missing"),
        (format!("--state {}", text(&state)), "there is nothing to compare with"),
        (format!("--state {} --to /nowhere", text(&state)), "the new side: "),
        (
            format!("--state {} --to-authorization-mode rbac", text(&state)),
            "the new side: --authorization-mode",
        ),
        (format!("--state {} --to-authorization-mode Webhook", text(&state)), "Webhook is not available"),
        (format!("--state {} --to-authorization-policy-file x", text(&state)), "the new side: "),
        (format!("--state {} --to x --fail-on never", text(&state)), "--fail-on"),
    ] {
        let run = run(&flags);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{flags}: {run:?}");
        assert!(run.stderr.contains(said), "{flags}: {}", run.stderr);
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let arguments = ["diff", "--state", text(&state), "--to-authorization-mode", "AlwaysAllow"];
    let status = program!().command(arguments).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(3), "the output cannot be written");
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let hostile = OLD.replace("name: jane}]", "name: \"jane\\e[31m\\nroot\"}]");
    for form in ["table", "wide", "name"] {
        let run = diff(OLD, &hostile, &format!("-o {form}"));
        assert_eq!(run.code, 1);
        assert!(!run.stdout.contains('\u{1b}') && !run.stdout.contains("\nroot"), "{form}: {}", run.stdout);
    }
}
