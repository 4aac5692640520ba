//! Definitions and custom objects of recorded exchanges of Kubernetes 1.36, as far as they need no server: what is wrong
//! with them, and what becomes of them. Rules in CEL are left to the server, which has them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use portcullis_apimachinery::field_error::FieldErrors;
use portcullis_kinds::custom::{CustomKinds, Definition, RuleCompiler, Rules, Schema};
use portcullis_kinds::decode::{self, Problem};
use portcullis_kinds::resource::Resource;
use portcullis_kinds::resources::definitions::{DEFINITIONS, status};
use portcullis_kinds::{Map, meta};
use portcullis_testkit::recorded;
use serde_json::{Value, json};

/// Rules that always hold.
#[derive(Debug)]
struct NoRules;

impl Rules for NoRules {
    fn check(&self, _: &Schema, _: &Map, _: Option<&Map>) -> FieldErrors {
        FieldErrors::new()
    }
}

impl RuleCompiler for NoRules {
    fn compile(&self, _: &Schema, _: &str) -> Result<Box<dyn Rules>, FieldErrors> {
        Ok(Box::new(Self))
    }
}

/// The fields and reasons of errors.
type Causes = Vec<(String, String)>;

fn causes(errors: &FieldErrors) -> Causes {
    let mut causes: Causes =
        errors.iter().map(|error| (error.field.clone(), error.reason.as_str().to_owned())).collect();
    causes.sort();
    causes
}

fn recorded_causes(case: &Value) -> Causes {
    let causes = case["expect"]["body"]["details"]["causes"].as_array();
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    let mut causes: Causes =
        causes.into_iter().flatten().map(|cause| (text(cause, "field"), text(cause, "reason"))).collect();
    causes.sort();
    causes
}

/// A definition as it is stored when a client creates it, and what is wrong with it.
fn created(body: &Value) -> (Map, FieldErrors, Vec<Problem>) {
    let decoded = decode::value(body.clone(), DEFINITIONS.schema).unwrap();
    let mut definition = decoded.object;
    (DEFINITIONS.default)(&mut definition);
    DEFINITIONS.prepare_new(&mut definition);
    let mut errors = meta::validate(&definition, &DEFINITIONS);
    errors.extend(DEFINITIONS.validate_new(&definition));
    (definition, errors, decoded.problems)
}

fn is_definition(case: &Value) -> bool {
    let path = case["path"].as_str().unwrap();
    case["method"] == "POST" && path.starts_with("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
}

#[test]
fn definitions_are_right_or_wrong_as_recorded() {
    let mut differences = String::new();
    let mut count = 0;
    for topic in ["crd-invalid", "crd-definitions", "crd-versions", "crd-tables", "crd-machines"] {
        for case in recorded::lines(&format!("http/{topic}.jsonl")) {
            let code = case["expect"]["code"].as_u64().unwrap();
            let id = case["id"].as_str().unwrap();
            // What depends on rules, on other definitions, or on the request.
            if !is_definition(&case) || !matches!(code, 201 | 422) || id.starts_with("cel-") {
                continue;
            }
            count += 1;
            let (mut definition, errors, _) = created(&case["body"]);
            let wanted = if code == 422 { recorded_causes(&case) } else { Vec::new() };
            let found = causes(&errors);
            if found != wanted {
                writeln!(differences, "{topic} {id}:\n  want {wanted:?}\n  got  {found:?}").unwrap();
            }
            if code == 201 {
                definition.insert("kind".to_owned(), "CustomResourceDefinition".into());
                definition.insert("apiVersion".to_owned(), "apiextensions.k8s.io/v1".into());
                let shown = recorded::cleaned(&Value::Object(definition));
                let wanted = recorded::cleaned(&case["expect"]["body"]);
                if shown != wanted {
                    writeln!(differences, "{topic} {id}:\n  want {wanted}\n  got  {shown}").unwrap();
                }
            }
        }
    }
    assert!(count > 60, "{count}");
    assert!(differences.is_empty(), "{differences}");
}

/// Puts a definition in force.
fn define(kinds: &CustomKinds, body: &Value) {
    let (mut definition, errors, _) = created(body);
    assert!(errors.is_empty(), "{errors:?}");
    let condition = status::Condition { kind: "Established", holds: true, reason: "r", message: "m" };
    status::set(&mut definition, condition, 0);
    let name: Box<str> = meta::name(&definition).into();
    let read = Definition::read(&definition, None, 1, &NoRules).unwrap();
    kinds.change([(name, Some(read))]).unwrap();
}

/// An object as it is stored when a client creates it, what is wrong with it, and what a strict client is told.
fn object(row: &'static Resource, body: &Value) -> (Map, FieldErrors, Vec<Problem>) {
    let text = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
    let decoded = decode::json(text.as_bytes(), row.schema).unwrap();
    let (mut object, mut problems) = (decoded.object, decoded.problems);
    row.custom.unwrap().complete(&mut object, Some(&mut problems)).unwrap();
    row.prepare_new(&mut object);
    let mut errors = FieldErrors::new();
    if row.is_namespaced && meta::namespace(&object).is_empty() {
        let metadata = object.get_mut("metadata").unwrap().as_object_mut().unwrap();
        metadata.insert("namespace".to_owned(), "default".into());
    }
    errors.extend(meta::validate(&object, row));
    errors.extend(row.validate_new(&object));
    (object, errors, problems)
}

#[test]
fn objects_are_right_or_wrong_as_recorded() {
    let mut differences = String::new();
    let mut count = 0;
    for topic in ["crd-values", "crd-pruning-defaults", "crd-verbs", "crd-status-scale", "crd-machines"] {
        let kinds = CustomKinds::default();
        let mut rows: BTreeMap<String, &'static Resource> = BTreeMap::new();
        for case in recorded::lines(&format!("http/{topic}.jsonl")) {
            let (id, path) = (case["id"].as_str().unwrap(), case["path"].as_str().unwrap());
            let code = case["expect"]["code"].as_u64().unwrap();
            if is_definition(&case) && code == 201 {
                define(&kinds, &case["body"]);
                rows = kinds
                    .rows()
                    .into_iter()
                    .map(|row| (format!("{}/{}", row.api_version(), row.plural), row))
                    .collect();
                continue;
            }
            let place = path.split('?').next().unwrap();
            let mut parts = place.strip_prefix("/apis/").unwrap_or_default().split('/');
            let (group, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let rest: Vec<&str> = parts.collect();
            let plural = match rest.as_slice() {
                ["namespaces", _, plural] | [plural] => *plural,
                _ => continue,
            };
            let Some(row) = rows.get(&format!("{group}/{version}/{plural}")) else { continue };
            let text = case["body"].to_string();
            if case["method"] != "POST"
                || !matches!(code, 201 | 422)
                || text.contains("${")
                || text.contains("generateName")
            {
                continue;
            }
            // What depends on rules, on other objects, or on the query.
            let by_rule = ["machine-no-bootstrap", "validation-word"];
            if by_rule.contains(&id) {
                continue;
            }
            count += 1;
            let (found, errors, _) = object(row, &case["body"]);
            let wanted = if code == 422 { recorded_causes(&case) } else { Vec::new() };
            if causes(&errors) != wanted {
                writeln!(differences, "{topic} {id}:\n  want {wanted:?}\n  got  {:?}", causes(&errors))
                    .unwrap();
            }
            // What is stored, in the version of storage, is shown in that of the request.
            let custom = row.custom.unwrap();
            let found = custom.shown(custom.stored(found)).unwrap();
            let is_whole = case.get("pick").is_none();
            if code == 201 && is_whole && case["expect"]["body"].get("spec") != found.get("spec") {
                let wanted = &case["expect"]["body"]["spec"];
                writeln!(differences, "{topic} {id}:\n  want {wanted}\n  got  {:?}", found.get("spec"))
                    .unwrap();
            }
        }
    }
    assert!(count > 90, "{count}");
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn changing_definitions_for_ever_takes_no_further_rows() {
    let kinds = CustomKinds::default();
    let body = |maximum: i64| {
        let schema =
            json!({"type": "object", "properties": {"spec": {"type": "integer", "maximum": maximum}}});
        let version =
            json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        json!({"metadata": {"name": "tabs.a.example"}, "spec": {"group": "a.example", "scope": "Cluster",
            "names": {"plural": "tabs", "kind": "Tab"}, "versions": [version]}})
    };
    define(&kinds, &body(0));
    let row = kinds.find("a.example", "v1", "tabs").unwrap();
    let is_valid = |value: i64| {
        let body =
            json!({"apiVersion": "a.example/v1", "kind": "Tab", "metadata": {"name": "a"}, "spec": value});
        object(row, &body).1.is_empty()
    };
    for maximum in 1..1000 {
        define(&kinds, &body(maximum));
        assert!(std::ptr::eq(kinds.find("a.example", "v1", "tabs").unwrap(), row));
        // The row is that of the newest definition.
        assert!(is_valid(maximum));
        assert!(!is_valid(maximum + 1));
    }
    kinds.change([("tabs.a.example".into(), None)]).unwrap();
    assert!(kinds.find("a.example", "v1", "tabs").is_none());
    // Whoever still has the row can store nothing.
    assert!(!is_valid(1));
}
