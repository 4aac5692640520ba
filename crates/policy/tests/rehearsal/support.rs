//! Engines, events, and reports as programs see them.

use std::hash::RandomState;

use portcullis_policy::chain::Chain;
use portcullis_policy::rehearsal::{Lost, Rehearsal, Report, each_event};
use portcullis_policy::{Engine, EngineConfig, FeatureGates, Mode};
use serde_json::{Value, json};

/// An engine of modes Node and RBAC over objects.
pub(crate) fn engine(objects: &[Value]) -> Engine {
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    let config = EngineConfig { modes: vec![Mode::Node, Mode::Rbac], ..EngineConfig::default() };
    Engine::from_json(config, texts.iter().map(String::as_str)).unwrap()
}

/// An engine of one mode that decides everything alike.
pub(crate) fn always(mode: Mode) -> Engine {
    Engine::from_json(EngineConfig { modes: vec![mode], ..EngineConfig::default() }, []).unwrap()
}

pub(crate) fn rehearsal() -> Rehearsal {
    Rehearsal::new(FeatureGates::default(), RandomState::new())
}

/// Takes events in, one document each, and returns the examples.
pub(crate) fn take(rehearsal: &mut Rehearsal, chain: Option<&Chain>, events: &[Value]) -> Vec<Value> {
    let mut examples = Vec::new();
    for event in events {
        each_event(event.to_string().as_bytes(), &mut |event| {
            let example = rehearsal.take(event, chain);
            examples.extend(example.map(|example| serde_json::to_value(example).unwrap()));
        })
        .unwrap();
    }
    examples
}

/// The report of all that was taken.
pub(crate) fn report(rehearsal: &Rehearsal) -> Value {
    serde_json::to_value(Report::new(rehearsal.tally(), Lost::default())).unwrap()
}

/// The report about events.
pub(crate) fn rehearse(engine: &Engine, events: &[Value]) -> Value {
    let mut rehearsal = rehearsal();
    take(&mut rehearsal, Some(&engine.chain().clone().with_masters()), events);
    report(&rehearsal)
}

/// How many requests there were, which were unchanged, newly refused, newly allowed and unknown.
pub(crate) fn counts(report: &Value) -> [u64; 5] {
    let sum = |rows: &Value, change: Option<&str>| -> u64 {
        let rows = rows.as_array().unwrap().iter();
        rows.filter(|row| change.is_none_or(|change| row["change"] == change))
            .map(|row| row["count"].as_u64().unwrap())
            .sum()
    };
    let changed = |change| sum(&report["changed"], Some(change)) + sum(&report["withoutRow"], Some(change));
    [
        report["requests"]["count"].as_u64().unwrap(),
        report["unchanged"].as_u64().unwrap(),
        changed("newly-refused"),
        changed("newly-allowed"),
        sum(&report["unknown"], None),
    ]
}

/// A complete event of a user who gets a secret.
pub(crate) fn secret(id: &str, user: &str, name: &str, decision: &str) -> Value {
    json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": id,
        "stage": "ResponseComplete", "verb": "get",
        "requestURI": format!("/api/v1/namespaces/shop/secrets/{name}"),
        "user": {"username": user, "groups": ["system:authenticated"]},
        "objectRef": {"resource": "secrets", "namespace": "shop", "name": name, "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": "2026-11-01T10:00:00.000000Z",
        "annotations": {"authorization.k8s.io/decision": decision, "authorization.k8s.io/reason": ""},
    })
}

/// The same event with another value at a path; `null` removes it.
pub(crate) fn with(event: &Value, pointer: &str, value: Value) -> Value {
    let mut event = event.clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let members = event.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    // The slash of annotations.
    let key = key.replace("~1", "/");
    match value {
        Value::Null => drop(members.remove(&key)),
        value => drop(members.insert(key, value)),
    }
    event
}
