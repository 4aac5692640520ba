//! What a kubelet, a controller manager and kubectl sent to Kubernetes 1.36 about workloads, budgets, quotas and the
//! like is read as Kubernetes read it, and becomes the object that Kubernetes stored.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portcullis_apimachinery::time::Instant;
use portcullis_kinds::resource::{Endpoint, Resource};
use portcullis_kinds::{Kinds, Map, decode, meta, protobuf};
use portcullis_testkit::recorded;
use serde_json::Value;

const SESSION: &str = "data/kubelet-1.36-raw/requests.jsonl";

/// The requests of the session that are about these kinds, by their numbers.
const REQUESTS: [u64; 50] = [
    222, 242, 259, 261, 265, 268, 284, 285, 286, 670, 675, 676, 677, 687, 689, 693, 697, 700, 701, 703, 704,
    710, 711, 713, 753, 754, 758, 839, 846, 849, 878, 879, 885, 893, 894, 947, 959, 1023, 1038, 1044, 1155,
    2304, 2307, 3250, 3264, 3317, 3322, 3326, 3328, 3331,
];

fn lines() -> Vec<Value> {
    let mut lines = recorded::lines(SESSION);
    lines.retain(|line| line["seq"].as_u64().is_some_and(|number| REQUESTS.contains(&number)));
    assert_eq!(lines.len(), REQUESTS.len());
    lines
}

/// A recorded write.
struct Write {
    line: Value,
    row: &'static Resource,
    /// The subresource; empty for the object itself.
    subresource: String,
}

/// The recorded requests with these methods, about objects.
fn writes(methods: &[&str]) -> Vec<Write> {
    let kinds = Kinds::built_in();
    let read = |line: Value| {
        let path = line["path"].as_str().unwrap().split('?').next().unwrap().to_owned();
        let mut parts = path.trim_start_matches('/').split('/');
        let group = if parts.next() == Some("apis") { parts.next().unwrap() } else { "" };
        let version = parts.next().unwrap();
        let mut rest: Vec<&str> = parts.collect();
        if rest[0] == "namespaces" && rest.len() > 2 {
            rest.drain(..2);
        }
        let row = kinds.find(group, version, rest[0]).unwrap_or_else(|| panic!("{path} is served"));
        let subresource = rest.get(2).copied().unwrap_or_default().to_owned();
        Write { line, row, subresource }
    };
    let lines = lines().into_iter();
    lines.filter(|line| methods.contains(&line["method"].as_str().unwrap())).map(read).collect()
}

impl Write {
    fn is_protobuf(&self) -> bool {
        self.line["headers"]["Content-Type"] == "application/vnd.kubernetes.protobuf"
    }

    /// The object in the body, with its defaults.
    fn object(&self) -> Map {
        let body = BASE64_STANDARD.decode(self.line["body_b64"].as_str().unwrap()).unwrap();
        let mut object = match self.is_protobuf() {
            true => protobuf::decode(&body, self.row.schema).unwrap(),
            false => {
                let decoded = decode::json(&body, self.row.schema).unwrap();
                assert_eq!(decoded.problems, []);
                decoded.object
            }
        };
        (self.row.default)(&mut object);
        object
    }

    fn answer(&self) -> Value {
        without_managers(&self.line["response_json"])
    }
}

/// A document without what only field ownership needs, which is not tracked.
fn without_managers(document: &Value) -> Value {
    recorded::without(document, &["managedFields"])
}

/// An object as it is printed.
fn printed(object: Map, row: &Resource) -> Value {
    let decoded = decode::value(object.into(), row.schema).unwrap();
    assert_eq!(decoded.problems, []);
    decoded.object.into()
}

#[test]
fn bodies_are_read_with_the_defaults_of_kubernetes_ap_110() {
    let (mut read, mut kinds) = (0, BTreeSet::new());
    for write in writes(&["POST", "PUT"]) {
        let object = printed(write.object(), write.row);
        assert_eq!(object, without_managers(&write.line["body_json"]), "{}", write.line["seq"]);
        kinds.insert((write.is_protobuf(), write.row.kind));
        read += 1;
    }
    assert!(read >= 25, "{read}");
    let protobuf: Vec<&str> = kinds.iter().filter(|(is, _)| *is).map(|(_, kind)| *kind).collect();
    assert_eq!(
        protobuf,
        ["CronJob", "Deployment", "Job", "PodDisruptionBudget", "ReplicaSet", "ResourceQuota"]
    );
}

#[test]
fn what_is_created_is_what_kubernetes_stored_ap_30() {
    let mut created = 0;
    for write in writes(&["POST"]) {
        let (mut object, answer) = (write.object(), write.answer());
        let metadata = &answer["metadata"];
        let time = Instant::parse(metadata["creationTimestamp"].as_str().unwrap()).unwrap();
        meta::begin(&mut object, metadata["uid"].as_str().unwrap(), time);
        (write.row.prepare_create)(&mut object);
        assert_eq!((write.row.validate_create)(&object), [], "{}", write.line["seq"]);
        assert_eq!(meta::validate(&object, write.row), []);
        let metadata_mut = meta::metadata_mut(&mut object).unwrap();
        metadata_mut.insert("resourceVersion".to_owned(), metadata["resourceVersion"].clone());
        assert_eq!(printed(object, write.row), answer, "{}", write.line["seq"]);
        created += 1;
    }
    assert!(created >= 10, "{created}");
}

#[test]
fn what_is_updated_is_what_kubernetes_stored_ap_42() {
    let mut updated = 0;
    for write in writes(&["PUT"]) {
        let endpoint = write.row.subresources.iter().find(|below| below.name == write.subresource);
        let Endpoint::Object(update) = write.row.endpoint(endpoint) else { panic!("objects are updated") };
        let (mut object, answer) = (write.object(), write.answer());
        // Controllers send the object that they read, changed in one of its parts.
        let mut old = object.clone();
        if update.is_status {
            old.remove("status");
        } else {
            // Of the recorded updates of specifications each changes the number of pods.
            old["spec"]["replicas"] = (object["spec"]["replicas"].as_i64().unwrap() + 1).into();
            old.insert("status".to_owned(), answer["status"].clone());
            let generation = answer["metadata"]["generation"].as_i64().unwrap() - 1;
            meta::metadata_mut(&mut old).unwrap().insert("generation".to_owned(), generation.into());
        }
        meta::carry_over(&mut object, &old);
        (update.prepare)(&mut object, &old);
        assert_eq!((update.validate)(&object, &old), [], "{}", write.line["seq"]);
        let metadata = meta::metadata_mut(&mut object).unwrap();
        metadata.insert("resourceVersion".to_owned(), answer["metadata"]["resourceVersion"].clone());
        assert_eq!(printed(object, write.row), answer, "{}", write.line["seq"]);
        updated += 1;
    }
    assert!(updated >= 15, "{updated}");
}

#[test]
fn the_first_objects_of_watches_are_read() {
    let mut kinds = BTreeSet::new();
    for line in lines().into_iter().filter(|line| line["watch"].is_object()) {
        let frame = BASE64_STANDARD.decode(line["watch"]["first_b64"].as_str().unwrap()).unwrap();
        // The event: its type is field 1, the object is field 2, as raw bytes in field 1 of a message.
        let at = frame.windows(4).position(|bytes| bytes == b"k8s\0").unwrap();
        let document = &frame[at..];
        let envelope = protobuf::envelope(document).unwrap();
        let (api_version, kind) = (envelope.api_version.to_owned(), envelope.kind.to_owned());
        let Some(row) = Kinds::built_in().of_document(&api_version, &kind) else {
            assert_eq!(kind, "PartialObjectMetadata");
            continue;
        };
        let object = protobuf::decode(document, row.schema).unwrap();
        let mut again = object.clone();
        (row.default)(&mut again);
        assert_eq!(again, object, "{kind}: what Kubernetes stores has its defaults");
        let errors = (row.validate_create)(&object);
        assert_eq!(errors, [], "{kind}");
        kinds.insert(kind);
    }
    let expected = ["FlowSchema", "IPAddress", "PriorityClass", "PriorityLevelConfiguration", "ServiceCIDR"];
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn the_scale_of_a_deployment_is_that_of_kubernetes() {
    let mut scales = 0;
    for write in writes(&["PATCH"]).into_iter().filter(|write| write.subresource == "scale") {
        let answer = write.answer();
        let below = write.row.subresources.iter().find(|below| below.name == "scale");
        let Endpoint::Part(part) = write.row.endpoint(below) else { panic!("a scale is a part") };
        let mut object: Map = serde_json::from_value(serde_json::json!({
            "metadata": answer["metadata"],
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"replicas": answer["status"]["replicas"]},
        }))
        .unwrap();
        let mut scale = (part.show)(&object);
        scale.insert("spec".to_owned(), answer["spec"].clone());
        (part.put)(&mut object, &scale).unwrap();
        assert_eq!(object["spec"]["replicas"], answer["spec"]["replicas"]);
        assert_eq!(Value::Object((part.show)(&object)), answer);
        scales += 1;
    }
    assert_eq!(scales, 1);
}
