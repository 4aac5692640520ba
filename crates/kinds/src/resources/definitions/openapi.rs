//! Validates schemas in definitions: forbidden keywords, and keywords that depend on each other. The rules of structural
//! schemas are in `structural`.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashSet};

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use crate::Map;
use crate::custom::{FieldPath, JsonType, Schema, compile_pattern};
use crate::fields::{ErrorList, Errors, Members};

/// The reasons that rules can give.
const REASONS: [&str; 4] =
    ["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"];
/// The members that all API objects have.
const OF_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// Forbidden keywords, and their errors.
const FORBIDDEN: [(&str, &str); 5] = [
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
];

/// The position of a schema.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    is_root: bool,
    /// Within the metadata of an object.
    is_in_metadata: bool,
    /// Within the metadata of the whole object, which has no defaults.
    has_no_defaults: bool,
}

/// Adds what is wrong with a schema at a path. Returns whether the schema can be read.
pub(super) fn check(props: &Map, path: &str, errors: &mut Errors) -> bool {
    let mut walk = Walk { errors, is_unreadable: false };
    walk.check(props, path, Place { is_root: true, ..Place::default() });
    !walk.is_unreadable
}

struct Walk<'e> {
    errors: &'e mut Errors,
    /// Whether something is there that has no meaning.
    is_unreadable: bool,
}

impl Walk<'_> {
    fn forbid(&mut self, path: &str, name: &str, detail: &str) {
        self.errors.push(FieldError::forbidden(format!("{path}.{name}"), detail));
    }

    fn check(&mut self, props: &Map, path: &str, place: Place) {
        self.keywords(props, path, place);
        self.members(props, path, place);
        let flag = props.flag("x-kubernetes-preserve-unknown-fields");
        self.errors.push_if(flag == Some(false), || {
            let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
            FieldError::invalid(field, "false", "must be true or undefined")
        });
        self.map_type(props, path);
        self.list_type(props, path);
        self.unique_keys(props, path);
        // Only if a rule has a path.
        let schema = LazyCell::new(|| Schema::read(props));
        for (at, rule) in props.objects("x-kubernetes-validations").enumerate() {
            self.rule(rule, &schema, &format!("{path}.x-kubernetes-validations[{at}]"));
        }
    }

    fn keywords(&mut self, props: &Map, path: &str, place: Place) {
        if place.has_no_defaults && props.has("default") {
            self.forbid(path, "default", "must not be set in top-level metadata");
        }
        for (name, detail) in FORBIDDEN {
            if props.has(name) && props.get(name) != Some(&Value::from("")) {
                self.is_unreadable = true;
                self.forbid(path, name, detail);
            }
        }
        if props.has("$ref") {
            self.is_unreadable = true;
            self.forbid(path, "$ref", "$ref is not supported");
        }
        if props.text("type") == "null" {
            self.is_unreadable = true;
            self.forbid(path, "type", "type cannot be set to null, use nullable as an alternative");
        } else {
            let kind = props.text("type");
            self.errors.push_if(!kind.is_empty() && JsonType::named(kind).is_none(), || {
                FieldError::not_supported(format!("{path}.type"), quoted(kind), &JsonType::NAMES)
            });
        }
        if props.get("items").is_some_and(Value::is_array) {
            self.is_unreadable = true;
            self.forbid(path, "items", "items must be a schema object and not an array");
        }
        if place.is_in_metadata && props.is_true("x-kubernetes-embedded-resource") {
            self.forbid(path, "x-kubernetes-embedded-resource", "must not be used inside of resource meta");
        }
        let pattern = props.text("pattern");
        if let Some(why) =
            Some(pattern).filter(|text| !text.is_empty()).and_then(|text| compile_pattern(text).err())
        {
            let detail = format!("must be a valid regular expression, but isn't: {why}");
            self.errors.push(FieldError::invalid(format!("{path}.pattern"), quoted(pattern), detail));
        }
        for name in ["maximum", "minimum", "multipleOf"] {
            let value = props.get(name).filter(|value| !value.is_null() && !value.is_number());
            let wrong =
                value.map(|value| FieldError::invalid(format!("{path}.{name}"), value, "must be a number"));
            self.errors.extend(wrong);
        }
        if props.is_true("uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbid(path, "uniqueItems", detail);
        }
        let additional = props.get("additionalProperties");
        let is_open = matches!(additional, None | Some(Value::Null | Value::Bool(true)));
        if !is_open && !props.object("properties").is_empty() {
            self.forbid(
                path,
                "additionalProperties",
                "additionalProperties and properties are mutual exclusive",
            );
        }
    }

    fn members(&mut self, props: &Map, path: &str, place: Place) {
        let below = Place { is_root: false, ..place };
        if let Some(additional) = props.object_if_set("additionalProperties") {
            self.check(additional, &format!("{path}.additionalProperties"), below);
        }
        for (name, schema) in props.object("properties") {
            let Some(schema) = schema.as_object() else { continue };
            let is_object = place.is_root || props.is_true("x-kubernetes-embedded-resource");
            let mut within = below;
            if is_object && OF_OBJECTS.contains(&name.as_str()) {
                within.is_in_metadata = true;
                within.has_no_defaults |= place.is_root;
            }
            self.check(schema, &format!("{path}.properties[{name}]"), within);
        }
        if let Some(not) = props.object_if_set("not") {
            self.check(not, &format!("{path}.not"), below);
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            for (at, schema) in props.objects(name).enumerate() {
                self.check(schema, &format!("{path}.{name}[{at}]"), below);
            }
        }
        match props.get("items") {
            Some(Value::Object(items)) => self.check(items, &format!("{path}.items"), below),
            Some(Value::Array(entries)) => {
                for (at, schema) in entries.iter().filter_map(Value::as_object).enumerate() {
                    self.check(schema, &format!("{path}.items[{at}]"), below);
                }
            }
            _ => {}
        }
    }

    fn map_type(&mut self, props: &Map, path: &str) {
        const NAME: &str = "x-kubernetes-map-type";
        let Some(map_type) = props.get(NAME).and_then(Value::as_str) else { return };
        self.require_type(props, path, "object", NAME);
        self.errors.push_if(!["atomic", "granular"].contains(&map_type), || {
            FieldError::not_supported(format!("{path}.{NAME}"), quoted(map_type), &["atomic", "granular"])
        });
    }

    fn require_type(&mut self, props: &Map, path: &str, wanted: &str, by: &str) {
        let (field, detail) = (format!("{path}.type"), format!("must be {wanted} if {by} is specified"));
        match props.text("type") {
            "" => self.errors.push(FieldError::required(field, detail)),
            kind => {
                self.errors.push_if(kind != wanted, || FieldError::invalid(field, quoted(kind), detail));
            }
        }
    }

    fn list_type(&mut self, props: &Map, path: &str) {
        const NAME: &str = "x-kubernetes-list-type";
        const KEYS: &str = "x-kubernetes-list-map-keys";
        const KNOWN: [&str; 3] = ["atomic", "set", "map"];
        let list_type = props.get(NAME).and_then(Value::as_str);
        let items = props.object_if_set("items");
        if let Some(list_type) = list_type {
            if props.text("type") == "array" {
                if let Some(items) = items.filter(|_| list_type == "set") {
                    self.set_items(items, path);
                }
            } else {
                self.require_type(props, path, "array", NAME);
            }
            self.errors.push_if(!KNOWN.contains(&list_type), || {
                FieldError::not_supported(format!("{path}.{NAME}"), quoted(list_type), &KNOWN)
            });
        }
        let keys = props.texts(KEYS);
        let detail = format!("must be map if {KEYS} is non-empty");
        match list_type {
            None => {
                self.errors.push_if(keys.len() > 0, || FieldError::required(format!("{path}.{NAME}"), detail))
            }
            Some("map") => self.map_keys(props, path, items),
            Some(other) => self.errors.push_if(keys.len() > 0, || {
                FieldError::invalid(format!("{path}.{NAME}"), quoted(other), detail)
            }),
        }
    }

    /// The entries of a set are compared as a whole.
    fn set_items(&mut self, items: &Map, path: &str) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        match items.text("type") {
            "array" => {
                let list_type = items.text("x-kubernetes-list-type");
                self.errors.push_if(!matches!(list_type, "" | "atomic"), || {
                    FieldError::invalid(
                        format!("{path}.items.x-kubernetes-list-type"),
                        quoted(list_type),
                        detail,
                    )
                });
            }
            "object" => {
                let map_type = items.text("x-kubernetes-map-type");
                self.errors.push_if(map_type != "atomic", || {
                    FieldError::invalid(
                        format!("{path}.items.x-kubernetes-map-type"),
                        quoted(map_type),
                        detail,
                    )
                });
            }
            _ => {}
        }
    }

    fn map_keys(&mut self, props: &Map, path: &str, items: Option<&Map>) {
        const KEYS: &str = "x-kubernetes-list-map-keys";
        let field = format!("{path}.{KEYS}");
        self.errors.push_if(props.list(KEYS).is_empty(), || {
            FieldError::required(field.clone(), "must not be empty if x-kubernetes-list-type is map")
        });
        let Some(items) = items else {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            self.errors
                .push_if(!props.has("items"), || FieldError::required(format!("{path}.items"), detail));
            return;
        };
        let kind = items.text("type");
        if kind != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.errors.push(FieldError::invalid(format!("{path}.items.type"), quoted(kind), detail));
            return;
        }
        let mut seen = HashSet::new();
        for key in props.texts(KEYS) {
            let detail = match items.object("properties").object_if_set(key) {
                None => Some("entries must all be names of item properties"),
                Some(schema) if matches!(schema.text("type"), "array" | "object") => {
                    Some("entries must all be of scalar type")
                }
                Some(_) => None,
            };
            let shown = || Value::from(props.list(KEYS)).to_string();
            self.errors.extend(detail.map(|detail| FieldError::invalid(field.clone(), shown(), detail)));
            self.errors.push_if(!seen.insert(key), || {
                FieldError::invalid(field.clone(), shown(), "must not contain duplicate entries")
            });
        }
    }

    /// The entries of sets and maps have values by which they are told apart.
    fn unique_keys(&mut self, props: &Map, path: &str) {
        let list_type = props.text("x-kubernetes-list-type");
        let Some(items) = props.object_if_set("items").filter(|_| matches!(list_type, "set" | "map")) else {
            return;
        };
        if items.is_true("nullable") {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.forbid(path, "items.nullable", &detail);
        }
        if list_type != "map" {
            return;
        }
        let required: BTreeSet<&str> = items.texts("required").collect();
        for key in props.texts("x-kubernetes-list-map-keys") {
            let Some(schema) = items.object("properties").object_if_set(key) else { continue };
            let at = format!("{path}.items.properties[{key}]");
            self.errors.push_if(!required.contains(key) && !schema.has("default"), || {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                    property";
                FieldError::required(format!("{at}.default"), detail)
            });
            if schema.is_true("nullable") {
                let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.forbid(&at, "nullable", detail);
            }
        }
    }

    /// Checks a rule, without its expressions.
    fn rule<F: FnOnce() -> Schema>(&mut self, rule: &Map, schema: &LazyCell<Schema, F>, path: &str) {
        let errors = &mut *self.errors;
        let has_breaks = |text: &str| text.contains(['\n', '\r']);
        let (expression, message) = (rule.text("rule").trim(), rule.text("message"));
        let field = |name: &str| format!("{path}.{name}");
        if expression.is_empty() {
            errors.push(FieldError::required(field("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(
                field("message"),
                quoted(message),
                "message must be non-empty if specified",
            ));
        } else if has_breaks(message.trim()) {
            errors.push(FieldError::invalid(
                field("message"),
                quoted(message),
                "message must not contain line breaks",
            ));
        } else if has_breaks(expression) && message.trim().is_empty() {
            errors.push(FieldError::required(
                field("message"),
                "message must be specified if rule contains line breaks",
            ));
        }
        let of_message = rule.text("messageExpression");
        errors.push_if(!of_message.is_empty() && of_message.trim().is_empty(), || {
            FieldError::required(
                field("messageExpression"),
                "messageExpression must be non-empty if specified",
            )
        });
        if let Some(reason) = rule.get("reason").and_then(Value::as_str) {
            errors.push_if(!REASONS.contains(&reason), || {
                FieldError::not_supported(field("reason"), quoted(reason), &REASONS)
            });
        }
        let at = rule.text("fieldPath");
        if at.is_empty() {
            return;
        }
        let detail = if at.trim().is_empty() {
            "fieldPath must be non-empty if specified"
        } else if has_breaks(at) {
            "fieldPath must not contain line breaks"
        } else {
            match FieldPath::find(at, schema) {
                Ok(_) => return,
                Err(_) => "fieldPath must be a valid path",
            }
        };
        errors.push(FieldError::invalid(field("fieldPath"), quoted(at), detail));
    }
}
