//! JSON bodies: read once, noticing repeated keys, and held against the fields that a kind has (AP-13, AP-14).

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::route::Kind;

/// At most so many complaints are collected; the rest of the body is read without.
const MAX_COMPLAINTS: usize = 100;

/// Reads a body. Of repeated keys the last wins, except that two objects are merged (AP-13).
///
/// # Errors
/// Anything but one JSON value.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let repeated = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Reading { path: &Path::Root, repeated: &repeated }.deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, repeated.into_inner()))
}

/// Where we are; becomes text only in a complaint.
enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}

struct Reading<'a> {
    path: &'a Path<'a>,
    repeated: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = Path::Item(self.path, list.len());
            let Some(item) = items.next_element_seed(Reading { path: &path, repeated: self.repeated })?
            else {
                return Ok(Value::Array(list));
            };
            list.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let path = Path::Field(self.path, &key);
            let value = fields.next_value_seed(Reading { path: &path, repeated: self.repeated })?;
            match object.get_mut(&key) {
                None => {
                    object.insert(key, value);
                }
                Some(earlier) => {
                    complain(&mut self.repeated.borrow_mut(), format_args!("duplicate field \"{path}\""));
                    merge(earlier, value);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

/// What a repeated key makes of its two values (AP-13).
fn merge(earlier: &mut Value, later: Value) {
    match (earlier, later) {
        (Value::Object(earlier), Value::Object(later)) => {
            for (key, value) in later {
                match earlier.get_mut(&key) {
                    Some(present) => merge(present, value),
                    None => {
                        earlier.insert(key, value);
                    }
                }
            }
        }
        (earlier, later) => *earlier = later,
    }
}

fn complain(complaints: &mut Vec<String>, complaint: fmt::Arguments<'_>) {
    let complaint = complaint.to_string();
    if complaints.len() < MAX_COMPLAINTS && !complaints.contains(&complaint) {
        complaints.push(complaint);
    }
}

/// The fields of an object, each with what may stand in it.
type Fields = &'static [(&'static str, Shape)];

#[derive(Clone, Copy)]
enum Shape {
    /// Anything: a plain value, or a map with keys of the client's choice.
    Any,
    /// A list of objects.
    List(Fields),
    /// An object.
    Object(Fields),
}

use Shape::{Any, List, Object};

const OWNER: Fields = &[
    ("apiVersion", Any),
    ("kind", Any),
    ("name", Any),
    ("uid", Any),
    ("controller", Any),
    ("blockOwnerDeletion", Any),
];
const METADATA: Fields = &[
    ("annotations", Any),
    ("creationTimestamp", Any),
    ("deletionGracePeriodSeconds", Any),
    ("deletionTimestamp", Any),
    ("finalizers", Any),
    ("generateName", Any),
    ("generation", Any),
    ("labels", Any),
    ("managedFields", Any),
    ("name", Any),
    ("namespace", Any),
    ("ownerReferences", List(OWNER)),
    ("resourceVersion", Any),
    ("selfLink", Any),
    ("uid", Any),
];
const REQUIREMENT: Fields = &[("key", Any), ("operator", Any), ("values", Any)];
const SELECTOR: Fields = &[("rawSelector", Any), ("requirements", List(REQUIREMENT))];
const RESOURCE: Fields = &[
    ("fieldSelector", Object(SELECTOR)),
    ("group", Any),
    ("labelSelector", Object(SELECTOR)),
    ("name", Any),
    ("namespace", Any),
    ("resource", Any),
    ("subresource", Any),
    ("verb", Any),
    ("version", Any),
];
const PATH: Fields = &[("path", Any), ("verb", Any)];
const SELF_SPEC: Fields =
    &[("nonResourceAttributes", Object(PATH)), ("resourceAttributes", Object(RESOURCE))];
const SUBJECT_SPEC: Fields = &[
    ("extra", Any),
    ("groups", Any),
    ("nonResourceAttributes", Object(PATH)),
    ("resourceAttributes", Object(RESOURCE)),
    ("uid", Any),
    ("user", Any),
];
/// v1beta1 says `group` (WH-13).
const SUBJECT_SPEC_V1BETA1: Fields = &[
    ("extra", Any),
    ("group", Any),
    ("nonResourceAttributes", Object(PATH)),
    ("resourceAttributes", Object(RESOURCE)),
    ("uid", Any),
    ("user", Any),
];
const RULES_SPEC: Fields = &[("namespace", Any)];
const ACCESS_STATUS: Fields = &[("allowed", Any), ("denied", Any), ("evaluationError", Any), ("reason", Any)];
const RESOURCE_RULE: Fields =
    &[("apiGroups", Any), ("resourceNames", Any), ("resources", Any), ("verbs", Any)];
const PATH_RULE: Fields = &[("nonResourceURLs", Any), ("verbs", Any)];
const RULES_STATUS: Fields = &[
    ("evaluationError", Any),
    ("incomplete", Any),
    ("nonResourceRules", List(PATH_RULE)),
    ("resourceRules", List(RESOURCE_RULE)),
];

/// The fields of a document that its kind does not have, as complaints.
pub(crate) fn unknown(document: &Value, kind: Kind, is_v1: bool) -> Vec<String> {
    let (spec, status) = match kind {
        Kind::SelfAccess => (SELF_SPEC, ACCESS_STATUS),
        Kind::SelfRules => (RULES_SPEC, RULES_STATUS),
        Kind::Local | Kind::Subject if is_v1 => (SUBJECT_SPEC, ACCESS_STATUS),
        Kind::Local | Kind::Subject => (SUBJECT_SPEC_V1BETA1, ACCESS_STATUS),
    };
    let mut complaints = Vec::new();
    let Some(fields) = document.as_object() else { return complaints };
    for (name, value) in fields {
        let path = Path::Field(&Path::Root, name);
        let shape = match name.as_str() {
            "apiVersion" | "kind" => Any,
            "metadata" => Object(METADATA),
            "spec" => Object(spec),
            "status" => Object(status),
            _ => {
                complain(&mut complaints, format_args!("unknown field \"{path}\""));
                continue;
            }
        };
        compare(value, shape, &path, &mut complaints);
    }
    complaints
}

fn compare(value: &Value, shape: Shape, path: &Path<'_>, complaints: &mut Vec<String>) {
    match (shape, value) {
        (Object(known), Value::Object(fields)) => {
            for (name, value) in fields {
                let path = Path::Field(path, name);
                match known.iter().find(|(k, _)| k == name) {
                    Some((_, shape)) => compare(value, *shape, &path, complaints),
                    None => complain(complaints, format_args!("unknown field \"{path}\"")),
                }
            }
        }
        (List(known), Value::Array(items)) => {
            for (i, item) in items.iter().enumerate() {
                compare(item, Object(known), &Path::Item(path, i), complaints);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn the_last_of_repeated_keys_wins_and_objects_merge_ap_13() {
        let (value, repeated) = decode(br#"{"a":{"x":1},"a":{"y":2},"b":[{"c":1,"c":2}],"b":3}"#).unwrap();
        assert_eq!(value, json!({"a": {"x": 1, "y": 2}, "b": 3}));
        assert_eq!(
            repeated,
            [r#"duplicate field "a""#, r#"duplicate field "b[0].c""#, r#"duplicate field "b""#]
        );
    }

    #[test]
    fn unknown_fields_are_named_by_their_path_ap_14() {
        let document = json!({"kind": "x", "zz": 1, "metadata": {"labels": {"any": "thing"}, "Name": "x"},
            "spec": {"usr": "x", "extra": {"any": ["thing"]},
                "resourceAttributes": {"fieldSelector": {"requirements": [{"key": "a", "kee": "b"}]}}}});
        let mut found = unknown(&document, Kind::Subject, true);
        found.sort();
        assert_eq!(
            found,
            [
                r#"unknown field "metadata.Name""#,
                r#"unknown field "spec.resourceAttributes.fieldSelector.requirements[0].kee""#,
                r#"unknown field "spec.usr""#,
                r#"unknown field "zz""#,
            ]
        );
        assert_eq!(unknown(&json!({"spec": {"group": []}}), Kind::Subject, true).len(), 1);
        assert_eq!(unknown(&json!({"spec": {"groups": []}}), Kind::Subject, false).len(), 1);
    }

    proptest! {
        #[test]
        fn documents_are_read_as_serde_json_reads_them(bytes in "[\\[\\]{}\",:0-9a-e\\\\ .tn-]{0,40}") {
            let theirs: Result<Value, _> = serde_json::from_str(&bytes);
            match decode(bytes.as_bytes()) {
                Err(_) => prop_assert!(theirs.is_err()),
                Ok((ours, repeated)) if repeated.is_empty() => prop_assert_eq!(ours, theirs.unwrap()),
                Ok(_) => prop_assert!(theirs.is_ok()),
            }
        }
    }
}
