//! Schemas and objects of many forms: what pruning, defaults and validation keep to, whatever the schema says.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::schema::Schema;
use super::{default, prune, prune_telling, values};
use crate::resources::definitions;

/// A schema of a few levels.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "default": "d"})),
        Just(json!({"type": "string", "nullable": true})),
        Just(json!({"type": "integer", "minimum": 0, "default": 1})),
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::btree_map("[a-d]", inner.clone(), 0..4)
                .prop_map(|properties| json!({"type": "object", "properties": properties})),
            prop::collection::btree_map("[a-d]", inner.clone(), 1..4).prop_map(|properties| {
                json!({"type": "object", "default": {}, "properties": properties})
            }),
            inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            inner.prop_map(|items| json!({"type": "array", "items": items})),
        ]
    })
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..5).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-f]", inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

fn whole(spec: &Value) -> Schema {
    Schema::read(json!({"type": "object", "properties": {"spec": spec}}).as_object().unwrap())
}

fn object(spec: Value) -> Map<String, Value> {
    let metadata = json!({"name": "a"});
    Map::from_iter([
        ("kind".to_owned(), "K".into()),
        ("metadata".to_owned(), metadata),
        ("spec".to_owned(), spec),
    ])
}

/// Whether every member of one value is in another, apart from those that are `null`.
fn keeps(before: &Value, after: Option<&Value>, schema: Option<&Schema>) -> bool {
    let (Some(schema), Some(after)) = (schema, after) else { return schema.is_none() };
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            before.iter().all(|(name, value)| keeps(value, after.get(name), schema.member(name)))
        }
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len()
                && before.iter().zip(after).all(|(a, b)| keeps(a, Some(b), schema.items.as_deref()))
        }
        (before, after) => before == after,
    }
}

proptest! {
    #[test]
    fn pruning_and_defaults_settle_at_once(spec in schema(), given in value()) {
        let schema = whole(&spec);
        let mut once = object(given);
        prune(&mut once, &schema);
        default(&mut once, &schema);
        prune(&mut once, &schema);
        let mut twice = once.clone();
        default(&mut twice, &schema);
        prune(&mut twice, &schema);
        prop_assert_eq!(&twice, &once);
        prop_assert!(prune_telling(&mut twice, &schema).is_empty());
    }

    #[test]
    fn pruning_never_removes_what_the_schema_has(spec in schema(), given in value()) {
        let schema = whole(&spec);
        let before = object(given);
        let mut after = before.clone();
        prune(&mut after, &schema);
        prop_assert_eq!(&after["metadata"], &before["metadata"]);
        prop_assert!(keeps(&before["spec"], after.get("spec"), schema.property("spec")));
    }

    #[test]
    fn what_is_not_changed_is_valid_in_an_update(spec in schema(), given in value()) {
        let schema = whole(&spec);
        let object = object(given);
        prop_assert!(values::validate(&object, Some(&object), &schema).is_empty());
    }

    #[test]
    fn no_definition_stops_its_validation(spec in value()) {
        let names = json!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": spec}});
        let definition = json!({"metadata": {"name": "as.b.c"}, "spec": {"group": "b.c", "names": names,
            "scope": "Cluster", "versions": [version]}, "status": {"storedVersions": ["v1"]}});
        let _ = definitions::validate(definition.as_object().unwrap(), None);
    }
}

#[test]
fn errors_name_fields_as_kubernetes_does() {
    let schema = whole(&json!({"type": "object", "required": ["mode"], "properties": {
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "limits": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
        "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    }}));
    for (spec, expected) in [
        (json!({}), &[("spec.mode", "FieldValueRequired")][..]),
        (json!({"mode": "x"}), &[("spec.mode", "FieldValueNotSupported")]),
        (
            json!({"mode": 1}),
            &[("spec.mode", "FieldValueTypeInvalid"), ("spec.mode", "FieldValueNotSupported")],
        ),
        (json!({"mode": "fast", "tags": ["a", 1]}), &[("spec.tags[1]", "FieldValueTypeInvalid")]),
        (json!({"mode": "fast", "tags": ["a", "b", "c"]}), &[("spec.tags", "FieldValueTooMany")]),
        (json!({"mode": "fast", "limits": {"a": -1}}), &[("spec.limits.a", "FieldValueInvalid")]),
        (
            json!({"mode": "fast", "one": {}}),
            &[("<nil>", "FieldValueInvalid"), ("spec.one.a", "FieldValueRequired")],
        ),
        (json!({"mode": "fast", "one": {"a": "1"}}), &[]),
    ] {
        let errors = values::validate(&object(spec.clone()), None, &schema);
        let found: Vec<(&str, &str)> = errors.iter().map(|e| (e.field.as_str(), e.reason.as_str())).collect();
        assert_eq!(found, expected, "{spec}");
    }
}

#[test]
fn an_object_with_too_many_alternatives_is_refused_and_not_checked_for_ever() {
    let alternatives: Vec<Value> = (0..300).map(|at| json!({"minLength": at + 1000})).collect();
    let schema = whole(&json!({"type": "array", "items": {"type": "string", "anyOf": alternatives}}));
    let entries: Vec<Value> = (0..100_000).map(|_| "x".into()).collect();
    let errors = values::validate(&object(entries.into()), None, &schema);
    assert!(!errors.is_empty());
}

/// Writes of such kinds have a thread of their own: a small object can be checked for long.
#[test]
fn patterns_and_many_alternatives_are_costly() {
    let values: Vec<u32> = (0..300).collect();
    let few: Vec<u32> = (0..30).collect();
    let alternatives: Vec<Value> = (0..300).map(|at| json!({"minimum": at})).collect();
    for (schema, expected) in [
        (json!({"type": "string", "pattern": "^a$"}), true),
        (json!({"type": "object", "additionalProperties": {"type": "string", "pattern": "a"}}), true),
        (json!({"type": "array", "items": {"type": "integer", "enum": values}}), true),
        (json!({"type": "integer", "anyOf": alternatives}), true),
        (json!({"type": "integer", "not": {"allOf": [{"pattern": "a"}]}}), true),
        (json!({"type": "integer", "enum": few}), false),
        (json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}), false),
    ] {
        let read = Schema::read(schema.as_object().unwrap());
        assert_eq!(read.is_costly(), expected, "{schema}");
    }
}
