//! Objects of all kinds, in JSON and in protobuf: what is decoded encodes and decodes to the same again.

use portcullis_kinds::schema::{self, Type, meta};
use portcullis_kinds::{Map, decode, protobuf};
use serde_json::Value;

pub(super) const OBJECT_JSON: &[&str] = &[
    "\"metadata\":{",
    "\"spec\":{",
    "\"status\":{",
    "\"kind\":\"Node\",",
    "\"containers\":[{",
    "\"labels\":{\"a\":\"b\"},",
    "\"creationTimestamp\":\"2026-11-21T10:00:00.5+02:00\",",
    "\"2026-01-02T03:04:05.000006Z\"",
    "\"0001-01-01T00:00:00Z\"",
    "\"1.5Gi\"",
    "\"YQ==\"",
    "\\ud83d",
    "-0",
    "1e9",
    "null",
    "{}",
    "[]",
];

pub(super) const OBJECT_PROTOBUF: &[&str] = &[
    "k8s\0",
    "\x0a\x00",
    "\x12\x00",
    "\x0a\x02\x08\x01",
    "\x08\x01",
    "\x10\x00",
    "\x1a\x011",
    "\x0a\x041500m",
];

pub(super) fn object_json(input: &[u8]) -> bool {
    let Ok(decoded) = decode::json(input, &meta::PARTIAL_OBJECT_METADATA) else { return false };
    let text = |name: &str| decoded.object.get(name).and_then(Value::as_str).unwrap_or_default();
    let Some(ty) = schema::find(text("apiVersion"), text("kind")) else { return false };
    let Ok(decoded) = decode::json(input, ty) else { return false };
    promise_to_stay(decoded.object, ty);
    true
}

pub(super) fn object_protobuf(input: &[u8]) -> bool {
    let Ok(envelope) = protobuf::envelope(input) else { return false };
    let Some(ty) = schema::find(envelope.api_version, envelope.kind) else { return false };
    let Ok(object) = protobuf::decode(input, ty) else { return false };
    let written = protobuf::encode(&object, ty).expect("what was read is of its type");
    let again = protobuf::decode(&written, ty).expect("what was written can be read");
    assert_eq!(again, object, "what was written is what was read");
    promise_to_stay(object, ty);
    true
}

fn promise_to_stay(object: Map, ty: &'static Type) {
    let again = decode::value(Value::Object(object.clone()), ty).expect("what was read is of its type");
    assert_eq!(again.problems, [], "what was read has its type's fields");
    assert_eq!(again.object, object, "what was read stays as it is");
}
