//! Recorded exchanges of Kubernetes 1.36, replayed one after the other against a fresh server each.
//!

//! What differs from run to run is dropped before answers are compared: unique ids, revisions, times, texts for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::common::{Answer, Setup, Started, start_with};
use portcullis_server::api_server::EtcdConfig;
use portcullis_server::controller::selection::Selection;
use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::recorded;
use serde_json::{Value, json};

/// An answer, reduced to what is compared.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    code: u64,
    /// The texts of the warnings, where they are compared.
    warnings: Option<Value>,
    body: Option<Value>,
    events: Option<Value>,
    text: Option<String>,
}

/// A value in which administrators are not told apart by name and certificate: each server has its own.
fn of_any_certificate(value: &Value) -> Value {
    const HASH: &str = "X509SHA256=";
    match value {
        Value::Array(items) => items.iter().map(of_any_certificate).collect(),
        Value::Object(members) => {
            let id = value.pointer("/extra/authentication.kubernetes.io~1credential-id/0");
            let is_own = id.and_then(Value::as_str).is_some_and(|id| id.starts_with(HASH));
            let left = members.iter().filter(|(name, _)| !(is_own && name.as_str() == "username"));
            left.map(|(name, value)| (name.clone(), of_any_certificate(value))).collect()
        }
        Value::String(text) if text.starts_with(HASH) => HASH.into(),
        other => other.clone(),
    }
}

/// The columns of tables that tell how long ago something was: it depends on how fast the replay is.
const AGES: &[&str] = &["Age", "First Seen", "Last Seen"];

/// A table without ages; anything else as it is.
fn ageless(mut body: Value) -> Value {
    let columns = body["columnDefinitions"].as_array().into_iter().flatten();
    let of_age: Vec<bool> =
        columns.map(|column| AGES.contains(&column["name"].as_str().unwrap_or_default())).collect();
    for row in body.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten() {
        let cells = row.get_mut("cells").and_then(Value::as_array_mut).into_iter().flatten();
        for (cell, _) in
            cells.zip(&of_age).filter(|(cell, is_age)| **is_age && cell.as_str() != Some("<unknown>"))
        {
            *cell = json!("some time");
        }
    }
    body
}

/// The variables that earlier cases saved, filled in.
fn filled(text: &str, saved: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').unwrap();
        out.push_str(before);
        out.push_str(saved.get(name).map_or("", String::as_str));
        rest = after;
    }
    out + rest
}

fn ask(server: &Started, case: &Value, saved: &BTreeMap<String, String>) -> (Seen, Value) {
    let fill = |value: &Value| filled(value.as_str().unwrap(), saved);
    let mut request = server.request(case["method"].as_str().unwrap(), &fill(&case["path"]));
    let mut headers = BTreeMap::from([("Accept".to_owned(), "application/json".to_owned())]);
    if let Some(given) = case["headers"].as_object() {
        headers.extend(given.iter().map(|(name, value)| (name.clone(), fill(value))));
    }
    let who = case["as"].as_str().map_or_else(|| "admin".to_owned(), |who| filled(who, saved));
    if let Some(token) = who.strip_prefix("token:") {
        headers.insert("Authorization".to_owned(), format!("Bearer {token}"));
    } else if who == "admin" {
        request = request.by(&server.admin());
    }
    if let Some(body) = case.get("body").filter(|body| !body.is_null()) {
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        headers.entry("Content-Type".to_owned()).or_insert_with(|| "application/json".to_owned());
        request = request.header("Expect:").body(filled(&body, saved));
    }
    // The checker names no client, so neither does this one.
    if !headers.keys().any(|name| name.eq_ignore_ascii_case("User-Agent")) {
        request = request.header("User-Agent:");
    }
    for (name, value) in headers {
        // curl takes a header without a value away, unless it ends in a semicolon.
        let header = if value.is_empty() { format!("{name};") } else { format!("{name}: {value}") };
        request = request.header(&header);
    }
    let other = &case["imp"];
    if let Some(user) = other["user"].as_str() {
        request = request.header(&format!("Impersonate-User: {user}"));
        for group in other["groups"].as_array().into_iter().flatten() {
            request = request.header(&format!("Impersonate-Group: {}", group.as_str().unwrap()));
        }
        if let Some(uid) = other["uid"].as_str() {
            request = request.header(&format!("Impersonate-Uid: {uid}"));
        }
        for (key, values) in other["extra"].as_object().into_iter().flatten() {
            for value in values.as_array().unwrap() {
                request = request.header(&format!("Impersonate-Extra-{key}: {}", value.as_str().unwrap()));
            }
        }
    }
    // A busy etcd may answer late. The server says so and does nothing, and clients ask again.
    let is_late =
        |answer: &Answer| answer.code == 503 && answer.text().contains("etcd does not answer in time");
    let mut answers = std::iter::repeat_with(|| request.clone().send()).take(100);
    read(&answers.find(|answer| !is_late(answer)).expect("etcd never answers"), case)
}

/// The members that are compared in this case, and dropped in others.
fn kept(case: &Value) -> Vec<&str> {
    case["keep"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The part of an answer that is compared: see `pick` in the checker.
fn picked(whole: &Value, case: &Value) -> Value {
    let mut at = whole;
    for step in case["pick"].as_array().into_iter().flatten() {
        at = match step {
            Value::String(key) => &at[key.as_str()],
            Value::Number(index) => &at[usize::try_from(index.as_u64().unwrap()).unwrap()],
            Value::Object(such) => {
                let (path, value) = such.iter().next().unwrap();
                let mut items = at.as_array().into_iter().flatten();
                items.find(|item| dig(item, path) == value).unwrap_or(&Value::Null)
            }
            _ => panic!("{step}"),
        };
    }
    at.clone()
}

/// What an answer shows, and the whole of it.
fn read(answer: &Answer, case: &Value) -> (Seen, Value) {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let mut seen = Seen { code: u64::from(answer.code), ..Seen::default() };
    let kept = kept(case);
    if kept.contains(&"warnings") {
        let warnings: Value = answer.warnings.iter().map(String::as_str).collect();
        seen.warnings = Some(recorded::timeless(&warnings));
    }
    let cleaned = |value: &Value| recorded::cleaned_but(value, &kept);
    if answer.media_type() != "application/json" {
        seen.text = Some(text.chars().take(2000).collect());
        return (seen, Value::Null);
    }
    if let Ok(whole) = serde_json::from_str::<Value>(&text) {
        let is_event = whole
            .as_object()
            .is_some_and(|o| o.len() == 2 && o.contains_key("type") && o.contains_key("object"));
        match is_event {
            true => seen.events = Some(json!([cleaned(&whole)])),
            false => seen.body = Some(of_any_certificate(&ageless(cleaned(&picked(&whole, case))))),
        }
        return (seen, whole);
    }
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    seen.events = Some(events.iter().map(cleaned).collect());
    (seen, Value::Array(events))
}

fn expected(case: &Value) -> Seen {
    let expect = &case["expect"];
    Seen {
        code: expect["code"].as_u64().unwrap(),
        warnings: expect.get("warnings").cloned(),
        body: expect.get("body").cloned().map(|body| of_any_certificate(&ageless(body))),
        events: expect.get("events").cloned(),
        text: expect["text"].as_str().map(str::to_owned),
    }
}

/// The part of a Status that is compared: its state, its reason, its code, and all causes by field and reason, of conflicts between field
/// managers with their messages.
fn status(body: &Value, has_causes: bool) -> Value {
    let mut causes: Vec<(String, String, String)> = body["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|_| has_causes)
        .map(|cause| {
            let text = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
            let is_conflict = cause["reason"] == "FieldManagerConflict";
            (text("field"), text("reason"), if is_conflict { text("message") } else { String::new() })
        })
        .collect();
    causes.sort();
    json!([body["status"], body["reason"], body["code"], causes])
}

fn agrees(case: &Value, seen: &Seen) -> bool {
    let wanted = expected(case);
    let how = case["compare"].as_str().unwrap_or("full");
    if wanted.code != seen.code || wanted.warnings != seen.warnings {
        return false;
    }
    if how == "code" {
        return true;
    }
    if let Some(body) = wanted.body.as_ref().filter(|body| body["kind"] == "Status") {
        let found = seen.body.as_ref().unwrap_or(&Value::Null);
        return status(body, how != "status") == status(found, how != "status");
    }
    match how {
        "status" => true,
        "subset" => {
            let (wanted, seen) = (wanted.body.or(wanted.events), seen.body.as_ref().or(seen.events.as_ref()));
            recorded::is_within(&wanted.unwrap_or_default(), seen.unwrap_or(&Value::Null))
        }
        _ => (&wanted.body, &wanted.events, &wanted.text) == (&seen.body, &seen.events, &seen.text),
    }
}

fn dig<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(value, |value, step| match step.parse::<usize>() {
        Ok(index) if value.is_array() => &value[index],
        _ => &value[step],
    })
}

/// Whether a case is answered differently on purpose (CS-18): keys on P-224 are refused. See docs/compatibility.md.
fn is_refused_here(topic: &str, case: &Value) -> bool {
    topic == "csr-create-request" && case["id"] == "key-p224"
}

/// The server of a recording.
fn setup() -> Setup {
    let selection = Selection::parse(recorded::CONTROLLERS.split(',')).unwrap();
    Setup { is_cluster: true, selection, ..Setup::default() }
}

/// Replays a recording; returns how many cases there are, and what differs.
fn replay(topic: &str) -> (usize, String) {
    replay_over(topic, &[start_with(setup())])
}

/// Replays a recording over servers that share a store and get the requests in turn.
fn replay_over(topic: &str, servers: &[Started]) -> (usize, String) {
    let mut turn = servers.iter().cycle();
    let cases = recorded::lines(&format!("http/{topic}.jsonl"));
    let mut saved = BTreeMap::new();
    let mut differences = String::new();
    for case in &cases {
        // What controllers do takes its time.
        let until = Instant::now() + Duration::from_secs(case["wait"].as_u64().unwrap_or(0));
        let (seen, whole) = loop {
            std::thread::sleep(Duration::from_secs_f64(case["pause"].as_f64().unwrap_or(0.0)));
            let (seen, whole) = ask(turn.next().unwrap(), case, &saved);
            if agrees(case, &seen) || Instant::now() >= until {
                break (seen, whole);
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        for (name, path) in case["save"].as_object().into_iter().flatten() {
            let found = dig(&whole, path.as_str().unwrap());
            let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            saved.insert(name.clone(), text);
        }
        if is_refused_here(topic, case) {
            assert_eq!((expected(case).code, seen.code), (201, 422));
        } else if !agrees(case, &seen) {
            let wanted = expected(case);
            let (id, method, path) = (&case["id"], &case["method"], &case["path"]);
            writeln!(differences, "{id}: {method} {path}\n  want {wanted:?}\n  got  {seen:?}").unwrap();
        }
    }
    (cases.len(), differences)
}

macro_rules! topics {
    ($($test:ident $topic:literal),* $(,)?) => {
        /// The recordings that are replayed with no difference.
        const AGREED: &[&str] = &[$($topic),*];

        $(#[test]
        fn $test() {
            let (count, differences) = replay($topic);
            assert!(count > 0);
            assert!(differences.is_empty(), "{differences}");
        })*
    };
}

topics! {
    applied_configurations_are_answered_as_recorded "apply-basics",
    bodies_of_configurations_are_answered_as_recorded "apply-bodies",
    conflicts_are_answered_as_recorded "apply-conflicts",
    all_kinds_are_applied_as_recorded "apply-kinds",
    lists_are_applied_as_recorded "apply-lists",
    subresources_are_applied_as_recorded "apply-subresources",
    credentials_are_answered_as_recorded "authn-credentials",
    bootstrap_tokens_are_answered_as_recorded "bootstrap-tokens",
    impersonation_is_answered_as_recorded "impersonation",
    nodes_that_write_other_things_are_answered_as_recorded "noderestriction-misc",
    token_reviews_are_answered_as_recorded "review-token",
    tokens_in_secrets_are_answered_as_recorded "sa-legacy-tokens",
    token_requests_are_answered_as_recorded "sa-token-request",
    tokens_of_accounts_are_taken_as_recorded "sa-token-use",
    bodies_are_answered_as_recorded "bodies",
    core_objects_are_answered_as_recorded "core-objects",
    approvals_without_being_asked_are_answered_as_recorded "csr-autoapprove",
    signing_requests_are_read_as_recorded "csr-create-request",
    reading_and_deleting_certificate_requests_is_answered_as_recorded "csr-read-delete",
    requesters_of_certificates_are_written_down_as_recorded "csr-requesters",
    clients_get_certificates_as_recorded "csr-signer-api-client",
    serving_kubelets_get_certificates_as_recorded "csr-signer-kubelet-serving",
    kubelets_as_clients_get_certificates_as_recorded "csr-signer-node-client",
    certificates_from_others_are_answered_as_recorded "csr-status-certificate",
    certificate_admission_is_answered_as_recorded "csr-admission",
    approvals_are_answered_as_recorded "csr-approval",
    fields_of_certificate_requests_are_answered_as_recorded "csr-create-fields",
    new_certificate_requests_are_answered_as_recorded "csr-create-object",
    states_of_certificate_requests_are_answered_as_recorded "csr-status",
    updates_of_certificate_requests_are_answered_as_recorded "csr-update",
    deletions_are_answered_as_recorded "delete",
    discovery_is_answered_as_recorded "discovery",
    dra_objects_are_answered_as_recorded "dra-objects",
    leases_are_answered_as_recorded "leases-misc",
    lists_are_answered_as_recorded "lists",
    nodes_are_authorized_as_recorded "node-authorizer",
    self_reviews_are_answered_as_recorded "review-self",
    mirror_pods_are_answered_as_recorded "mirror-pods",
    namespaces_are_answered_as_recorded "namespaces",
    nodes_that_write_nodes_are_answered_as_recorded "noderestriction-nodes",
    nodes_are_answered_as_recorded "nodes",
    nodes_that_write_pods_are_answered_as_recorded "noderestriction-pods",
    patches_are_answered_as_recorded "patch",
    new_pods_are_answered_as_recorded "pods-create",
    evictions_are_answered_as_recorded "pods-evict",
    invalid_pods_are_answered_as_recorded "pods-invalid",
    updates_of_pods_are_answered_as_recorded "pods-update",
    volumes_of_pods_are_answered_as_recorded "pods-volumes",
    aggregated_roles_are_answered_as_recorded "rbac-aggregation",
    the_default_policy_is_answered_as_recorded "rbac-default-policy",
    roles_are_enforced_as_recorded "rbac-enforcement",
    escalations_are_answered_as_recorded "rbac-escalation",
    roles_and_bindings_are_answered_as_recorded "rbac-objects",
    access_reviews_are_answered_as_recorded "review-sar",
    selectors_are_answered_as_recorded "selectors",
    storage_objects_are_answered_as_recorded "storage-objects",
    tables_are_answered_as_recorded "tables",
    watches_are_answered_as_recorded "watch",
}

/// Replays every recording over this many servers that share an etcd, each recording below a prefix of its own (ET-70).
fn replay_on_etcd(count: usize) {
    let etcd = Etcd::start();
    let differences = Mutex::new(String::new());
    let mut topics = AGREED.iter();
    let next = Mutex::new(|| topics.next());
    let work = || {
        loop {
            let Some(topic) = (next.lock().unwrap())() else { return };
            let config = EtcdConfig {
                servers: vec![etcd.endpoint()],
                prefix: format!("/{topic}"),
                ..EtcdConfig::default()
            };
            let setup = || Setup { etcd: Some(config.clone()), ..setup() };
            let mut servers = vec![start_with(setup())];
            while servers.len() < count {
                let keys_of = Some(servers[0].dir.clone());
                servers.push(start_with(Setup { keys_of, ..setup() }));
            }
            let (cases, found) = replay_over(topic, &servers);
            assert!(cases > 0);
            if !found.is_empty() {
                writeln!(differences.lock().unwrap(), "{topic}:\n{found}").unwrap();
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn a_server_on_etcd_answers_every_recording() {
    replay_on_etcd(1);
}

#[test]
fn two_servers_on_one_etcd_answer_every_recording_in_turn() {
    replay_on_etcd(2);
}

#[test]
fn every_recording_is_replayed() {
    let recordings: Vec<String> = recorded::exchanges()
        .iter()
        .filter_map(|name| Some(name.strip_prefix("http/")?.strip_suffix(".jsonl")?.to_owned()))
        // Those of custom kinds need what only the checker knows that came with them: it replays them over the program.
        .filter(|name| !name.starts_with("crd-"))
        .collect();
    assert!(recordings.len() > 40);
    for topic in &recordings {
        assert!(AGREED.contains(&topic.as_str()), "{topic}");
    }
    assert_eq!(recordings.len(), AGREED.len());
}
