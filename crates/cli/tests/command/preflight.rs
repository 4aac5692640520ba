//! `preflight`: logs in every state, the report, and exit codes.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

use crate::support::{Finished, portcullis, text, with_input};

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
