//! The audit events of a server, judged again by `portcullis preflight` and by the webhook (BC-50, BC-51).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::until_some;
use portcullis_testkit::{program, recorded};
use serde_json::{Value, json};

use crate::webhook::support::Webhook;

const FOLDER: &str = "webhook-authorization";
const DENY: &str = "
apiVersion: portcullis.dev/v1
kind: DenyRules
rules:
- name: no-secrets
  subjects: [{kind: Group, name: '*'}]
  verbs: ['*']
  apiGroups: ['']
  resources: [secrets, configmaps]
- name: no-roles
  subjects: [{kind: User, name: 'frank'}]
  verbs: [update]
  apiGroups: [rbac.authorization.k8s.io]
  resources: ['*']
";

/// What was asked of the server.
struct Asked {
    /// The line of the recording.
    line: Value,
    audit_id: String,
}

impl Asked {
    /// Whether the server allowed it.
    fn was_allowed(&self, events: &[Value]) -> bool {
        let of_request =
            |event: &&Value| event["auditID"] == self.audit_id && event["stage"] == "ResponseComplete";
        let complete = events.iter().find(of_request).unwrap();
        complete["annotations"]["authorization.k8s.io/decision"] == "allow"
    }
}

/// A server over the objects of a recording, whose recorded requests were sent again.
struct Served {
    running: Running,
    data: PathBuf,
    log: PathBuf,
    state: PathBuf,
    asked: Vec<Asked>,
}

impl Served {
    fn start(scratch: &Scratch) -> Self {
        let state = recorded::unpacked(scratch, &format!("{FOLDER}/state.json"));
        let (data, log) = (scratch.path().join("data"), scratch.path().join("audit.log"));
        let lines: Vec<Value> =
            recorded::lines(&format!("{FOLDER}/reviews.jsonl")).into_iter().filter(is_sent).collect();
        let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: RequestResponse}]}";
        let mut command = program!().serve_command(&data);
        command.arg("--state").arg(&state).arg("--token-auth-file").arg(tokens(scratch, &lines));
        command.arg("--audit-policy-file").arg(scratch.write("audit-policy.yaml", policy));
        // No controller deletes what requests are about.
        command.args(["--controllers", "root-ca-certificate-publisher-controller"]);
        command.arg("--audit-log-path").arg(&log);
        let running = Running::start(command);
        let mut served = Self { running, data, log, state, asked: Vec::new() };
        for line in lines {
            let audit_id = served.send(&line);
            served.asked.push(Asked { line, audit_id });
        }
        served
    }

    /// Sends the request of a line, and returns its audit ID.
    fn send(&self, line: &Value) -> String {
        let token = token(&line["request"]["spec"]);
        let identity = Identity::with_token(&self.data.join("ca.crt"), &token);
        let (method, path) =
            (line["cause"]["method"].as_str().unwrap(), line["cause"]["path"].as_str().unwrap());
        // Bodies are read after the decision.
        let answer = Client::new(self.running.address(), &identity).send(method, path, b"").unwrap();
        // The node of a pod whose log is read has no address.
        let is_unreachable = answer.text().contains("no preferred addresses found");
        assert!(is_unreachable || !matches!(answer.code, 401 | 500 | 503), "{line}: {}", answer.text());
        answer.audit_id
    }

    /// The events of the requests that were sent, when all are complete.
    fn events(&self) -> Vec<Value> {
        until_some("all events are in the log", || {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            let events: Vec<Value> = text.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
            let complete = events.iter().filter(|event| event["stage"] == "ResponseComplete");
            let complete: BTreeSet<&str> = complete.map(|event| event["auditID"].as_str().unwrap()).collect();
            let sent: BTreeSet<&str> = self.asked.iter().map(|asked| &*asked.audit_id).collect();
            let is_sent = |event: &&Value| sent.contains(event["auditID"].as_str().unwrap());
            sent.is_subset(&complete).then(|| events.iter().filter(is_sent).cloned().collect())
        })
    }

    /// The log of those requests alone.
    fn log_of(&self, scratch: &Scratch, events: &[Value]) -> PathBuf {
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        scratch.write("sent.log", lines)
    }
}

/// Whether a recorded request can be sent again: without waiting for the end of a watch, and without deleting anything that
/// other requests are about.
fn is_sent(line: &Value) -> bool {
    let (spec, cause) = (&line["request"]["spec"], &line["cause"]);
    let verb = spec["resourceAttributes"]["verb"].as_str().unwrap_or_default();
    let takes_long = matches!(verb, "watch" | "delete" | "deletecollection");
    let group = &spec["resourceAttributes"]["group"];
    let is_review = cause["path"].as_str().is_some_and(|path| path.contains("/authorization.k8s.io/"));
    line["audited"] == true
        && cause["path"].is_string()
        && cause["impersonating"].is_null()
        && is_review == (group == "authorization.k8s.io")
        && spec["user"] != "system:anonymous"
        && !takes_long
}

/// A token for each user with these groups.
fn token(spec: &Value) -> String {
    let groups: Vec<&str> = spec["groups"].as_array().unwrap().iter().map(|g| g.as_str().unwrap()).collect();
    format!("{}-{}", spec["user"].as_str().unwrap(), groups.join("-")).replace([',', '"', ' '], "_")
}

fn tokens(scratch: &Scratch, lines: &[Value]) -> PathBuf {
    let mut users = BTreeMap::new();
    for line in lines {
        let spec = &line["request"]["spec"];
        let groups = spec["groups"].as_array().unwrap().iter().map(|group| group.as_str().unwrap());
        let groups: Vec<&str> = groups.filter(|group| *group != "system:authenticated").collect();
        let user = spec["user"].as_str().unwrap();
        users.insert(token(spec), format!("{},{user},1,\"{}\"\n", token(spec), groups.join(",")));
    }
    scratch.write("tokens.csv", users.into_values().collect::<String>())
}

/// Runs preflight over a log, and returns its exit code and its report.
fn preflight(log: &Path, flags: &[&str]) -> (i32, Value) {
    let run =
        program!().run([&["preflight", "-o", "json", "--audit-log", log.to_str().unwrap()], flags].concat());
    (run.code, serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:#?}")))
}

/// The rows that differ: who, verb and resource, and how often.
fn rows(report: &Value) -> BTreeMap<(String, String, String), u64> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = report["changed"].as_array().unwrap().iter();
    rows.map(|row| {
        assert_eq!(row["change"], "newly-refused");
        (
            (row["subject"]["name"].to_string(), text(&row["verb"]), text(&row["resource"])),
            row["count"].as_u64().unwrap(),
        )
    })
    .collect()
}

/// The rows that reviews lead to: each request is asked as the SubjectAccessReview that Kubernetes sent.
fn rows_of_reviews(
    scratch: &Scratch,
    asked: &[Asked],
    events: &[Value],
    flags: &[&str],
) -> BTreeMap<(String, String, String), u64> {
    let reviews: String = asked.iter().map(|asked| format!("{}\n", asked.line["request"])).collect();
    let reviews = scratch.write("reviews.jsonl", reviews);
    let run = program!().run([&["review", "--reviews", reviews.to_str().unwrap()], flags].concat());
    assert_eq!(run.code, 0, "{run:#?}");
    let mut rows = BTreeMap::new();
    for (asked, answer) in asked.iter().zip(run.json_lines()) {
        let is_allowed = answer["status"]["allowed"] == true;
        assert!(!is_allowed || asked.was_allowed(events), "nothing is newly allowed: {answer}");
        if is_allowed || !asked.was_allowed(events) {
            continue;
        }
        *rows.entry(row(&asked.line["request"]["spec"])).or_default() += 1;
    }
    rows
}

fn row(spec: &Value) -> (String, String, String) {
    let asked = &spec["resourceAttributes"];
    let text = |field: &str| asked[field].as_str().unwrap_or_default();
    let user = spec["user"].as_str().unwrap();
    let name = match user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':')) {
        Some((_, name)) => name,
        None if user.starts_with("system:node:") => "system:nodes",
        None if user.starts_with("system:bootstrap:") => "system:bootstrappers",
        None => user,
    };
    let mut resource = text("resource").to_owned();
    for (separator, part) in [('.', text("group")), ('/', text("subresource"))] {
        if !part.is_empty() {
            resource = format!("{resource}{separator}{part}");
        }
    }
    (json!(name).to_string(), text("verb").to_owned(), resource)
}

/// Posts events as an API server does, in batches, and returns the report when all are judged.
fn shadow(webhook: &Webhook, events: &[Value]) -> Value {
    let mut client = webhook.client();
    for items in events.chunks(50) {
        let list =
            json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items});
        let answer = client.ask("POST", "/audit?timeout=30s", Some(&list)).unwrap();
        assert_eq!((answer.code, &*answer.text()), (200, ""));
    }
    let number = |value: &Value| value.as_u64().unwrap() as usize;
    until_some("all events are judged", || {
        let report = client.must(200, "GET", "/shadow?output=json", None);
        let none = report["noDecisions"].as_object().unwrap().values().map(number).sum::<usize>();
        (number(&report["requests"]["count"]) + none == events.len()).then_some(report)
    })
}

#[test]
fn a_server_and_its_rehearsal_decide_alike_but_for_what_the_candidate_changes_bc_50() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let events = served.events();
    assert!(served.asked.len() > 150, "{}", served.asked.len());
    let log = served.log_of(&scratch, &events);
    let state = ["--default-policy", "--state", served.state.to_str().unwrap()];
    let allowed = served.asked.iter().filter(|asked| asked.was_allowed(&events)).count();
    assert!(allowed > 30 && allowed + 30 < served.asked.len(), "{allowed}");

    // The same modes and objects.
    let (code, same) = preflight(&log, &state);
    assert_eq!((code, &same["summary"]), (0, &json!("nothing-differs")), "{same:#}");
    assert_eq!(same["unchanged"], served.asked.len(), "{same:#}");

    // With deny rules.
    let deny = scratch.write("deny.yaml", DENY);
    let rules = ["--authorization-mode", "Deny,Node,RBAC", "--deny-file", deny.to_str().unwrap()];
    let flags = [&rules[..], &state].concat();
    let (code, denied) = preflight(&log, &flags);
    let expected = rows_of_reviews(&scratch, &served.asked, &events, &flags);
    assert!(expected.len() > 2, "{expected:?}");
    assert_eq!((code, rows(&denied)), (1, expected), "{denied:#}");
    assert_eq!(denied["unknown"], json!([]));
    let webhook = Webhook::following(&scratch, &served.data.join("admin.kubeconfig"), &rules);
    assert_eq!(shadow(&webhook, &events), denied);
    let line = webhook.metric("portcullis_webhook_shadow_requests_total{result=\"newly-refused\"}");
    let refused: u64 = rows(&denied).values().sum();
    assert!(line.ends_with(&format!(" {refused}")), "{line}");
    let table = webhook.client().ask("GET", "/shadow?width=80", None).unwrap().text();
    assert!(table.contains(&format!("{refused} requests would be decided differently.")), "{table}");
    let log_of_webhook = webhook.running.stop().stderr;
    let firsts = log_of_webhook.lines().filter(|line| line.contains("the first event of its kind")).count();
    assert_eq!(firsts, rows(&denied).len(), "{log_of_webhook}");

    // Without a binding.
    let list: Value = serde_json::from_str(&fs::read_to_string(&served.state).unwrap()).unwrap();
    let mut affected = 0;
    for (at, object) in list["items"].as_array().unwrap().iter().enumerate() {
        if object["kind"] != "RoleBinding" {
            continue;
        }
        let mut left = list.clone();
        left["items"].as_array_mut().unwrap().remove(at);
        let left = scratch.write("left.json", left.to_string());
        let flags = ["--default-policy", "--state", left.to_str().unwrap()];
        let (code, report) = preflight(&log, &flags);
        let expected = rows_of_reviews(&scratch, &served.asked, &events, &flags);
        affected += expected.len();
        assert_eq!(
            (code, rows(&report)),
            (i32::from(!expected.is_empty()), expected),
            "{object}: {report:#}"
        );
    }
    assert!(affected > 0, "{affected}");
}

#[test]
fn a_cluster_that_is_followed_is_rehearsed_as_it_is_and_unknown_until_it_is_known_bc_50() {
    let scratch = Scratch::new();
    let served = Served::start(&scratch);
    let events = served.events();
    let kubeconfig = served.data.join("admin.kubeconfig");
    let webhook = Webhook::following(&scratch, &kubeconfig, &[]);
    let report = shadow(&webhook, &events);
    assert_eq!(report["summary"], "nothing-differs", "{report:#}");
    assert_eq!(report["unchanged"], served.asked.len());
    // Delivered again.
    let mut client = webhook.client();
    let list = json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": events});
    assert_eq!(client.ask("POST", "/audit", Some(&list)).unwrap().code, 200);
    let report = until_some("the events are judged again", || {
        let report = client.must(200, "GET", "/shadow?output=json", None);
        (report["noDecisions"]["repeated"] == served.asked.len()).then_some(report)
    });
    assert_eq!((&report["unchanged"], &report["unknown"]), (&json!(served.asked.len()), &json!([])));

    // Nobody answers there any more.
    let other = Scratch::new();
    let log = served.running.stop();
    assert_eq!(log.code, 0);
    let webhook = Webhook::start(&other, &["--kubeconfig", kubeconfig.to_str().unwrap()]);
    let report = shadow(&webhook, &events);
    assert_eq!(report["summary"], "unknown", "{report:#}");
    let reasons: Vec<&Value> =
        report["unknown"].as_array().unwrap().iter().map(|unknown| &unknown["reason"]).collect();
    assert_eq!(reasons, ["cluster-not-known"]);
}

#[test]
fn events_are_taken_from_callers_alone_and_what_is_lost_is_counted_bc_50() {
    let scratch = Scratch::new();
    let tokens = scratch.write("caller-tokens", "first\n");
    let state = format!("{FOLDER}/state.json");
    let webhook = Webhook::over(&scratch, &state, &["--caller-token-file", tokens.to_str().unwrap()]);
    let mut stranger = webhook.client();
    let list = json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [{}]});
    assert_eq!(stranger.ask("POST", "/audit", Some(&list)).unwrap().code, 401);
    assert_eq!(stranger.ask("GET", "/shadow", None).unwrap().code, 401);
    let mut caller = webhook.with_token("first");
    assert_eq!(caller.ask("GET", "/audit", None).unwrap().code, 405);
    assert_eq!(caller.ask("POST", "/shadow", Some(&json!({}))).unwrap().code, 405);
    for target in ["/shadow?output=yaml", "/shadow?width=wide", "/shadow?output="] {
        caller.ask("GET", target, None).unwrap().assert_status(400, "BadRequest");
    }
    let empty = caller.ask("GET", "/shadow", None).unwrap().text();
    assert!(empty.ends_with("Nothing was judged: no event told of a decision.\n"), "{empty}");
    // The answer never depends on the body.
    for body in ["", "null", "{", r#"{"kind":"Pod","apiVersion":"v1"}"#] {
        assert_eq!(caller.send("POST", "/audit", body.as_bytes()).unwrap().code, 200, "{body}");
    }
    let large = vec![b' '; (10 << 20) + (64 << 10) + 1];
    let refused = caller.send("POST", "/audit", &large);
    // The connection may end before all of it is sent.
    assert!(refused.is_err() || refused.unwrap().code == 413);
    let report = until_some("all bodies are judged", || {
        let report = caller.must(200, "GET", "/shadow?output=json", None);
        (report["lost"]["unreadable"] == 4).then_some(report)
    });
    assert_eq!(report["lost"]["overflowed"], 1, "{report:#}");
    assert_eq!(report["summary"], "unknown", "nothing is not the same as nothing lost");
}
