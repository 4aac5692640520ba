//! Server-side apply: `fieldsV1` of others, and a configuration over a pod with any `managedFields`, separated by a tab. Sets
//! of fields survive their text, and an apply that forces is never refused over a conflict.

use std::borrow::Cow;

use portcullis_kinds::apply::{
    Application, ApplyError, Endpoint, FieldSet, Managers, Typed, Versions, Write,
};
use portcullis_kinds::resource::Keeps;
use portcullis_kinds::resources::pods::PODS;
use portcullis_kinds::{Map, decode};
use serde_json::Value;

pub(super) const FIELDS: &[&str] = &[
    "{\"f:spec\":{",
    "\"f:containers\":{",
    "\"k:{\\\"name\\\":\\\"c\\\"}\":{",
    "\".\":{}",
    "\"v:\\\"a\\\"\":{}",
    "\"i:0\":{}",
    "},",
    "}}",
];

pub(super) const APPLY: &[&str] = &[
    "\t",
    "\"managedFields\":[{\"manager\":\"a\",\"operation\":\"Apply\",\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{",
    "\"operation\":\"Update\",",
    "\"fieldsV1\":{\"f:spec\":{\"f:containers\":{\"k:{\\\"name\\\":\\\"c\\\"}\":{\".\":{}}}}}",
    "\"containers\":[{\"name\":\"c\"},{\"name\":\"c\"}],",
    "\"ports\":[{\"containerPort\":80}],",
    "\"finalizers\":[\"a\",\"b\"],",
    "\"tolerations\":[],",
    "\"labels\":{\"a\":\"b\"},",
    "\"metadata\":{",
    "\"spec\":{",
    "null",
];

struct Pods;

impl Versions for Pods {
    type Schema = Typed;

    fn schema(&self, version: &str) -> Option<Typed> {
        (version == "v1").then(|| Typed::of(PODS.schema))
    }

    fn convert<'o>(&self, object: Cow<'o, Map>, _: &str, _: &str) -> Option<Cow<'o, Map>> {
        Some(object)
    }
}

const ENDPOINT: Endpoint<'static, Pods> = Endpoint {
    versions: &Pods,
    version: "v1",
    subresource: "",
    keeps: Keeps::Except(&["status"]),
    now: "2026-01-02T03:04:05Z",
};

pub(super) fn fields_v1(input: &[u8]) -> bool {
    let Ok(fields) = serde_json::from_slice::<Value>(input) else { return false };
    let Ok(set) = FieldSet::parse(Some(&fields)) else { return false };
    let printed = set.print();
    assert_eq!(FieldSet::parse(Some(&printed)).as_ref(), Ok(&set), "{printed}");
    let mut none = set.clone();
    none.subtract(&set);
    assert!(none.is_empty(), "{printed}");
    let mut both = set.clone();
    both.add(set.clone());
    assert_eq!(both, set);
    assert_eq!(both.common(&set), set);
    true
}

pub(super) fn apply(input: &[u8]) -> bool {
    let mut parts = input.splitn(2, |byte| *byte == b'\t');
    let (Some(live), Some(config)) = (parts.next(), parts.next()) else { return false };
    let Ok(live) = decode::json(live, PODS.schema) else { return false };
    let Ok(Value::Object(config)) = serde_json::from_slice::<Value>(config) else { return false };
    let empty = Map::new();
    let mut taken = false;
    for (manager, forces) in [("kubectl", false), ("a", true), ("b", true)] {
        let application = Application { live: &live.object, empty: &empty, config: &config, manager, forces };
        match ENDPOINT.apply(application) {
            Ok(object) => {
                taken = true;
                let entries = object.get("metadata").and_then(|metadata| metadata.get("managedFields"));
                assert!(Managers::parse(entries).is_ok(), "{entries:?}");
                let Ok(decoded) = decode::value(object.into(), PODS.schema) else { continue };
                let mut updated = decoded.object;
                ENDPOINT.update("u", Write { live: &live.object, is_new: false }, &mut updated);
            }
            Err(ApplyError::Conflicts(conflicts)) => {
                assert!(!forces && !conflicts.list().is_empty(), "{conflicts}");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    taken
}
