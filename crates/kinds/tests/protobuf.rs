//! Kubernetes' protobuf form is read into the objects that its JSON form gives.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portcullis_kinds::{decode, protobuf, schema};
use portcullis_testkit::recorded;
use serde_json::{Value, json};

/// A document as it comes out of protobuf, which does not tell an empty list from none (AP-136). The recordings hold one
/// list that is printed either way.
fn without_empty_lists(mut document: Value) -> Value {
    let mappings = "/status/extendedResourceClaimStatus/requestMappings";
    if let Some(mappings) = document.pointer_mut(mappings).filter(|mappings| **mappings == json!([])) {
        *mappings = Value::Null;
    }
    document
}

#[test]
fn recorded_documents_read_as_kubernetes_reads_them() {
    for line in recorded::lines("protobuf.jsonl") {
        let bytes = BASE64_STANDARD.decode(line["protobuf"].as_str().unwrap()).unwrap();
        let envelope = protobuf::envelope(&bytes).unwrap();
        let ty = schema::find(envelope.api_version, envelope.kind).unwrap();
        let found = protobuf::decode(&bytes, ty).unwrap();
        assert_eq!(Value::Object(found), without_empty_lists(line["json"].clone()));
    }
}

#[test]
fn recorded_documents_read_the_same_from_json() {
    for line in recorded::lines("protobuf.jsonl") {
        let text = |name: &str| line["json"][name].as_str().unwrap().to_owned();
        let ty = schema::find(&text("apiVersion"), &text("kind")).unwrap();
        let decoded = decode::json(line["json"].to_string().as_bytes(), ty).unwrap();
        assert_eq!(decoded.problems, []);
        assert_eq!(Value::Object(decoded.object), without_empty_lists(line["json"].clone()));
    }
}
