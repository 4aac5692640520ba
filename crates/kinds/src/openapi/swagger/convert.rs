//! Paths and schemas of OpenAPI 3.0 as Swagger 2.0 has them.
//!
//! Old clients validate objects by the schemas. A schema that Swagger cannot express allows any value, and the server decides.

use serde_json::{Value, json};

use crate::Map;
use crate::openapi::schemas::{INT_OR_STRING, QUANTITY};

/// The methods of a path.
const METHODS: &[&str] = &["delete", "get", "patch", "post", "put"];
/// The keywords of OpenAPI 3.0 that Swagger 2.0 lacks.
const UNKNOWN: &[&str] = &["anyOf", "not", "nullable", "oneOf"];
/// The media type of bodies without a declared one.
const ANY: &str = "*/*";

/// A path with its operations.
pub(super) fn path(mut item: Value) -> Value {
    for (name, member) in item.as_object_mut().into_iter().flatten() {
        if name == "parameters" {
            parameters(member);
        } else if METHODS.contains(&name.as_str()) {
            operation(member);
        }
    }
    item
}

fn operation(operation: &mut Value) {
    let Some(members) = operation.as_object_mut() else { return };
    let mut listed = members.remove("parameters").unwrap_or_else(|| json!([]));
    parameters(&mut listed);
    let (mut consumes, mut produces) = (vec![ANY.to_owned()], vec![ANY.to_owned()]);
    if let Some(mut body) = members.remove("requestBody") {
        let is_required = body.get("required").cloned();
        if let Some((schema, media)) = content(&mut body) {
            consumes = media;
            let mut parameter = json!({"name": "body", "in": "body", "schema": schema});
            if let (Some(is_required), Some(parameter)) = (is_required, parameter.as_object_mut()) {
                parameter.insert("required".to_owned(), is_required);
            }
            listed.as_array_mut().into_iter().for_each(|listed| listed.push(parameter.clone()));
        }
    }
    for (_, response) in members.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten() {
        let Some((schema, media)) = content(response) else { continue };
        produces = media;
        response.as_object_mut().into_iter().for_each(|response| {
            response.insert("schema".to_owned(), schema.clone());
        });
    }
    members.insert("parameters".to_owned(), listed);
    members.insert("consumes".to_owned(), consumes.into());
    members.insert("produces".to_owned(), produces.into());
}

/// Takes the content out of a body: its schema, and its media types.
fn content(body: &mut Value) -> Option<(Value, Vec<String>)> {
    let Some(Value::Object(content)) = body.as_object_mut()?.remove("content") else { return None };
    let media: Vec<String> = content.keys().cloned().collect();
    let (_, mut first) = content.into_iter().next()?;
    Some((schema(first.get_mut("schema")?.take()), media))
}

/// A parameter has the members of its schema itself.
fn parameters(listed: &mut Value) {
    for parameter in listed.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(Value::Object(members)) = parameter.remove("schema") {
            parameter.extend(members);
        }
    }
}

/// All schemas, by name.
pub(super) fn definitions(found: Map) -> Map {
    let one = |(name, found): (String, Value)| {
        let mut definition = schema(found);
        // A text can be any of them: a number is read as one.
        if matches!(name.as_str(), INT_OR_STRING | QUANTITY) {
            definition.as_object_mut().into_iter().for_each(|definition| {
                definition.insert("type".to_owned(), "string".into());
            });
        }
        (name, definition)
    };
    found.into_iter().map(one).collect()
}

fn schema(value: Value) -> Value {
    let mut members = match value {
        Value::Object(members) => members,
        // Whether something is allowed.
        other => return other,
    };
    let is_true = |name: &str| members.get(name).and_then(Value::as_bool) == Some(true);
    let is_list = members.get("type").and_then(Value::as_str) == Some("array");
    let is_open = is_true("nullable")
        || is_true("x-kubernetes-preserve-unknown-fields")
        || is_true("x-kubernetes-int-or-string")
        || is_list && !members.contains_key("items");
    if is_open {
        members.retain(|name, _| name == "description" || name.starts_with("x-"));
        return members.into();
    }
    // A reference may have siblings.
    if let Some(Value::Array(all)) = members.remove("allOf")
        && let [Value::Object(only)] = all.as_slice()
        && let Some(reference) = only.get("$ref")
    {
        members.insert("$ref".to_owned(), reference.clone());
    }
    members.retain(|name, _| !UNKNOWN.contains(&name.as_str()));
    for (name, member) in &mut members {
        match (name.as_str(), &mut *member) {
            ("$ref", Value::String(reference)) => {
                *reference = reference.replace("#/components/schemas/", "#/definitions/");
            }
            ("items" | "additionalProperties", member) => *member = schema(member.take()),
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(|property| *property = schema(property.take()));
            }
            _ => {}
        }
    }
    members.into()
}
