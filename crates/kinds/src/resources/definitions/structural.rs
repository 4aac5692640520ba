//! Validates that schemas are structural: the type of every value is outside of `allOf`, `anyOf`, `oneOf` and `not`, which
//! only limit values.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;
use serde_json::{Value, json};

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};

/// The position of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Root,
    Entry,
    Member,
}

/// Keywords that are forbidden within `allOf`, `anyOf`, `oneOf` and `not`.
const NOT_NESTED: [&str; 12] = [
    "type",
    "default",
    "title",
    "description",
    "nullable",
    "additionalProperties",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
];

/// Adds what keeps a schema at a path from being structural.
pub(super) fn check(props: &Map, path: &str, errors: &mut Errors) {
    schema(props, Level::Root, path, errors);
    complete(props, path, errors);
}

fn schema(props: &Map, level: Level, path: &str, errors: &mut Errors) {
    if let Some(items) = props.object_if_set("items") {
        schema(items, Level::Entry, &format!("{path}.items"), errors);
    }
    for (name, property) in props.object("properties") {
        if let Some(property) = property.as_object() {
            schema(property, Level::Member, &format!("{path}.properties[{name}]"), errors);
        }
    }
    if let Some(additional) = props.object_if_set("additionalProperties") {
        schema(additional, Level::Member, &format!("{path}.additionalProperties"), errors);
    }
    let kind = props.text("type");
    let is_embedded = props.is_true("x-kubernetes-embedded-resource");
    let is_int_or_string = props.is_true("x-kubernetes-int-or-string");
    let preserves = props.is_true("x-kubernetes-preserve-unknown-fields");
    errors.push_if(kind == "array" && !props.has("items"), || {
        FieldError::required(format!("{path}.items"), "must be specified")
    });
    errors.push_if(level == Level::Root && props.has("additionalProperties"), || {
        FieldError::forbidden(format!("{path}.additionalProperties"), "must not be used at the root")
    });
    for (name, is_wrong) in
        [("x-kubernetes-preserve-unknown-fields", preserves), ("x-kubernetes-embedded-resource", is_embedded)]
    {
        errors.push_if(is_int_or_string && is_wrong, || {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            FieldError::invalid(format!("{path}.{name}"), "true", detail)
        });
    }
    limits(props, is_int_or_string, path, errors);
    let of_type = |detail: &str| match kind {
        "" => FieldError::required(format!("{path}.type"), detail),
        kind => FieldError::invalid(format!("{path}.type"), quoted(kind), detail),
    };
    if is_embedded && kind != "object" {
        errors.push(of_type("must be object if x-kubernetes-embedded-resource is true"));
    } else if kind.is_empty() && !is_int_or_string && !preserves {
        errors.push(of_type(match level {
            Level::Root => "must not be empty at the root",
            Level::Entry => "must not be empty for specified array items",
            Level::Member => "must not be empty for specified object fields",
        }));
    }
    errors.push_if(is_embedded && props.has("additionalProperties"), || {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        FieldError::forbidden(format!("{path}.additionalProperties"), detail)
    });
    errors.push_if(level == Level::Root && !kind.is_empty() && kind != "object", || {
        of_type("must be object at the root")
    });
    of_objects(props, level, path, errors);
    errors.push_if(is_embedded && !preserves && props.object("properties").is_empty(), || {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
            x-kubernetes-preserve-unknown-fields";
        FieldError::required(format!("{path}.properties"), detail)
    });
}

/// The members of API objects are what they are: only the name can be limited.
fn of_objects(props: &Map, level: Level, path: &str, errors: &mut Errors) {
    let is_object = level == Level::Root || props.is_true("x-kubernetes-embedded-resource");
    if !is_object {
        return;
    }
    let properties = props.object("properties");
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = properties.object_if_set(name) else { continue };
        let kind = property.text("type");
        errors.push_if(kind != wanted, || {
            let field = format!("{path}.properties[{name}].type");
            FieldError::invalid(field, quoted(kind), format!("must be {wanted}"))
        });
    }
    let Some(metadata) = properties.object_if_set("metadata").filter(|_| level == Level::Root) else {
        return;
    };
    let are_known =
        metadata.object("properties").keys().all(|name| matches!(name.as_str(), "name" | "generateName"));
    let is_alone = metadata
        .keys()
        .all(|name| matches!(name.as_str(), "type" | "properties" | "default" | "description"));
    errors.push_if(!are_known || !is_alone || metadata.has("description"), || {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        FieldError::forbidden(format!("{path}.properties[metadata]"), detail)
    });
}

/// Checks what limits values. Numbers or texts are described by an `anyOf` of their types.
fn limits(props: &Map, is_int_or_string: bool, path: &str, errors: &mut Errors) {
    let types = json!([{"type": "integer"}, {"type": "string"}]);
    let is_types = |list: Option<&Value>| is_int_or_string && list == Some(&types);
    let of_any = is_types(props.get("anyOf"));
    let of_first = !of_any && is_types(props.objects("allOf").next().and_then(|first| first.get("anyOf")));
    for name in ["allOf", "anyOf", "oneOf"] {
        for (at, nested_schema) in props.objects(name).enumerate() {
            let at_path = format!("{path}.{name}[{at}]");
            match name {
                "anyOf" if of_any => {}
                "allOf" if of_first && at == 0 => {
                    let mut rest = nested_schema.clone();
                    rest.remove("anyOf");
                    nested(&rest, &at_path, errors);
                }
                _ => nested(nested_schema, &at_path, errors),
            }
        }
    }
    if let Some(not) = props.object_if_set("not") {
        nested(not, &format!("{path}.not"), errors);
    }
}

fn nested(props: &Map, path: &str, errors: &mut Errors) {
    limits(props, false, path, errors);
    if let Some(items) = props.object_if_set("items") {
        nested(items, &format!("{path}.items"), errors);
    }
    for (name, property) in props.object("properties") {
        if let Some(property) = property.as_object() {
            nested(property, &format!("{path}.properties[{name}]"), errors);
        }
    }
    for name in NOT_NESTED {
        errors.push_if(props.has(name), || {
            FieldError::forbidden(format!("{path}.{name}"), "must be empty to be structural")
        });
    }
    errors.push_if(props.object("properties").has("metadata"), || {
        let detail = "must not be specified in a nested context";
        FieldError::forbidden(format!("{path}.properties[metadata]"), detail)
    });
}

/// Every field that `allOf`, `anyOf`, `oneOf` or `not` name must have a schema outside of them.
fn complete(props: &Map, path: &str, errors: &mut Errors) {
    limited(props, props, path, path, errors);
    if let Some(items) = props.object_if_set("items") {
        complete(items, &format!("{path}.items"), errors);
    }
    for (name, property) in props.object("properties") {
        if let Some(property) = property.as_object() {
            complete(property, &format!("{path}.properties[{name}]"), errors);
        }
    }
    if let Some(additional) = props.object_if_set("additionalProperties") {
        complete(additional, &format!("{path}.additionalProperties"), errors);
    }
}

/// `limits` is what is said within, at `within`, about the schema at `path`.
fn limited(limits: &Map, props: &Map, path: &str, within: &str, errors: &mut Errors) {
    for name in ["allOf", "anyOf", "oneOf"] {
        for (at, nested) in limits.objects(name).enumerate() {
            limited_members(nested, props, path, &format!("{within}.{name}[{at}]"), errors);
        }
    }
    if let Some(not) = limits.object_if_set("not") {
        limited_members(not, props, path, &format!("{within}.not"), errors);
    }
}

fn limited_members(limits: &Map, props: &Map, path: &str, within: &str, errors: &mut Errors) {
    limited(limits, props, path, within, errors);
    let missing = |field: String, within: String| {
        FieldError::required(field, format!("because it is defined in {within}"))
    };
    if let Some(items) = limits.object_if_set("items") {
        let (field, within) = (format!("{path}.items"), format!("{within}.items"));
        match props.object_if_set("items") {
            Some(known) => limited_members(items, known, &field, &within, errors),
            None => errors.push(missing(field, within)),
        }
    }
    for (name, property) in limits.object("properties") {
        let Some(property) = property.as_object() else { continue };
        let (field, within) = (format!("{path}.properties[{name}]"), format!("{within}.properties[{name}]"));
        let known = props.object("properties").object_if_set(name);
        match known.or_else(|| props.object_if_set("additionalProperties")) {
            Some(known) => limited_members(property, known, &field, &within, errors),
            None => errors.push(missing(field, within)),
        }
    }
}
