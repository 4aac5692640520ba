//! Converts YAML to JSON text with the same objects on the same lines.
//!
//! The rest of the code reads only JSON, and its errors refer to the lines of the YAML file. Scalars are resolved as
//! Kubernetes resolves them: `yes` and `on` are booleans and `0755` is octal unless quoted.

use std::collections::HashSet;
use std::{fmt, panic, thread};

use kinds::decode::{Document, MAX_VALUES};
use portcullis_apimachinery::json::{JsonError, MAX_DEPTH};
use portcullis_apimachinery::quote::Quoted;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options, Spanned};

/// The maximum size of the texts of a request body in bytes, each counted as often as aliases repeat it: the same as of a
/// body without aliases.
const MAX_BODY_TEXT: usize = 3 * 1024 * 1024;
/// The stack of the thread that parses, in bytes. A document of [`MAX_DEPTH`] levels takes up to half a megabyte of it, and up
/// to three megabytes without optimisation.
const STACK_BYTES: usize = 8 << 20;

/// Converts YAML documents of an operator's file to JSON; empty documents are left out.
///
/// # Errors
/// The text is not YAML, a key occurs twice, or it is deeper, larger or has more aliases than any cluster prints.
pub fn to_json(text: &str) -> Result<String, JsonError> {
    convert(text, Bounds { nodes: 50_000_000, text: 1 << 28 })
}

/// Like [`to_json`], for the body of a request. What its aliases stand for counts as if it were written out (AP-10).
///
/// # Errors
/// As [`to_json`], or it would be larger without aliases than a body may be.
pub(crate) fn body_to_json(text: &str) -> Result<String, JsonError> {
    convert(text, Bounds { nodes: MAX_VALUES.saturating_mul(2), text: MAX_BODY_TEXT })
}

/// The first document of an applied configuration.
pub(crate) struct First {
    /// The document, with the last of duplicate keys; `null` if there is none.
    pub(crate) value: Value,
    /// Its duplicate keys, in the words of Kubernetes.
    pub(crate) duplicates: Vec<String>,
}

/// Reads the first YAML document of a request body, with the bounds of [`body_to_json`]. Duplicate keys are allowed.
///
/// # Errors
/// As [`body_to_json`], apart from duplicate keys.
pub(crate) fn first_document(text: &str) -> Result<First, JsonError> {
    match read_as_json(text) {
        Some(value) => Ok(First { value, duplicates: Vec::new() }),
        None => read_as_yaml(text),
    }
}

/// Reads a document that YAML 1.1 and JSON read alike: an object of printable ASCII, as most clients apply it. The YAML parser
/// needs many times as long.
fn read_as_json(text: &str) -> Option<Value> {
    let is_printable = |byte: u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r');
    // YAML has no surrogate pairs.
    if !text.starts_with('{') || !text.bytes().all(is_printable) || text.contains("\\u") {
        return None;
    }
    Document::parse(text.as_bytes()).ok()?.untyped()
}

fn read_as_yaml(text: &str) -> Result<First, JsonError> {
    let bounds = Bounds { nodes: MAX_VALUES.saturating_mul(2), text: MAX_BODY_TEXT };
    let documents = parse(text, bounds, DuplicateKeyPolicy::PassThrough)?;
    let Some(document) = documents.first() else {
        return Ok(First { value: Value::Null, duplicates: Vec::new() });
    };
    let mut duplicates = Vec::new();
    find_duplicates(&document.value, &mut duplicates);
    let mut writer = Writer { json: String::with_capacity(text.len()), line: 1 };
    writer.value(document);
    let value = serde_json::from_str(&writer.json);
    let value = value.map_err(|error| JsonError::of_decoding(&writer.json, &error))?;
    Ok(First { value, duplicates })
}

/// The maximum number of duplicate keys that are told.
const MAX_DUPLICATES: usize = 100;

fn find_duplicates(value: &Yaml, found: &mut Vec<String>) {
    match value {
        Yaml::List(items) => items.iter().for_each(|item| find_duplicates(&item.value, found)),
        Yaml::Map(entries) => {
            let mut seen = HashSet::with_capacity(entries.len());
            for (Key { line, name }, value) in entries {
                if !seen.insert(name) && found.len() < MAX_DUPLICATES {
                    found.push(format!("line {line}: key {} already set in map", Quoted(name)));
                }
                find_duplicates(&value.value, found);
            }
        }
        _ => {}
    }
}

fn convert(text: &str, bounds: Bounds) -> Result<String, JsonError> {
    let documents = parse(text, bounds, DuplicateKeyPolicy::Error)?;
    let mut writer = Writer { json: String::with_capacity(text.len()), line: 1 };
    for document in &documents {
        writer.value(document);
        writer.json.push(' ');
    }
    Ok(writer.json)
}

/// Parses on a thread of its own, whose stack holds documents of the maximum depth however the program was compiled. Without
/// optimisation they need more than the threads of a server have.
fn parse(text: &str, bounds: Bounds, duplicate_keys: DuplicateKeyPolicy) -> Result<Vec<Node>, JsonError> {
    let read = || {
        let mut options = options(bounds);
        options.duplicate_keys = duplicate_keys;
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
            let line = error.location().map_or(1, |location| usize::try_from(location.line()).unwrap_or(0));
            let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
            JsonError::at(text, start.saturating_add(1), "", reason(&error))
        })
    };
    let parsed = thread::scope(|scope| {
        let parsing = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, read);
        parsing.map(thread::ScopedJoinHandle::join)
    });
    match parsed {
        Ok(Ok(parsed)) => parsed,
        Ok(Err(panicked)) => panic::resume_unwind(panicked),
        Err(error) => Err(JsonError::at(text, 0, "", format!("YAML cannot be read now: {error}"))),
    }
}

/// Returns the error in the same words as for JSON.
fn reason(error: &Error) -> String {
    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key {key} is given twice"),
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            format!("nested deeper than {MAX_DEPTH} levels")
        }
        Error::Budget { .. } => {
            "too large, or too many aliases: write it as JSON, or without aliases".to_owned()
        }
        error => format!("not valid YAML: {}", error.without_snippet()),
    }
}

/// How much YAML may contain after the aliases are replaced by what they stand for.
struct Bounds {
    /// The number of lists, maps, keys and plain values.
    nodes: usize,
    /// The size of the keys and plain values in bytes.
    text: usize,
}

/// Limits far above what a cluster prints and far below what exhausts a machine.
fn options(Bounds { nodes, text }: Bounds) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_events: 100_000_000,
            max_nodes: nodes,
            max_documents: 1_000_000,
            max_total_scalar_bytes: text,
            max_aliases: 10_000,
            max_anchors: 10_000,
        },
        legacy_octal_numbers: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// A YAML value and its line, from 1.
struct Node {
    line: usize,
    value: Yaml,
}

enum Yaml {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a map, as text, with its line. An unquoted one is resolved like a value, so `y` is the key `true`, as in
/// Kubernetes.
struct Key {
    line: usize,
    name: String,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Node { line, value } = Node::deserialize(deserializer)?;
        let name = match value {
            Yaml::Bool(value) => value.to_string(),
            Yaml::Signed(value) => value.to_string(),
            Yaml::Unsigned(value) => value.to_string(),
            Yaml::Float(value) => value.to_string(),
            Yaml::Text(value) => value,
            Yaml::Null | Yaml::List(_) | Yaml::Map(_) => {
                return Err(D::Error::custom("a key must be text, a number or a boolean"));
            }
        };
        Ok(Self { line, name })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Yaml>::deserialize(deserializer)?;
        let line = usize::try_from(spanned.referenced.line()).unwrap_or(0);
        Ok(Self { line, value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct YamlVisitor;
        impl<'de> Visitor<'de> for YamlVisitor {
            type Value = Yaml;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value that JSON has too")
            }

            fn visit_unit<E>(self) -> Result<Yaml, E> {
                Ok(Yaml::Null)
            }

            fn visit_none<E>(self) -> Result<Yaml, E> {
                Ok(Yaml::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Yaml, E> {
                Ok(Yaml::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Yaml, E> {
                Ok(Yaml::Signed(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Yaml, E> {
                Ok(Yaml::Unsigned(value))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Yaml, E> {
                Ok(Yaml::Float(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Yaml, E> {
                Ok(Yaml::Text(value.to_owned()))
            }

            fn visit_string<E>(self, value: String) -> Result<Yaml, E> {
                Ok(Yaml::Text(value))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Yaml, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Yaml::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Yaml, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Yaml::Map(entries))
            }
        }
        deserializer.deserialize_any(YamlVisitor)
    }
}

/// Writes JSON with the line breaks of the YAML.
struct Writer {
    json: String,
    line: usize,
}

impl Writer {
    fn value(&mut self, node: &Node) {
        while self.line < node.line {
            self.json.push('\n');
            self.line = self.line.saturating_add(1);
        }
        match &node.value {
            Yaml::Null => self.json.push_str("null"),
            Yaml::Bool(value) => self.json.push_str(if *value { "true" } else { "false" }),
            Yaml::Signed(value) => self.json.push_str(&value.to_string()),
            Yaml::Unsigned(value) => self.json.push_str(&value.to_string()),
            Yaml::Float(value) => self.json.push_str(&serde_json::Value::from(*value).to_string()),
            Yaml::Text(value) => self.text(value),
            Yaml::List(items) => {
                self.json.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.comma(index);
                    self.value(item);
                }
                self.json.push(']');
            }
            Yaml::Map(entries) => {
                self.json.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    self.comma(index);
                    self.text(&key.name);
                    self.json.push(':');
                    self.value(value);
                }
                self.json.push('}');
            }
        }
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.json.push(',');
        }
    }

    fn text(&mut self, text: &str) {
        self.json.push_str(&serde_json::Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Texts that mean something in YAML, if they are not quoted, and others.
    fn text() -> impl Strategy<Value = String> {
        let special = [
            "yes",
            "off",
            "~",
            "null",
            "<<",
            "0755",
            "1e3",
            "1:30",
            ".inf",
            "2026-11-27",
            "---",
            "...",
            "# a",
            "a: b",
            "- a",
            "&a",
            "*a",
            "!!str",
            "%YAML",
            "\\",
            "\"",
            "/",
            "\u{8}",
            "\t",
            " \n ",
            "'",
            "",
            " ",
            "?",
            "|",
            ">",
        ];
        prop_oneof![prop::sample::select(special.to_vec()).prop_map(str::to_owned), "[ -~\n\r\t]{0,12}"]
    }

    fn value() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-20_i64..20).prop_map(Value::from),
            text().prop_map(Value::from),
        ];
        plain.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(text(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_is_read_as_yaml_would_read_it(value in value(), is_pretty in any::<bool>()) {
            let object = json!({"kind": value});
            let text = match is_pretty {
                true => serde_json::to_string_pretty(&object).unwrap(),
                false => object.to_string(),
            };
            if let Some(read) = read_as_json(&text) {
                let as_yaml = read_as_yaml(&text).unwrap();
                prop_assert_eq!(&read, &as_yaml.value);
                prop_assert!(as_yaml.duplicates.is_empty());
                prop_assert_eq!(read, object);
            } else {
                prop_assert!(text.contains("\\u"));
            }
        }
    }

    #[test]
    fn the_deepest_document_needs_little_of_the_stack_of_the_caller() {
        let nested = |depth: usize| format!("a: {}1{}\n", "{\"a\":".repeat(depth), "}".repeat(depth));
        let on_small_stack = |text: String| {
            let reading = thread::Builder::new().stack_size(512 << 10).spawn(move || to_json(&text));
            reading.unwrap().join().unwrap()
        };
        let json = on_small_stack(nested(MAX_DEPTH - 2)).unwrap();
        assert_eq!(json.matches("{\"a\":").count(), MAX_DEPTH - 1);
        for depth in [MAX_DEPTH + 1, 10 * MAX_DEPTH] {
            let error = on_small_stack(nested(depth)).unwrap_err();
            assert!(error.reason.contains("nested deeper than 64 levels"), "{}", error.reason);
        }
    }

    #[test]
    fn what_yaml_reads_in_another_way_than_json_is_left_to_it() {
        for text in [
            "{\"a\": 1, \"a\": 2}",
            "{\"a\": 1.0}",
            "{\"a\": 1e3}",
            "{\"a\": -0}",
            "{\"a\": \"\\u00e9\"}",
            "{\"a\": \"\u{e9}\"}",
            "{a: 1}",
            "{\"a\": 1}\n---\nb: 1",
            "{\"a\":\t1}",
            "[1]",
            "a: 1",
            "{\"a\": 18446744073709551616}",
            "",
            "{",
        ] {
            assert_eq!(read_as_json(text), None, "{text}");
        }
        assert_eq!(read_as_json("{\"a\": {\"b\": [1, \"x\\n\"]}}\n"), Some(json!({"a": {"b": [1, "x\n"]}})));
    }
}
