//! The counters, compared with a naive model that keeps every event.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::{Engine, EngineConfig, Mode};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::rehearsal::support::{counts, rehearsal, report, secret, take, with};

/// What a generated event is made of.
#[derive(Clone, Debug)]
struct Made {
    id: u8,
    user: &'static str,
    verb: &'static str,
    stage: &'static str,
    decision: Option<&'static str>,
    code: u16,
    second: u8,
    has_groups: bool,
    is_known: bool,
}

fn made() -> impl Strategy<Value = Made> {
    let decision = prop_oneof![4 => Just(Some("allow")), 4 => Just(Some("forbid")), 1 => Just(None)];
    let stage = prop_oneof![
        1 => Just("RequestReceived"),
        1 => Just("ResponseStarted"),
        3 => Just("ResponseComplete"),
        1 => Just("Panic"),
    ];
    (
        0_u8..12,
        prop::sample::select(vec!["jane", "john", "system:serviceaccount:shop:web"]),
        prop::sample::select(vec!["get", "delete"]),
        stage,
        decision,
        prop::sample::select(vec![200_u16, 401, 403, 429]),
        0_u8..60,
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.9),
    )
        .prop_map(|(id, user, verb, stage, decision, code, second, has_groups, is_known)| {
            // A request has one user, verb and time.
            let second = if id % 2 == 0 { 1 } else { second };
            Made { id, user, verb, stage, decision, code, second, has_groups, is_known }
        })
}

impl Made {
    fn event(&self) -> Value {
        let event = secret(&self.id.to_string(), self.user, "db", self.decision.unwrap_or_default());
        let event = with(&event, "/verb", json!(self.verb));
        let event = with(&event, "/stage", json!(self.stage));
        let event = with(&event, "/responseStatus/code", json!(self.code));
        let time = format!("2026-11-01T10:00:{:02}.000000Z", self.second);
        let event = with(&event, "/requestReceivedTimestamp", json!(time));
        let event = if self.has_groups { event } else { with(&event, "/user/groups", Value::Null) };
        if self.decision.is_some() { event } else { with(&event, "/annotations", Value::Null) }
    }

    /// Jane may do everything, and others nothing.
    fn is_allowed(&self) -> bool {
        self.user == "jane"
    }
}

fn engine() -> Engine {
    let policy = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"jane","namespace":"*","resource":"*","apiGroup":"*"}}"#;
    let yaml = |_: &str| Err("the line is JSON".to_owned());
    let file = portcullis_policy::abac::AbacPolicyFile::parse(
        "policy",
        policy.as_bytes(),
        portcullis_policy::abac::Compatibility::Strict,
        yaml,
    );
    let config = EngineConfig {
        modes: vec![Mode::Abac],
        abac: Some(std::sync::Arc::new(file.unwrap())),
        ..EngineConfig::default()
    };
    Engine::from_json(config, []).unwrap()
}

/// Rows, by change, user and verb: the count, the first and the last second.
type Rows = BTreeMap<(&'static str, &'static str, &'static str), (u64, u8, u8)>;

/// Counts over the whole list: of each request the first event that may count.
fn naive(events: &[Made]) -> ([u64; 5], Rows) {
    let (mut counts, mut rows, mut seen) = ([0; 5], Rows::new(), BTreeSet::new());
    for event in events {
        let is_new =
            event.stage != "RequestReceived" && seen.insert((event.id, event.user, event.verb, event.second));
        let Some(decision) = event.decision else {
            if is_new && !matches!(event.code, 401 | 429) {
                counts[0] += 1;
                counts[4] += 1;
            }
            continue;
        };
        if !is_new {
            continue;
        }
        counts[0] += 1;
        let change = match (event.has_groups && event.is_known, decision, event.is_allowed()) {
            (false, ..) => 4,
            (true, "allow", true) | (true, "forbid", false) => 1,
            (true, "allow", false) => 2,
            _ => 3,
        };
        counts[change] += 1;
        let name = match change {
            2 => "newly-refused",
            3 => "newly-allowed",
            _ => continue,
        };
        let row = rows.entry((name, event.user, event.verb)).or_insert((0, event.second, event.second));
        *row = (row.0 + 1, row.1.min(event.second), row.2.max(event.second));
    }
    (counts, rows)
}

fn rows(report: &Value) -> Rows {
    let names = ["newly-refused", "newly-allowed", "get", "delete", "jane", "john"];
    let known = |value: &Value| {
        names.into_iter().find(|name| value == name).unwrap_or("system:serviceaccount:shop:web")
    };
    let second = |value: &Value| value.as_str().unwrap().get(17..19).unwrap().parse().unwrap();
    let rows = report["changed"].as_array().unwrap().iter();
    rows.map(|row| {
        assert_eq!(row["resource"], "secrets");
        let key = (known(&row["change"]), known(&row["subject"]["name"]), known(&row["verb"]));
        (key, (row["count"].as_u64().unwrap(), second(&row["firstSeen"]), second(&row["lastSeen"])))
    })
    .collect()
}

proptest! {
    #[test]
    fn the_counters_are_those_of_a_naive_model(events in prop::collection::vec(made(), 0..60)) {
        let engine = engine();
        let mut rehearsal = rehearsal();
        for event in &events {
            take(&mut rehearsal, event.is_known.then(|| engine.chain()), &[event.event()]);
        }
        let report = report(&rehearsal);
        let (expected, expected_rows) = naive(&events);
        prop_assert_eq!(counts(&report), expected, "{:#}", report);
        prop_assert_eq!(rows(&report), expected_rows);
        let summary = match expected {
            [_, _, 0, 0, 0] if expected[0] == 0 => "nothing-judged",
            [_, _, 0, 0, 0] => "nothing-differs",
            [_, _, 0, 0, _] => "unknown",
            _ => "differs",
        };
        prop_assert_eq!(&report["summary"], summary);
    }
}
