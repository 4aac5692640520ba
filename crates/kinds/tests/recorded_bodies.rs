//! The bodies of recorded requests and answers are read as Kubernetes reads and prints them.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use portcullis_kinds::decode::{self, DecodeError, Decoded};
use portcullis_kinds::schema::{self, Type};
use portcullis_testkit::recorded;
use serde_json::Value;

/// Every recorded exchange.
fn exchanges() -> Vec<(String, Value)> {
    let names = recorded::exchanges().into_iter();
    names.flat_map(|name| recorded::lines(&name).into_iter().map(move |line| (name.clone(), line))).collect()
}

fn type_of(document: &Value) -> Option<&'static Type> {
    schema::find(document["apiVersion"].as_str()?, document["kind"].as_str()?)
}

/// The documents of an answer: itself, or the items of a list with the type that the list says.
fn documents(answer: &Value) -> Vec<(&'static Type, Value)> {
    if let Some(ty) = type_of(answer) {
        return vec![(ty, answer.clone())];
    }
    let (Some(version), Some(kind)) = (answer["apiVersion"].as_str(), answer["kind"].as_str()) else {
        return Vec::new();
    };
    let ty = kind.strip_suffix("List").and_then(|kind| schema::find(version, kind));
    let items = answer["items"].as_array().into_iter().flatten();
    items.filter_map(|item| Some((ty?, item.clone()))).collect()
}

/// What a recorded request holds, where its kind is known.
fn request(line: &Value) -> Option<(&'static Type, Result<Decoded, DecodeError>)> {
    let is_write = matches!(line["method"].as_str()?, "POST" | "PUT");
    let is_json =
        line["headers"]["Content-Type"].as_str().is_none_or(|media| media.starts_with("application/json"));
    let body = line.get("body").filter(|_| is_write && is_json)?;
    match body {
        Value::String(text) => {
            let ty = type_of(&serde_json::from_str(text).ok()?)?;
            Some((ty, decode::json(text.as_bytes(), ty)))
        }
        body => type_of(body).map(|ty| (ty, decode::value(body.clone(), ty))),
    }
}

/// Some recordings show what was applied, with words in place of the times.
fn has_masked_times(document: &Value) -> bool {
    let entries = document["metadata"]["managedFields"].as_array();
    entries.into_iter().flatten().any(|entry| entry["time"] == "<time>")
}

#[test]
fn what_kubernetes_printed_is_printed_the_same_ap_136() {
    let mut documents_seen = 0;
    // Of what is compared as a subset only a part was recorded.
    for (name, line) in exchanges().into_iter().filter(|(_, line)| line["compare"] != "subset") {
        for (ty, document) in documents(&line["expect"]["body"]) {
            if has_masked_times(&document) {
                continue;
            }
            let decoded =
                decode::value(document.clone(), ty).unwrap_or_else(|e| panic!("{name} {}: {e}", line["id"]));
            assert_eq!(decoded.problems, [], "{name} {}", line["id"]);
            assert_eq!(
                recorded::cleaned(&decoded.object.into()),
                recorded::cleaned(&document),
                "{name} {}",
                line["id"]
            );
            documents_seen += 1;
        }
    }
    assert!(documents_seen > 100, "{documents_seen}");
}

#[test]
fn what_kubernetes_took_is_taken_ap_11() {
    let mut requests = 0;
    for (name, line) in exchanges() {
        let Some((_, decoded)) = request(&line) else { continue };
        requests += 1;
        if let Err(error) = decoded {
            assert_eq!(line["expect"]["code"], 400, "{name} {}: {error}", line["id"]);
        }
    }
    assert!(requests > 100, "{requests}");
}

#[test]
fn strict_requests_have_problems_when_kubernetes_found_some_ap_14() {
    let mut requests = 0;
    for (name, line) in exchanges() {
        let is_strict = line["path"].as_str().unwrap().contains("fieldValidation=Strict");
        let Some((_, Ok(decoded))) = request(&line).filter(|_| is_strict) else { continue };
        requests += 1;
        let is_refused = line["expect"]["code"] == 400;
        assert_eq!(!decoded.problems.is_empty(), is_refused, "{name} {}: {:?}", line["id"], decoded.problems);
    }
    assert!(requests > 0);
}

/// The documents that Kubernetes refused for their shape alone.
const MISSHAPEN: &[(&str, &[&str])] = &[
    ("http/bodies.jsonl", &["not-json", "array", "string", "number", "trailing-garbage"]),
    ("http/core-objects.jsonl", &["secret-bad-base64", "cm-number-value"]),
    (
        "http/csr-create-fields.jsonl",
        &["us-string", "sg-number", "ex-min-minus-1", "ex-float", "ex-exponent"],
    ),
    ("http/csr-create-request.jsonl", &["not-base64", "base64-url-alphabet", "number", "list-of-strings"]),
    ("http/leases-misc.jsonl", &["lease-bad-time", "lease-time-seconds"]),
    ("http/pods-invalid.jsonl", &["string-for-int", "int-for-string", "bad-quantity", "list-for-object"]),
];

#[test]
fn what_kubernetes_refused_for_its_shape_is_refused_ap_11() {
    for (name, ids) in MISSHAPEN {
        let lines = recorded::lines(name);
        for id in *ids {
            let line = lines.iter().find(|line| line["id"] == *id).unwrap();
            assert_eq!(line["expect"]["code"], 400);
            let text = match &line["body"] {
                Value::String(text) => text.clone(),
                body => body.to_string(),
            };
            let body: Value = serde_json::from_str(&text).unwrap_or_default();
            let ty = type_of(&body).unwrap_or(&schema::core::CONFIG_MAP);
            assert!(decode::json(text.as_bytes(), ty).is_err(), "{name} {id}");
        }
    }
}
