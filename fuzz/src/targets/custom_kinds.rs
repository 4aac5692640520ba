//! Definitions of custom kinds, and objects of them.

use portcullis_apimachinery::field_error::FieldErrors;
use portcullis_kinds::custom::{self, RuleCompiler, Rules, Schema};
use portcullis_kinds::{Map, decode, resources::definitions};
use serde_json::{Value, json};

pub(super) const CUSTOM: &[&str] = &[
    "{\"type\":\"object\",",
    "\"properties\":{",
    "\"additionalProperties\":{",
    "\"items\":{",
    "\"default\":",
    "\"nullable\":true",
    "\"pattern\":\"^[a-z]+$\"",
    "\"format\":\"date-time\"",
    "\"enum\":[",
    "\"anyOf\":[",
    "\"x-kubernetes-preserve-unknown-fields\":true",
    "\"x-kubernetes-embedded-resource\":true",
    "\"x-kubernetes-int-or-string\":true",
    "\"x-kubernetes-list-type\":\"map\",",
    "\"x-kubernetes-list-map-keys\":[\"k\"]",
    "\n",
];

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

/// The first line is a schema, the second an object.
pub(super) fn custom_kind(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let (first, second) = text.split_once('\n').unwrap_or((text, "{}"));
    let Ok(schema) = serde_json::from_str::<Value>(first) else { return false };
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"plural": "as", "kind": "A"});
    let definition = json!({"metadata": {"name": "as.b.c"},
        "spec": {"group": "b.c", "names": names, "scope": "Cluster", "versions": [version]}});
    let Ok(decoded) = decode::value(definition, definitions::DEFINITIONS.schema) else { return false };
    let mut definition = decoded.object;
    (definitions::DEFINITIONS.default)(&mut definition);
    definitions::DEFINITIONS.prepare_new(&mut definition);
    if !definitions::validate_with(&definition, None, &NoRules).is_empty() {
        return false;
    }
    let Ok(Value::Object(mut object)) = serde_json::from_str(second) else { return false };
    let spec = definition.get("spec").expect("a valid definition has a specification");
    let schema = spec.pointer("/versions/0/schema/openAPIV3Schema").and_then(Value::as_object);
    let schema = Schema::read(schema.expect("a valid definition has a schema"));
    custom::prune(&mut object, &schema);
    custom::default(&mut object, &schema);
    let _ = custom::validate(&object, None, &schema);
    let settled = object.clone();
    custom::default(&mut object, &schema);
    custom::prune(&mut object, &schema);
    assert_eq!(object, settled, "pruning and defaults settle at once");
    assert!(custom::validate(&object, Some(&object), &schema).is_empty(), "what has not changed stays valid");
    true
}
