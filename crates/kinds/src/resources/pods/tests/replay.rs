//! Replays recorded requests for pods, in order, through the functions of this module, and compares the answers:
//! whole objects, or the causes of a refusal as (field, reason), in order.

use std::collections::BTreeMap;

use portcullis_apimachinery::field_error::{FieldError, FieldErrors, NO_FIELD};
use portcullis_apimachinery::time::Instant;
use portcullis_testkit::recorded;
use serde_json::{Value, json};

use crate::Map;
use crate::decode;
use crate::fields::Members;
use crate::meta;
use crate::patch::{self, PatchKind};
use crate::resources::pods::{self, Deletion, PODS, admission};

const NOW: i64 = 1_767_225_600;
const UID: &str = "11111111-2222-3333-4444-555555555555";

/// Members that differ between runs, which the recordings omit.
const RUN: &[&str] = &[
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
    "generation",
    "time",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastHeartbeatTime",
    "startTime",
    "message",
    "observedGeneration",
];

fn clean(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(name, _)| !RUN.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), clean(value))).collect())
        }
        Value::Array(list) => list.iter().map(clean).collect(),
        other => other.clone(),
    }
}

/// The response to a request.
#[derive(Debug, PartialEq)]
enum Answer {
    Pod(Value),
    Causes(Vec<(String, String)>),
    Code(u64),
}

fn causes(errors: &[FieldError]) -> Answer {
    Answer::Causes(
        errors.iter().map(|error| (error.field.clone(), error.reason.as_str().to_owned())).collect(),
    )
}

fn recorded_answer(expect: &Value) -> Answer {
    let body = &expect["body"];
    if body["kind"] == "Pod" {
        return Answer::Pod(clean(body));
    }
    let code = expect["code"].as_u64().unwrap();
    let Some(list) = body["details"]["causes"].as_array() else { return Answer::Code(code) };
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    Answer::Causes(list.iter().map(|cause| (text(cause, "field"), text(cause, "reason"))).collect())
}

fn read(body: &Value) -> Map {
    let mut pod = decode::value(body.clone(), PODS.schema).unwrap().object;
    (PODS.default)(&mut pod);
    pod
}

/// The pods and RuntimeClasses of one recording.
#[derive(Default)]
struct Cluster {
    pods: BTreeMap<String, Map>,
    classes: BTreeMap<String, Map>,
}

impl Cluster {
    fn create(&mut self, namespace: &str, body: &Value) -> Answer {
        let mut pod = read(body);
        if meta::settle_namespace(&mut pod, namespace).is_err() {
            return Answer::Code(400);
        }
        meta::begin(&mut pod, UID, Instant::of_seconds(NOW));
        if let Some(Value::Array(owners)) = pod.object_mut("metadata").unwrap().get_mut("ownerReferences") {
            owners.dedup();
        }
        let account = match admission::service_account(&pod) {
            Some("default" | "sa0" | "sa1" | "bot" | "other") => Some(Map::new()),
            _ => None,
        };
        let class = admission::runtime_class(&pod).and_then(|name| self.classes.get(name)).cloned();
        let admitted = admission::admit_service_account(&mut pod, account.as_ref(), "abcde")
            .and_then(|()| admission::admit_priority(&mut pod, admission::built_in_priority))
            .map(|()| admission::default_tolerations(&mut pod))
            .and_then(|()| admission::admit_runtime_class(&mut pod, class.as_ref()));
        if admitted.is_err() {
            return Answer::Code(403);
        }
        (PODS.prepare_create)(&mut pod);
        let mut errors = meta::validate(&pod, &PODS);
        errors.extend((PODS.validate_create)(&pod));
        if !errors.is_empty() {
            return causes(&errors);
        }
        let name = pod.object_if_set("metadata").unwrap().text("name").to_owned();
        if self.pods.contains_key(&name) {
            return Answer::Code(409);
        }
        self.pods.insert(name, pod.clone());
        Answer::Pod(clean(&Value::Object(pod)))
    }

    fn update(&mut self, name: &str, part: &str, mut pod: Map) -> Answer {
        let old = self.pods[name].clone();
        meta::carry_over(&mut pod, &old);
        let of_kind = match part {
            "" => {
                admission::keep_priority(&mut pod, &old);
                admission::default_tolerations(&mut pod);
                (PODS.prepare_update)(&mut pod, &old);
                (PODS.validate_update)(&pod, &old)
            }
            "status" => {
                (PODS.prepare_status)(&mut pod, &old);
                (PODS.validate_status)(&pod, &old)
            }
            "ephemeralcontainers" => {
                pods::prepare_ephemeral_containers(&mut pod, &old);
                pods::validate_ephemeral_containers(&pod, &old)
            }
            "resize" => {
                pods::prepare_resize(&mut pod, &old);
                pods::validate_resize(&pod, &old)
            }
            other => panic!("{other}"),
        };
        let is_alone = of_kind.iter().any(|error| error.field == NO_FIELD);
        let of_metadata = meta::validate_update(&pod, &old, &PODS, part == "status");
        let mut errors = if is_alone { FieldErrors::new() } else { of_metadata };
        errors.extend(of_kind);
        if !errors.is_empty() {
            return causes(&errors);
        }
        self.pods.insert(name.to_owned(), pod.clone());
        Answer::Pod(clean(&Value::Object(pod)))
    }

    fn delete(&mut self, name: &str, period: Option<i64>) -> Answer {
        let Some(pod) = self.pods.get_mut(name) else { return Answer::Code(404) };
        match Deletion::of(pod, period) {
            Deletion::Pending => Answer::Pod(clean(&Value::Object(pod.clone()))),
            Deletion::After(period) => {
                pods::terminate(pod, period, NOW);
                let answer = Answer::Pod(clean(&Value::Object(pod.clone())));
                if period == 0 {
                    self.pods.remove(name);
                }
                answer
            }
        }
    }
}

fn period(case: &Value, query: &str) -> Option<i64> {
    let of_query = query.strip_prefix("gracePeriodSeconds=").and_then(|text| text.parse().ok());
    case["body"]["gracePeriodSeconds"].as_i64().or(of_query)
}

/// The path of a pod: namespace, name and the part below it.
fn split(path: &str) -> Option<(&str, &str, &str)> {
    let rest = path.strip_prefix("/api/v1/namespaces/")?;
    let mut parts = rest.split('/');
    let namespace = parts.next()?;
    (parts.next() == Some("pods")).then_some(())?;
    Some((namespace, parts.next().unwrap_or_default(), parts.next().unwrap_or_default()))
}

/// The response to a case; `None` if it does not concern these functions.
fn answer(cluster: &mut Cluster, case: &Value) -> Option<Answer> {
    let method = case["method"].as_str().unwrap();
    let (path, query) =
        case["path"].as_str().unwrap().split_once('?').unwrap_or((case["path"].as_str().unwrap(), ""));
    if method == "POST" && path.ends_with("/runtimeclasses") && case["expect"]["code"] == 201 {
        let class = case["expect"]["body"].as_object().unwrap();
        cluster
            .classes
            .insert(class.object_if_set("metadata").unwrap().text("name").to_owned(), class.clone());
        return None;
    }
    let body = &case["body"];
    if method == "POST" && path.ends_with("/bindings") {
        let binding = body.as_object()?;
        return Some(bind(cluster, binding.object_if_set("metadata")?.text("name"), binding));
    }
    let (namespace, name, part) = split(path)?;
    let kind = case["headers"]["Content-Type"].as_str().unwrap_or_default();
    match (method, part) {
        ("GET", "" | "status" | "ephemeralcontainers") if !name.is_empty() && case["headers"].is_null() => {
            let pod = cluster.pods.get(name);
            Some(pod.map_or(Answer::Code(404), |pod| Answer::Pod(clean(&Value::Object(pod.clone())))))
        }
        ("POST", "") if name.is_empty() && !body["metadata"]["resourceVersion"].is_string() => {
            decode::value(body.clone(), PODS.schema).is_ok().then(|| cluster.create(namespace, body))
        }
        ("POST", "binding") => Some(bind(cluster, name, body.as_object().unwrap())),
        ("POST", "eviction") => evict(cluster, case, name, query),
        ("PUT", _) if cluster.pods.contains_key(name) && body["metadata"]["name"] == name => {
            let is_stale = body["metadata"]["resourceVersion"].is_string();
            (!is_stale).then(|| {
                let mut pod = read(body);
                pod.object_or_new("metadata").unwrap().insert("namespace".to_owned(), namespace.into());
                cluster.update(name, part, pod)
            })
        }
        ("PATCH", "" | "ephemeralcontainers" | "resize" | "status") if cluster.pods.contains_key(name) => {
            let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned).replace("${uid}", UID);
            let kind = PatchKind::of_media_type(kind).unwrap();
            let patched = match patch::apply(kind, cluster.pods[name].clone(), text.as_bytes(), PODS.schema) {
                Err(error) if error.code() == 422 => return Some(Answer::Code(422)),
                Err(error) => return Some(Answer::Code(error.code().into())),
                Ok(patched) => Value::Object(patched),
            };
            if decode::value(patched.clone(), PODS.schema).is_err() {
                let cause = ("patch".to_owned(), "FieldValueInvalid".to_owned());
                return Some(Answer::Causes(vec![cause]));
            }
            Some(cluster.update(name, part, read(&patched)))
        }
        ("DELETE", "") if !name.is_empty() && body["preconditions"].is_null() => {
            Some(cluster.delete(name, period(case, query)))
        }
        _ => None,
    }
}

fn bind(cluster: &mut Cluster, name: &str, binding: &Map) -> Answer {
    let bound = pods::check_binding(binding, name).and_then(|()| match cluster.pods.get_mut(name) {
        Some(pod) => pods::bind(pod, binding, NOW).map(|()| 201),
        None => Ok(404),
    });
    Answer::Code(match bound {
        Ok(code) => code,
        Err(pods::BindError::Name(_)) => 400,
        Err(pods::BindError::Target(_)) => 500,
        Err(pods::BindError::Conflict(_)) => 409,
    })
}

fn evict(cluster: &mut Cluster, case: &Value, name: &str, query: &str) -> Option<Answer> {
    let eviction = case["body"].as_object()?;
    if eviction.text("kind") != "Eviction" || !case["body"]["deleteOptions"]["preconditions"].is_null() {
        return None;
    }
    let Ok(options) = pods::check_eviction(eviction, name) else { return Some(Answer::Code(400)) };
    let is_dry =
        query.contains("dryRun") || options.is_some_and(|options| !options.list("dryRun").is_empty());
    let Some(pod) = cluster.pods.get_mut(name) else { return Some(Answer::Code(404)) };
    if !is_dry {
        pods::mark_evicted(pod, NOW);
        cluster.delete(name, options.and_then(|options| options.number_if_set("gracePeriodSeconds")));
    }
    Some(Answer::Code(201))
}

/// Replays a recording. Returns how many cases were compared, and those that differ.
fn replay(name: &str) -> (usize, Vec<String>) {
    let mut cluster = Cluster::default();
    let mut compared = 0;
    let mut differences = Vec::new();
    for case in recorded::lines(&format!("http/{name}.jsonl")) {
        let expect = &case["expect"];
        // Refused by authorization, or for its namespace.
        let code = expect["code"].as_u64().unwrap();
        let is_refused_elsewhere =
            (case["imp"].is_object() && code >= 400) || expect["body"]["details"]["kind"] == "namespaces";
        let wanted = recorded_answer(expect);
        let got = if is_refused_elsewhere { None } else { answer(&mut cluster, &case) };
        let Some(got) = got else {
            follow(&mut cluster, &case);
            continue;
        };
        let is_same = match (case["compare"].as_str(), &got) {
            (Some("code" | "status"), Answer::Pod(_)) => code < 300,
            (Some("code" | "status"), Answer::Code(got)) => *got == code,
            (Some("code" | "status"), Answer::Causes(_)) => code == 422,
            _ => got == wanted || (code == 201 && got == Answer::Code(201)),
        };
        compared += 1;
        if !is_same {
            differences.push(format!("{}: wanted {wanted:?}\n   got {got:?}", case["id"]));
            follow(&mut cluster, &case);
        }
    }
    (compared, differences)
}

/// Adopts the response of Kubernetes, so that later cases start from the same state.
fn follow(cluster: &mut Cluster, case: &Value) {
    let body = &case["expect"]["body"];
    if body["kind"] == "Pod" && case["method"] != "DELETE" {
        let name = body["metadata"]["name"].as_str().unwrap().to_owned();
        cluster.pods.insert(name, read(body));
    }
}

fn assert_replays(name: &str, at_least: usize) {
    let (compared, differences) = replay(name);
    assert!(
        differences.is_empty(),
        "{} of {compared} differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
    assert!(compared >= at_least, "only {compared} cases of {name} were compared");
}

#[test]
fn recorded_creations_hold_ap_110_to_ap_115() {
    assert_replays("pods-create", 38);
}

#[test]
fn recorded_refusals_hold() {
    assert_replays("pods-invalid", 42);
}

#[test]
fn recorded_volumes_hold_ap_113() {
    assert_replays("pods-volumes", 23);
}

#[test]
fn recorded_updates_hold_ap_122_to_ap_124() {
    assert_replays("pods-update", 43);
}

#[test]
fn recorded_evictions_hold_ap_121() {
    assert_replays("pods-evict", 25);
}

#[test]
fn recorded_deletions_hold_ap_55() {
    assert_replays("delete", 17);
}

#[test]
fn recorded_mirror_pods_hold_mp_4_to_mp_17() {
    assert_replays("mirror-pods", 27);
}

#[test]
fn recorded_runtime_classes_hold_ap_115() {
    assert_replays("leases-misc", 4);
}

#[test]
fn recorded_requests_of_nodes_hold() {
    assert_replays("noderestriction-pods", 18);
}

#[test]
fn recorded_patches_hold() {
    assert_replays("patch", 29);
}

#[test]
fn recorded_pods_elsewhere_hold() {
    for name in ["noderestriction-misc", "sa-token-request", "selectors", "watch"] {
        assert_replays(name, 2);
    }
}

#[test]
fn recorded_tables_hold_ap_91_and_ap_92() {
    let mut pods: BTreeMap<String, Map> = BTreeMap::new();
    let mut compared = 0;
    for case in recorded::lines("http/tables.jsonl") {
        let path = case["path"].as_str().unwrap();
        let Some((_, name, part)) = split(path.split('?').next().unwrap()) else { continue };
        let body = &case["body"];
        if case["method"] == "POST" {
            let mut pod = read(body);
            (PODS.prepare_create)(&mut pod);
            let name = pod.object_if_set("metadata").unwrap().text("name").to_owned();
            pods.insert(name, pod);
        } else if part == "status" {
            let pod = pods.get_mut(name).unwrap();
            let status = body["status"].as_object().unwrap().clone();
            pod.object_mut("status").unwrap().extend(status);
        } else if case["expect"]["body"]["kind"] == "Table" {
            let table = &case["expect"]["body"];
            for (column, wanted) in PODS.columns.iter().zip(table["columnDefinitions"].as_array().unwrap()) {
                let got = json!({
                    "format": column.format, "name": column.name, "priority": column.priority, "type": column.kind,
                });
                assert_eq!(&got, wanted);
            }
            for wanted in table["rows"].as_array().unwrap() {
                let mut row = (PODS.row)(&pods[name], NOW);
                // The age depends on the run.
                row.cells[4] = wanted["cells"][4].clone();
                assert_eq!(Value::Array(row.cells), wanted["cells"], "{}", case["id"]);
                assert_eq!(row.completed, wanted["conditions"][0]["reason"].as_str(), "{}", case["id"]);
                compared += 1;
            }
        }
    }
    assert!(compared >= 6, "only {compared} rows were compared");
}
