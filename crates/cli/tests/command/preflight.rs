//! `preflight`: logs in every state, the report, and exit codes.

use std::io::Write as _;
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool;
use serde_json::{Value, json};

use crate::command::support::{Finished, portcullis, text, with_input, words};

/// An event of Jane, who may get pods in the shop.
fn event(id: usize, verb: &str, decision: &str) -> String {
    let uri = "/api/v1/namespaces/shop/pods/web";
    let event = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": id.to_string(),
        "stage": "ResponseComplete", "requestURI": uri, "verb": verb,
        "user": {"username": "jane", "groups": ["system:authenticated"]},
        "objectRef": {"resource": "pods", "namespace": "shop", "name": "web", "apiVersion": "v1"},
        "requestReceivedTimestamp": format!("2026-11-01T10:00:{id:02}.000000Z"),
        "annotations": {"authorization.k8s.io/decision": decision},
    });
    format!("{event}\n")
}

const STATE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop}
rules:
- {apiGroups: [''], resources: [pods], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}
";

fn preflight(scratch: &Scratch, log: &[u8], flags: &[&str]) -> Finished {
    let (log, state) = (scratch.write("audit.log", log), scratch.write("state.yaml", STATE));
    portcullis([&["preflight", "--state", text(&state), "--audit-log", text(&log)], flags].concat())
}

fn gzip(log: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(log.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn the_exit_code_says_whether_nothing_differs_bc_51() {
    let scratch = Scratch::new();
    let same = event(1, "get", "allow") + "\n" + &event(2, "delete", "forbid");
    for (log, code, last) in [
        (same.clone(), 0, "Nothing differs."),
        (same.clone() + &event(3, "delete", "allow"), 1, "1 request would be decided differently."),
        (same.clone() + &event(3, "get", "forbid"), 1, "1 request would be decided differently."),
        (
            same.clone() + &event(3, "get", ""),
            1,
            "Nothing is known to differ, but not everything could be judged.",
        ),
        (same + "{\n", 1, "Nothing is known to differ, but not everything could be judged."),
        (String::new(), 1, "Nothing was judged: no event told of a decision."),
    ] {
        let run = preflight(&scratch, log.as_bytes(), &[]);
        assert_eq!((run.code, run.last_line()), (code, last), "{run:#?}");
    }
}

#[test]
fn logs_are_read_plain_compressed_and_from_standard_input() {
    let scratch = Scratch::new();
    let logs = [event(1, "get", "allow"), event(2, "get", "allow")];
    let state = scratch.write("state.yaml", STATE);
    // A file of two members, as `cat a.gz b.gz` makes it.
    let compressed = scratch.write("audit.log.gz", [gzip(&logs[0]), gzip(&logs[1])].concat());
    let plain = scratch.write("audit.log", logs[0].trim_end());
    let flags = ["preflight", "--state", text(&state), "-o", "json", "--audit-log"];
    let count = |run: Finished| -> (i32, Value) {
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        (run.code, report["unchanged"].clone())
    };
    assert_eq!(count(portcullis([&flags[..], &[text(&compressed)]].concat())), (0, json!(2)));
    assert_eq!(count(portcullis([&flags[..], &[text(&plain)]].concat())), (0, json!(1)));
    // A request that is in two files counts once.
    assert_eq!(count(portcullis([&flags[..], &[text(&compressed), text(&plain)]].concat())), (0, json!(2)));
    assert_eq!(count(with_input([&flags[..], &["-"]].concat(), &gzip(&logs[0]))), (0, json!(1)));
    let list = json!({
        "kind": "EventList", "apiVersion": "audit.k8s.io/v1",
        "items": logs.map(|log| serde_json::from_str::<Value>(&log).unwrap()),
    });
    assert_eq!(count(with_input([&flags[..], &["-"]].concat(), list.to_string().as_bytes())), (0, json!(2)));
}

#[test]
fn damaged_lines_are_named_counted_and_stop_nothing() {
    let scratch = Scratch::new();
    let good = event(1, "get", "allow");
    let long = format!("{{\"kind\":\"{}\"}}\n", "a".repeat(9 << 20));
    let log = [
        good.as_bytes(),
        b"{\n",
        b"\xff\n",
        long.as_bytes(),
        b"{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}\n",
        b"\n",
        event(2, "get", "allow").replace("\"verb\":\"get\"", "\"verb\":1").as_bytes(),
        event(3, "get", "allow").as_bytes(),
    ]
    .concat();
    let run = preflight(&scratch, &log, &["-o", "json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &report["unchanged"], &report["lost"]["unreadable"]), (1, &json!(2), &json!(4)));
    assert_eq!(report["unknown"][0]["reason"], "undecodable");
    for line in ["audit.log:2: ", "audit.log:3: ", "audit.log:4: ", "audit.log:5: ", "audit.log:7: "] {
        assert!(run.stderr.contains(line), "{line}: {}", run.stderr);
    }
    assert!(!run.stderr.contains("audit.log:1:") && !run.stderr.contains("audit.log:8:"), "{}", run.stderr);
    // Not every line of a file of something else.
    let run = preflight(&scratch, &b"x\n".repeat(1000), &["-o", "json"]);
    assert!(run.stderr.contains("980 more lines cannot be read"), "{}", run.stderr);
    // A file that is cut within its compression.
    let whole = gzip(&(1..60).map(|i| event(i, "get", "allow")).collect::<String>());
    let run = preflight(&scratch, &whole[..whole.len() - 10], &["-o", "json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &report["summary"]), (1, &json!("unknown")), "{report:#}");
    assert!(run.stderr.contains("damaged or cut"), "{}", run.stderr);
}

#[test]
fn a_wide_table_has_the_first_request_whole_and_no_token() {
    let scratch = Scratch::new();
    let log = event(1, "delete", "allow").replace("pods/web\",", "pods/web?token=sesame\",");
    let run = preflight(&scratch, log.as_bytes(), &["-o", "wide"]);
    assert_eq!(run.code, 1);
    let line = run.stdout.lines().find(|line| line.trim_start().starts_with('{')).unwrap();
    let example: Value = serde_json::from_str(line.trim()).unwrap();
    assert_eq!(example["review"]["spec"]["user"], "jane");
    assert_eq!(example["review"]["spec"]["resourceAttributes"]["name"], "web");
    assert!(!run.stdout.contains("sesame"), "{}", run.stdout);
    // It can be asked again.
    let review = format!("{}\n", example["review"]);
    let state = scratch.write("state.yaml", STATE);
    let run = with_input(["review", "--state", text(&state)], review.as_bytes());
    assert_eq!((run.code, &run.json_lines()[0]["status"]["allowed"]), (0, &json!(false)), "{run:#?}");
}

#[test]
fn what_cannot_be_read_at_all_is_an_error() {
    let scratch = Scratch::new();
    let state = scratch.write("state.yaml", STATE);
    let run = portcullis(["preflight", "--state", text(&state), "--audit-log", "missing.log"]);
    assert_eq!((run.code, &*run.stdout), (2, ""), "{run:#?}");
    assert!(run.stderr.contains("--audit-log missing.log"), "{}", run.stderr);
    let run = portcullis(["preflight", "--state", text(&state), "--audit-log", text(scratch.path())]);
    assert_eq!((run.code, &*run.stdout), (2, ""), "{run:#?}");
    let run = portcullis(["preflight", "--state", text(&state)]);
    assert_eq!(run.code, 2, "{run:#?}");
    let run = preflight(&scratch, b"", &["--authorization-mode", "Webhook"]);
    assert_eq!(run.code, 2, "{run:#?}");
}

/// Compresses by the program `zstd`.
fn zstd(log: &str) -> Vec<u8> {
    let mut zstd = tool::command("zstd");
    let mut zstd = zstd.arg("--check").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    zstd.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    zstd.wait_with_output().unwrap().stdout
}

#[test]
fn logs_compressed_by_zstd_are_read_au_16() {
    let scratch = Scratch::new();
    let log: String = (1..60).map(|id| event(id, "get", "allow")).collect();
    let more = event(0, "get", "allow");
    // Two frames, and one between them that a reader must skip.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0], &b"abc"[..]].concat();
    let whole = [zstd(&log), skipped, zstd(&more)].concat();
    let run = preflight(&scratch, &whole, &["-o", "json"]);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &report["unchanged"]), (0, &json!(60)), "{run:#?}");
    // Cut, or changed.
    let mut changed = zstd(&log);
    let last = changed.len() - 1;
    changed[last] ^= 1;
    for damaged in [whole[..whole.len() - 10].to_vec(), changed, whole[..6].to_vec()] {
        let run = preflight(&scratch, &damaged, &["-o", "json"]);
        let report: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!((run.code, &report["lost"]["unreadable"]), (1, &json!(1)), "{run:#?}");
        assert!(run.stderr.contains("damaged or cut"), "{}", run.stderr);
    }
}

/// An allowed request: who, the verb, its path, and `objectRef` for a resource.
fn allowed(id: usize, user: &str, verb: &str, uri: &str, object: &Value) -> String {
    let mut event: Value = serde_json::from_str(event(0, verb, "allow").trim()).unwrap();
    event["auditID"] = json!(id.to_string());
    event["requestURI"] = json!(uri);
    event["user"]["username"] = json!(user);
    match object {
        Value::Null => drop(event.as_object_mut().unwrap().remove("objectRef")),
        object => event["objectRef"] = object.clone(),
    }
    format!("{event}\n")
}

/// The printed roles allow the requests of the log, and no others.
#[test]
fn roles_keep_working_what_would_be_refused_and_no_more_au_125() {
    let scratch = Scratch::new();
    let pod = |name: &str| json!({"resource": "pods", "namespace": "shop", "name": name, "apiVersion": "v1"});
    let deploy = "system:serviceaccount:ci:deploy";
    let mut log = vec![
        allowed(1, "jane", "get", "/api/v1/namespaces/shop/pods/web", &pod("web")),
        allowed(2, "jane", "delete", "/api/v1/namespaces/shop/pods/web", &pod("web")),
        allowed(3, "jane", "list", "/api/v1/pods", &json!({"resource": "pods", "apiVersion": "v1"})),
        allowed(4, "jane", "get", "/metrics", &Value::Null),
        allowed(5, "system:anonymous", "get", "/debug", &Value::Null),
    ];
    // More names than are kept, and more namespaces.
    for number in 0..20 {
        let (uri, name) = (format!("/api/v1/namespaces/shop/pods/p{number}"), format!("p{number}"));
        log.push(allowed(100 + number, deploy, "patch", &uri, &pod(&name)));
        let uri = format!("/apis/apps/v1/namespaces/n{number}/deployments");
        let object = json!({
            "resource": "deployments", "namespace": format!("n{number}"), "apiGroup": "apps", "apiVersion": "v1",
        });
        log.push(allowed(200 + number, deploy, "create", &uri, &object));
    }
    let run = preflight(&scratch, log.concat().as_bytes(), &["--authorization-mode", "RBAC", "-o", "yaml"]);
    assert_eq!(run.code, 1, "{run:#?}");
    let roles = scratch.write("roles.yaml", &run.stdout);
    assert!(
        run.stdout.contains("# user/system:anonymous\n# no role: everybody without credentials"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("# create deployments.apps: used in so many namespaces"), "{}", run.stdout);
    let log = log.into_iter().filter(|line| !line.contains("system:anonymous")).collect::<String>();
    let (log, state) = (scratch.write("known.log", log), scratch.write("state.yaml", STATE));
    let flags = ["--authorization-mode", "RBAC", "--state", text(&state), "--state", text(&roles)];
    let again = portcullis([&["preflight", "--audit-log", text(&log)], &flags[..]].concat());
    assert_eq!((again.code, again.last_line()), (0, "Nothing differs."), "{again:#?}");
    for (question, user, code) in [
        ("get pods/web -n shop", "jane", 0),
        ("delete pods/web -n shop", "jane", 0),
        ("delete pods/other -n shop", "jane", 1),
        ("delete pods/web -n default", "jane", 1),
        ("watch pods -A", "jane", 1),
        ("list pods -A", "jane", 0),
        ("get /metrics", "jane", 0),
        ("get /metrics/cadvisor", "jane", 1),
        ("list pods -A", deploy, 1),
        ("patch pods/p21 -n shop", deploy, 0),
        ("patch pods/p1 -n default", deploy, 1),
        ("create deployments.apps -n n21", deploy, 0),
        ("get /debug", "system:anonymous", 1),
    ] {
        let asked = [&["can-i"], &words(question)[..], &flags[..], &["--as", user]].concat();
        let answer = portcullis(asked);
        assert_eq!(answer.code, code, "{user} {question}: {answer:#?}");
    }
}

/// Whoever may do everything can ask for a resource, a verb or a path with a `*`. In a rule it would be a wildcard.
#[test]
fn no_rule_has_a_wildcard_that_somebody_asked_for_au_125() {
    let scratch = Scratch::new();
    let star = json!({"resource": "*", "apiVersion": "v1"});
    let group = json!({"resource": "things", "apiGroup": "*", "apiVersion": "v1"});
    let scale = json!({"resource": "*", "subresource": "scale", "namespace": "shop", "name": "x", "apiVersion": "v1"});
    let named = json!({"resource": "pods", "namespace": "shop", "name": "*", "apiVersion": "v1"});
    let log = [
        allowed(1, "jane", "list", "/api/v1/*", &star),
        allowed(2, "jane", "list", "/apis/*/v1/things", &group),
        allowed(3, "jane", "get", "/api/v1/namespaces/shop/*/x/scale", &scale),
        allowed(4, "jane", "get", "/*", &Value::Null),
        allowed(5, "jane", "*", "/metrics", &Value::Null),
        allowed(6, "jane", "delete", "/api/v1/namespaces/shop/pods/*", &named),
    ];
    let run = preflight(&scratch, log.concat().as_bytes(), &["--authorization-mode", "RBAC", "-o", "yaml"]);
    assert_eq!(run.code, 1, "{run:#?}");
    assert!(run.stdout.contains("no rule can name it"), "{}", run.stdout);
    let rules: Vec<&str> =
        run.stdout.lines().filter(|line| line.contains('*') && !line.starts_with('#')).collect();
    // The name of an object is only a name.
    assert_eq!(rules, ["  resourceNames: [\"*\"]"], "{}", run.stdout);
}

#[test]
fn no_role_is_printed_where_none_helps_au_125() {
    let scratch = Scratch::new();
    let log = event(1, "get", "allow");
    let deny = scratch.write(
        "deny.yaml",
        "{apiVersion: portcullis.dev/v1, kind: DenyRules, rules: [{name: quiet, message: not now, \
         subjects: [{kind: Group, name: '*'}], verbs: [get], apiGroups: [''], resources: [pods]}]}",
    );
    let flags = ["--authorization-mode", "Deny,RBAC", "--deny-file", text(&deny), "-o", "yaml"];
    let run = preflight(&scratch, log.as_bytes(), &flags);
    assert_eq!(run.code, 1, "{run:#?}");
    assert!(
        run.stdout.contains("# get pods: refused by a rule that denies; no role helps"),
        "{}",
        run.stdout
    );
    assert!(!run.stdout.contains("kind: Role"), "{}", run.stdout);
    let run = preflight(&scratch, log.as_bytes(), &["-o", "yaml"]);
    assert_eq!(
        (run.code, &*run.stdout),
        (0, "# nothing that was allowed would be refused: no role is needed\n")
    );
    let run = preflight(&scratch, log.as_bytes(), &["--authorization-mode", "Node", "-o", "yaml"]);
    assert_eq!((run.code, &*run.stdout), (2, ""), "{run:#?}");
}
