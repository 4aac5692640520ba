//! The OpenAPI paths of kinds.

use serde_json::{Value, json};

use super::operations::{CONNECT, Named};
use super::schemas::Schemas;
use crate::Map;
use crate::discovery::Review;
use crate::resource::{Behaviour, Resource, Subresource};
use crate::schema::{self, meta};

/// Group, version and kind.
type Kind<'a> = (&'a str, &'a str, &'a str);

const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE: &[&str] = &["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"];
const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const PATCH_TYPES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
/// Those of custom kinds.
const CUSTOM_PATCH_TYPES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// The root path of the group and version of a kind: `api/v1`, `apis/apps/v1`.
pub(super) fn root(resource: &Resource) -> String {
    let prefix = if resource.group.is_empty() { "api" } else { "apis" };
    format!("{prefix}/{}", resource.api_version())
}

/// Adds the paths of a kind and of its subresources.
pub(super) fn add(resource: &Resource, schemas: &mut Schemas<'_>, all: &mut Map) {
    let mut paths = Map::new();
    let root = root(resource);
    let namespaces = if resource.is_namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("/{root}{namespaces}/{}", resource.plural);
    let kind = (resource.group, resource.version, resource.kind);
    let object = schemas.of_kind(resource);
    let list = schemas.list_of(resource);
    let status = schemas.of(&meta::STATUS);
    let options = schemas.of(&meta::DELETE_OPTIONS);

    let mut operations = Map::new();
    operations.insert("get".to_owned(), operation("list", kind, LIST, None, &list));
    operations.insert("post".to_owned(), operation("post", kind, WRITE, Some(&object), &object));
    // AP-101
    if resource.verbs.contains(&"deletecollection") {
        let delete = operation("deletecollection", kind, DELETE, Some(&options), &status);
        operations.insert("delete".to_owned(), delete);
    }
    paths.insert(collection.clone(), with_parameters(operations, resource, false));
    if resource.is_namespaced {
        let get = Map::from_iter([("get".to_owned(), operation("list", kind, LIST, None, &list))]);
        paths.insert(format!("/{root}/{}", resource.plural), get.into());
    }

    let item = format!("{collection}/{{name}}");
    let deleted = if resource.deletes_to_object { &object } else { &status };
    let operations = Map::from_iter([
        ("get".to_owned(), operation("get", kind, &[], None, &object)),
        ("put".to_owned(), operation("put", kind, WRITE, Some(&object), &object)),
        ("patch".to_owned(), patch(kind, resource, &object)),
        ("delete".to_owned(), operation("delete", kind, DELETE, Some(&options), deleted)),
    ]);
    paths.insert(item.clone(), with_parameters(operations, resource, true));
    for subresource in resource.subresources() {
        let path = format!("{item}/{}", subresource.name);
        let operations = with_parameters(below(resource, subresource, schemas), resource, true);
        if subresource.takes_path() {
            let mut operations = operations.clone();
            if let Some(Value::Array(parameters)) = operations.get_mut("parameters") {
                parameters.push(parameter("path", "path"));
            }
            paths.insert(format!("{path}/{{path}}"), operations);
        }
        paths.insert(path, operations);
    }
    let Resource { group, version, kind, plural, is_namespaced, .. } = *resource;
    Named { group, version, kind, plural, is_namespaced }.name(&mut paths);
    all.extend(paths);
}

/// Adds the path of a review.
pub(super) fn add_review(review: &Review, schemas: &mut Schemas<'_>, all: &mut Map) {
    let Review { group, version, kind, plural, is_namespaced } = *review;
    let Some(ty) = schema::find(&format!("{group}/{version}"), kind) else { return };
    let document = schemas.of(ty);
    let post = operation("post", (group, version, kind), WRITE, Some(&document), &document);
    let mut operations = Map::from_iter([("post".to_owned(), post)]);
    if is_namespaced {
        operations.insert("parameters".to_owned(), json!([parameter("namespace", "path")]));
    }
    let namespaces = if is_namespaced { "/namespaces/{namespace}" } else { "" };
    let path = format!("/apis/{group}/{version}{namespaces}/{plural}");
    let mut paths = Map::from_iter([(path, operations.into())]);
    Named { group, version, kind, plural, is_namespaced }.name(&mut paths);
    all.extend(paths);
}

/// The operations of a subresource.
fn below(resource: &Resource, subresource: &Subresource, schemas: &mut Schemas<'_>) -> Map {
    let group = subresource.group.unwrap_or(resource.group);
    let version = subresource.version.unwrap_or(resource.version);
    let kind = (group, version, subresource.kind);
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let document = match (group, subresource.kind) == (resource.group, resource.kind) {
        true => schemas.of_kind(resource),
        false => match schema::find(&api_version, subresource.kind) {
            Some(ty) => schemas.of(ty),
            None => json!({"type": "string"}),
        },
    };
    let is_connection = matches!(subresource.behaviour, Behaviour::Connect) && subresource.name != "log";
    let text = json!({"type": "string"});
    let operation = |verb: &&str| {
        let connected = |method: &str| (method.to_owned(), operation(CONNECT, kind, &[], None, &text));
        Some(match *verb {
            "create" if is_connection => connected("post"),
            "update" if is_connection => connected("put"),
            verb if is_connection => connected(verb),
            "get" if subresource.name == "log" => {
                ("get".to_owned(), operation("get", kind, &[], None, &text))
            }
            "get" => ("get".to_owned(), operation("get", kind, &[], None, &document)),
            "create" => ("post".to_owned(), operation("post", kind, WRITE, Some(&document), &document)),
            "update" => ("put".to_owned(), operation("put", kind, WRITE, Some(&document), &document)),
            "patch" => ("patch".to_owned(), patch(kind, resource, &document)),
            "delete" => ("delete".to_owned(), operation("delete", kind, &[], None, &document)),
            _ => return None,
        })
    };
    subresource.verbs.iter().filter_map(operation).collect()
}

/// An operation. `action` is the Kubernetes action.
fn operation(action: &str, kind: Kind<'_>, query: &[&str], body: Option<&Value>, answer: &Value) -> Value {
    let content = |schema: &Value| json!({"application/json": {"schema": schema}});
    let (group, version, name) = kind;
    let mut operation = json!({
        "parameters": query.iter().map(|name| parameter(name, "query")).collect::<Value>(),
        "responses": {"200": {"description": "OK", "content": content(answer)}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": name},
    });
    if let (Some(body), Some(members)) = (body, operation.as_object_mut()) {
        members.insert("requestBody".to_owned(), json!({"content": content(body)}));
        if action == "post" {
            let created = json!({"description": "Created", "content": content(answer)});
            if let Some(Value::Object(responses)) = members.get_mut("responses") {
                responses.insert("201".to_owned(), created);
            }
        }
    }
    operation
}

/// A patch operation, whose body has a different media type for each kind of patch.
fn patch(kind: Kind<'_>, resource: &Resource, document: &Value) -> Value {
    let mut operation = operation("patch", kind, PATCH, None, document);
    let body = |media: &&str| ((*media).to_owned(), json!({"schema": {"type": "object"}}));
    let types = if resource.custom.is_some() { CUSTOM_PATCH_TYPES } else { PATCH_TYPES };
    let content: Map = types.iter().map(body).collect();
    if let Some(members) = operation.as_object_mut() {
        members.insert("requestBody".to_owned(), json!({"required": true, "content": content}));
    }
    operation
}

fn with_parameters(mut operations: Map, resource: &Resource, is_named: bool) -> Value {
    let names = [("name", is_named), ("namespace", resource.is_namespaced)];
    let parameters: Vec<Value> =
        names.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| parameter(name, "path")).collect();
    if !parameters.is_empty() {
        operations.insert("parameters".to_owned(), parameters.into());
    }
    operations.into()
}

fn parameter(name: &str, place: &str) -> Value {
    let schema = match name {
        "allowWatchBookmarks" | "force" | "orphanDependents" | "sendInitialEvents" | "watch" => "boolean",
        "gracePeriodSeconds" | "limit" | "timeoutSeconds" => "integer",
        _ => "string",
    };
    let mut parameter = json!({"name": name, "in": place, "schema": {"type": schema}});
    if let (true, Some(members)) = (place == "path", parameter.as_object_mut()) {
        members.insert("required".to_owned(), true.into());
    }
    parameter
}
