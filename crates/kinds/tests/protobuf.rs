//! An object in protobuf is decoded to the same object as its JSON.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

mod support;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portcullis_kinds::protobuf::ProtobufError;
use portcullis_kinds::schema::{
    Field, Merge, Ownership, Presence, Required, Shape, Type, coordination, core, meta,
};
use portcullis_kinds::{Map, decode, protobuf, schema};
use portcullis_testkit::recorded;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{Dice, bytes, varint};

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

#[test]
fn recorded_documents_are_written_as_kubernetes_reads_them() {
    for line in recorded::lines("protobuf.jsonl") {
        let bytes = BASE64_STANDARD.decode(line["protobuf"].as_str().unwrap()).unwrap();
        let envelope = protobuf::envelope(&bytes).unwrap();
        let ty = schema::find(envelope.api_version, envelope.kind).unwrap();
        let object = protobuf::decode(&bytes, ty).unwrap();
        let written = protobuf::encode(&object, ty).unwrap();
        assert_eq!(protobuf::decode(&written, ty).unwrap(), object);
    }
}

#[test]
fn recorded_answers_are_written_as_kubernetes_writes_them_byte_for_byte() {
    let (mut documents, mut lists, mut events) = (0, 0, 0);
    for line in recorded::lines("data/kubelet-1.36-raw/requests.jsonl") {
        let media = line["responseHeaders"]["Content-Type"].as_str().unwrap_or_default();
        let bytes = |field: &Value| BASE64_STANDARD.decode(field.as_str().unwrap_or_default()).unwrap();
        if media == "application/vnd.kubernetes.protobuf;stream=watch" {
            let event = bytes(&line["watch"]["first_b64"]);
            if !event.is_empty() {
                events += u32::from(is_event_written_back(&event));
            }
            continue;
        }
        let answer = bytes(&line["response_b64"]);
        let is_whole = line["response_len"].as_u64() == Some(answer.len() as u64);
        if media != "application/vnd.kubernetes.protobuf" || !is_whole || answer.is_empty() {
            continue;
        }
        match assert_written_back(&answer) {
            Some(Written::Document) => documents += 1,
            Some(Written::List) => lists += 1,
            None => {}
        }
    }
    assert!(
        documents > 700 && lists > 30 && events > 60,
        "{documents} documents, {lists} lists, {events} events"
    );
}

fn field(name: &'static str, number: u32, shape: Shape) -> Field {
    Field {
        name,
        number,
        within: &[],
        shape,
        presence: Presence::Always,
        required: Required::Usual,
        merge: Merge::Default,
        ownership: Ownership::Usual,
        default: None,
        values: &[],
    }
}

enum Written {
    Document,
    List,
}

/// Reads a recorded document or list, and compares what is written of it with the recording; nothing if its kind is not
/// known here.
fn assert_written_back(bytes: &[u8]) -> Option<Written> {
    let envelope = protobuf::envelope(bytes).unwrap();
    let written;
    let found = if let Some(ty) = schema::find(envelope.api_version, envelope.kind) {
        written = Written::Document;
        let object = protobuf::decode(bytes, ty).unwrap();
        protobuf::encode_document(&object).unwrap().unwrap()
    } else {
        let item = schema::find(envelope.api_version, envelope.kind.strip_suffix("List")?)?;
        written = Written::List;
        protobuf::encode_document(&read_list(bytes, item)).unwrap().unwrap()
    };
    assert_same(&found, bytes, envelope.kind);
    Some(written)
}

fn assert_same(found: &[u8], recorded: &[u8], kind: &str) {
    let at = found.iter().zip(recorded).position(|(a, b)| a != b).unwrap_or(found.len().min(recorded.len()));
    let near = |bytes: &[u8]| {
        let part = &bytes[at.saturating_sub(60).min(bytes.len())..(at + 40).min(bytes.len())];
        part.escape_ascii().to_string()
    };
    assert!(found == recorded, "{kind} at byte {at}:\n{}\n{}", near(found), near(recorded));
}

/// Reads a recorded list, and compares what is written piece by piece of it with the recording.
fn read_list(bytes: &[u8], item: &'static Type) -> Map {
    let items: &'static Shape = Box::leak(Box::new(Shape::Object(item)));
    let fields =
        vec![field("metadata", 1, Shape::Object(&meta::LIST_META)), field("items", 2, Shape::List(items))];
    let list = Box::leak(Box::new(Type::new("List", "", Vec::leak(fields))));
    let list = protobuf::decode(bytes, list).unwrap();
    let items = list["items"].as_array().into_iter().flatten();
    let items: Vec<_> =
        items.flat_map(|entry| protobuf::encode_item(entry.as_object().unwrap(), item).unwrap()).collect();
    let (version, kind) = (list["apiVersion"].as_str().unwrap(), list["kind"].as_str().unwrap());
    let metadata = list["metadata"].as_object().unwrap();
    let encoder = protobuf::ListEncoder::new(version, kind, metadata, items.len()).unwrap();
    assert_same(&[encoder.start, items, encoder.end].concat(), bytes, kind);
    list
}

/// Reads a recorded event of a watch, and compares what is written of it with the recording; false if its kind is not
/// known here.
fn is_event_written_back(event: &[u8]) -> bool {
    let object =
        Box::leak(Box::new(Type::new("RawExtension", "", Vec::leak(vec![field("raw", 1, Shape::Bytes)]))));
    let fields = vec![field("type", 1, Shape::Text), field("object", 2, Shape::Object(object))];
    let ty = Box::leak(Box::new(Type::new("WatchEvent", "", Vec::leak(fields))));
    let read = protobuf::message(event, ty).unwrap();
    let document = BASE64_STANDARD.decode(read["object"]["raw"].as_str().unwrap()).unwrap();
    if assert_written_back(&document).is_none() {
        return false;
    }
    let written = protobuf::watch_event(read["type"].as_str().unwrap(), &document);
    let (length, message) = written.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, message.len());
    assert_same(message, event, "WatchEvent");
    true
}

fn kinds() -> Vec<&'static Type> {
    schema::kinds().filter(|ty| !ty.package.contains('.')).collect()
}

/// Protobuf has no lists without entries. That of the managers is a request, and is never stored.
fn drop_empty_managers(members: &mut Map) {
    members.retain(|name, value| name != "managedFields" || *value != json!([]));
    for value in members.values_mut() {
        match value {
            Value::Object(members) => drop_empty_managers(members),
            Value::Array(items) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(drop_empty_managers);
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_in_protobuf_reads_like_the_same_in_json(seed: u64) {
        let mut dice = Dice(seed);
        let kinds = kinds();
        let ty = kinds[dice.roll(kinds.len() as u64) as usize];
        let object = support::object(&mut dice, ty);
        let json = decode::value(Value::Object(object.clone()), ty).unwrap();
        prop_assert_eq!(&json.problems, &[]);
        let mut expected = json.object;
        drop_empty_managers(&mut expected);
        expected.insert("apiVersion".to_owned(), "x/v1".into());
        expected.insert("kind".to_owned(), ty.name.into());
        let found = protobuf::decode(&support::envelope(ty, "x/v1", &object), ty).unwrap();
        prop_assert_eq!(&found, &expected);
        // A document that was read and printed once stays the same.
        let again = decode::value(Value::Object(found.clone()), ty).unwrap();
        prop_assert_eq!(&again.object, &found);
        // So does what was written in protobuf.
        prop_assert_eq!(&protobuf::decode(&protobuf::encode(&found, ty).unwrap(), ty).unwrap(), &found);
    }

    #[test]
    fn damaged_documents_are_read_or_refused(seed: u64, cut: prop::sample::Index, at: prop::sample::Index, byte: u8) {
        let mut dice = Dice(seed);
        let kinds = kinds();
        let ty = kinds[dice.roll(kinds.len() as u64) as usize];
        let object = support::object(&mut dice, ty);
        let mut document = support::envelope(ty, "v1", &object);
        let _ = protobuf::decode(&document[..cut.index(document.len())], ty);
        let at = at.index(document.len());
        document[at] = byte;
        if let Ok(object) = protobuf::decode(&document, ty) {
            let again = decode::value(Value::Object(object.clone()), ty).unwrap();
            prop_assert_eq!(again.object, object);
        }
    }
}

fn config_map(message: &[u8]) -> Result<Value, ProtobufError> {
    protobuf::message(message, &core::CONFIG_MAP).map(Value::Object)
}

#[test]
fn of_a_text_that_comes_twice_the_last_counts_and_messages_are_put_together() {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    bytes(&mut first, 1, b"a");
    bytes(&mut first, 3, b"ns");
    bytes(&mut second, 1, b"b");
    let mut message = Vec::new();
    bytes(&mut message, 1, &first);
    bytes(&mut message, 1, &second);
    assert_eq!(config_map(&message), Ok(json!({"metadata": {"name": "b", "namespace": "ns"}})));
}

#[test]
fn an_entry_without_key_or_value_has_empty_ones() {
    let mut message = Vec::new();
    bytes(&mut message, 2, b"");
    assert_eq!(config_map(&message), Ok(json!({"metadata": {}, "data": {"": ""}})));
}

#[test]
fn unknown_fields_of_every_type_are_passed_over() {
    let mut message = Vec::new();
    varint(&mut message, 1000, u64::MAX);
    bytes(&mut message, 1001, b"x");
    message.extend([0x41 | 0x80, 0x3f, 1, 2, 3, 4, 5, 6, 7, 8]); // 1016, eight bytes
    message.extend([0x45 | 0x80, 0x3f, 1, 2, 3, 4]); // 1016, four bytes
    assert_eq!(config_map(&message), Ok(json!({"metadata": {}})));
}

#[test]
fn numbers_may_come_packed() {
    let mut message = Vec::new();
    bytes(&mut message, 4, &[1, 0xac, 0x02]);
    let read = protobuf::message(&message, &core::pod::POD_SECURITY_CONTEXT).unwrap();
    assert_eq!(Value::Object(read), json!({"supplementalGroups": [1, 300]}));
}

#[test]
fn what_is_no_document_is_refused() {
    let field = |number, value: &[u8]| {
        let mut message = Vec::new();
        bytes(&mut message, number, value);
        message
    };
    let number = |number, value| {
        let mut message = Vec::new();
        varint(&mut message, number, value);
        message
    };
    assert_eq!(protobuf::envelope(b"{}"), Err(ProtobufError::Magic));
    assert_eq!(protobuf::envelope(b"k8s"), Err(ProtobufError::Magic));
    assert_eq!(protobuf::envelope(b"k8s\0\x0a\x05"), Err(ProtobufError::Truncated));
    assert_eq!(config_map(&[0x0a]), Err(ProtobufError::Truncated));
    assert_eq!(config_map(&[0xff; 12]), Err(ProtobufError::Truncated));
    assert_eq!(config_map(&[0x02, 0x00]), Err(ProtobufError::Wire), "field 0");
    assert_eq!(config_map(&[0x0b]), Err(ProtobufError::Wire), "a group");
    assert_eq!(config_map(&number(1, 1)), Err(ProtobufError::Type("metadata")));
    assert_eq!(config_map(&field(4, b"x")), Err(ProtobufError::Type("immutable")));
    assert_eq!(config_map(&field(1, &field(1, b"\xff"))), Err(ProtobufError::Utf8("name")));
    let lease = field(2, &field(4, &number(1, u64::MAX >> 1)));
    let refused = protobuf::message(&lease, &coordination::LEASE);
    assert!(matches!(refused, Err(ProtobufError::Value { field: "renewTime", .. })), "{refused:?}");
    let entry = field(7, &field(1, b"{\"a\":"));
    let refused = protobuf::message(&entry, &meta::MANAGED_FIELDS_ENTRY);
    assert!(matches!(refused, Err(ProtobufError::Value { field: "fieldsV1", .. })), "{refused:?}");
}

#[test]
fn too_many_values_are_refused() {
    let empty_entries = [0x12, 0].repeat(decode::MAX_VALUES + 1);
    assert_eq!(config_map(&empty_entries), Err(ProtobufError::TooMany));
}
