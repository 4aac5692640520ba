//! The strict check of JSON, against what Kubernetes and `serde_json` make of the same texts.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use portcullis_apimachinery::json::{self, JsonError, MAX_DEPTH};
use proptest::prelude::*;
use serde_json::Value;

fn refused(text: &str) -> JsonError {
    json::check(text).expect_err(text)
}

#[test]
fn a_key_given_twice_is_refused_with_its_path() {
    let error = refused("{\"items\": [\n {},\n {\"spec\": {\"nodeName\": \"a\",\n \"nodeName\": \"b\"}}]}");
    assert_eq!((error.path.as_str(), error.line), ("items[1].spec.nodeName", 4));
    assert!(error.reason.contains("twice"), "{error}");
}

#[test]
fn keys_that_differ_only_in_their_spelling_are_the_same_key() {
    assert_eq!(refused(r#"{"kind":1,"k\u0069nd":2}"#).path, "kind");
    assert!(json::check(r#"{"kind":1,"Kind":2}"#).is_ok());
}

#[test]
fn the_same_key_in_different_objects_is_no_repetition() {
    for text in [r#"{"a":{"a":{"a":1}},"b":{"a":[{"a":1},{"a":2}]}}"#, r#"[{"a":1},{"a":2}]"#] {
        assert_eq!(json::check(text), Ok(()));
    }
}

#[test]
fn a_repetition_among_many_keys_is_found_wherever_it_stands() {
    for many in [3, 15, 16, 17, 18, 40, 1000] {
        let keys: Vec<String> = (0..many).map(|i| format!("\"k{i}\":{{\"k0\":{i}}}")).collect();
        assert_eq!(json::check(&format!("{{{}}}", keys.join(","))), Ok(()));
        for twice in [0, many / 2, many - 1] {
            let text = format!("{{{},\"k{twice}\":0}}", keys.join(","));
            assert_eq!(refused(&text).path, format!("k{twice}"));
        }
    }
}

#[test]
fn nesting_is_bounded_at_every_kind_of_bracket() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        assert_eq!(json::check(&nested(MAX_DEPTH)), Ok(()));
        assert!(refused(&nested(MAX_DEPTH + 1)).reason.contains("deeper"));
        assert!(refused(&open.repeat(1_000_000)).reason.contains("deeper"));
    }
}

#[test]
fn what_follows_the_value_is_refused() {
    for text in ["{} {}", "{},", "1 2", "null x", "{}\u{0}"] {
        assert!(refused(text).reason.contains("trailing"), "{text}");
    }
    assert_eq!(json::check(" {} \n\t\r\n"), Ok(()));
}

#[test]
fn a_text_cut_short_names_the_field_where_it_ends() {
    let text = r#"{"a":{"b":[{"c":"deep"}]}}"#;
    for cut in 0..text.len() {
        refused(&text[..cut]);
    }
    assert_eq!(refused(r#"{"a":{"b":[{"c":"de"#).path, "a.b[0].c");
    assert_eq!(refused(r#"{"a":{"b":["#).path, "a.b");
    assert_eq!(refused("").path, "");
}

#[test]
fn bytes_that_are_not_text_are_refused_with_their_position() {
    let error = json::check_bytes(b"{\"a\":\n \"x\xff\"}").unwrap_err();
    assert_eq!((error.line, error.column), (2, 4));
    assert!(error.reason.contains("0xff"), "{error}");
    assert!(json::check_bytes(b"\xff\xfe{\0}\0").unwrap_err().reason.contains("UTF-16"));
    assert_eq!(json::check_bytes("{\"ä\":1}".as_bytes()), Ok("{\"ä\":1}"));
}

#[test]
fn the_type_of_the_outermost_object_alone_is_picked() {
    let of = |text| {
        let found = json::type_meta(text).unwrap();
        (found.api_version.map(String::from), found.kind.map(String::from))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(r#"{"kind":"Pod","apiVersion":"v1"}"#), (some("v1"), some("Pod")));
    assert_eq!(of(r#"{"kind":"P\u006fd","x":{"apiVersion":"v1"}}"#), (None, some("Pod")));
    assert_eq!(of(r#"{"kind":{"kind":"Pod"},"apiVersion":["v1"],"a":"b"}"#), (None, None));
    assert_eq!(of(r#"{"kind":null,"apiVersion":7,"metadata":{"name":"x"}}"#), (None, None));
    assert_eq!(of(r#"[{"kind":"Pod","apiVersion":"v1"}]"#), (None, None));
}

#[test]
fn an_error_within_a_larger_text_is_placed_there() {
    let outer = "{\"items\":[\n{},\n{\"a\":\n1,\"a\":2}]}";
    let start = outer.rfind('{').unwrap();
    let error = refused(&outer[start..outer.len() - 2]).within(outer, start, "items[1]");
    assert_eq!((error.path.as_str(), error.line), ("items[1].a", 4));
    assert_eq!(refused("[1,]").within("[1,]", 0, "x").path, "x");
    assert_eq!(refused("[[x]]").within("[[x]]", 0, "x").path, "x[0][0]");
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::from),
            prop::collection::hash_map("\\PC{0,3}", inner, 0..20)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_serde_json_writes_passes(value in values()) {
        prop_assert_eq!(json::check(&value.to_string()), Ok(()));
        prop_assert_eq!(json::check(&serde_json::to_string_pretty(&value).unwrap()), Ok(()));
    }

    #[test]
    fn whatever_passes_is_json_to_serde_json(text in "[\\[\\]{}:,\"a1 -]{0,24}") {
        if json::check(&text).is_ok() {
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
        } else if let Ok(value) = serde_json::from_str::<Value>(&text) {
            // Only a repeated key is refused here and accepted there; then the value read has fewer keys.
            prop_assert!(value.to_string().matches(':').count() < text.matches(':').count());
        }
    }

    #[test]
    fn any_bytes_are_refused_or_text(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        match json::check_bytes(&bytes) {
            Ok(text) => prop_assert_eq!(text.as_bytes(), &bytes[..]),
            Err(error) => prop_assert!(error.offset <= bytes.len() && error.line >= 1),
        }
    }
}
