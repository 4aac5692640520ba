//! A kind that only this test knows is added to a server by a row alone. Everything follows from the row: paths,

//! discovery, OpenAPI, storage, all verbs, tables, the status, and what hooks do with a request.

use std::borrow::Cow;

use crate::common::{Answer, Setup, Started, start_with};
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_kinds::resource::{Need, OnRequest, Refusal, Resource, Selectable, Subresource};
use portcullis_kinds::schema::meta::OBJECT_META;
use portcullis_kinds::schema::{Field, Merge, Ownership, Presence, Required, Shape, Type};
use portcullis_kinds::table::{Column, Row};
use portcullis_kinds::{Kinds, Map, meta};
use serde_json::{Value, json};

const fn field(name: &'static str, number: u32, shape: Shape, presence: Presence) -> Field {
    Field {
        name,
        number,
        within: &[],
        shape,
        presence,
        required: Required::Usual,
        merge: Merge::Default,
        ownership: Ownership::Usual,
        default: None,
        values: &[],
    }
}

static SPEC: Type = Type::new(
    "WidgetSpec",
    "example.com/v1",
    &[
        field("color", 1, Shape::Text, Presence::Always),
        field("number", 2, Shape::Int32, Presence::WhenSet),
        field("owner", 3, Shape::Text, Presence::WhenNotZero),
    ],
);

static STATUS: Type =
    Type::new("WidgetStatus", "example.com/v1", &[field("phase", 1, Shape::Text, Presence::WhenNotZero)]);

static WIDGET: Type = Type::new(
    "Widget",
    "example.com/v1",
    &[
        field("kind", 0, Shape::Text, Presence::WhenNotZero),
        field("apiVersion", 0, Shape::Text, Presence::WhenNotZero),
        field("metadata", 1, Shape::Object(&OBJECT_META), Presence::Always),
        field("spec", 2, Shape::Object(&SPEC), Presence::Always),
        field("status", 3, Shape::Object(&STATUS), Presence::Always),
    ],
);

fn of<'w>(widget: &'w Map, part: &str, field: &str) -> &'w Value {
    widget.get(part).and_then(|part| part.get(field)).unwrap_or(&Value::Null)
}

fn set(widget: &mut Map, part: &str, field: &str, value: Value) {
    widget[part].as_object_mut().unwrap().insert(field.to_owned(), value);
}

fn keep(widget: &mut Map, old: &Map, part: &str) {
    widget.insert(part.to_owned(), old[part].clone());
}

fn validate(widget: &Map) -> FieldErrors {
    match of(widget, "spec", "color").as_str() {
        Some("invisible") => {
            FieldErrors::from([FieldError::invalid("spec.color", "invisible", "cannot be seen")])
        }
        _ => FieldErrors::new(),
    }
}

/// The row.
static WIDGETS: Resource = Resource {
    group: "example.com",
    kind: "Widget",
    plural: "widgets",
    short_names: &["wg"],
    subresources: &[Subresource::status("Widget")],
    schema: &WIDGET,
    selectable: &[Selectable {
        name: "spec.color",
        value: |widget| Cow::Borrowed(of(widget, "spec", "color").as_str().unwrap_or_default()),
    }],
    default: |widget| {
        if of(widget, "spec", "color") == "" {
            set(widget, "spec", "color", json!("grey"));
        }
    },
    prepare_create: |widget| drop(widget.insert("status".to_owned(), json!({"phase": "New"}))),
    validate_create: validate,
    on_create: OnRequest {
        needs: |_| Need::AllOfKind,
        complete: |widget, _, context| {
            let numbers = context.stored.iter().filter_map(|other| of(other, "spec", "number").as_i64());
            let number = numbers.max().unwrap_or_default() + 1;
            if number > 3 {
                return Err(Refusal::Internal("there are no more numbers".to_owned()));
            }
            set(widget, "spec", "number", json!(number));
            set(widget, "spec", "owner", json!(context.requester.name));
            Ok(())
        },
        ..OnRequest::NOTHING
    },
    prepare_update: |widget, old| keep(widget, old, "status"),
    validate_update: |widget, _| validate(widget),
    prepare_status: |widget, old| keep(widget, old, "spec"),
    columns: &[
        Column { name: "Name", kind: "string", format: "name", description: "The name.", priority: 0 },
        Column { name: "Color", kind: "string", format: "", description: "The color.", priority: 0 },
    ],
    row: |widget, _| Row {
        cells: vec![meta::name(widget).into(), of(widget, "spec", "color").clone()],
        completed: None,
    },
    ..Resource::USUAL
};

const ALL: &str = "/apis/example.com/v1/widgets";
const WIDGETS_PATH: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn start() -> Started {
    start_with(Setup { is_cluster: true, kinds: Kinds::built_in().with(&WIDGETS), ..Setup::default() })
}

fn ask(server: &Started, method: &str, path: &str, body: &Value) -> Answer {
    let mut request = server.request(method, path).by(&server.admin());
    if !body.is_null() {
        let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        request = request.header(&format!("Content-Type: {media_type}")).body(body.to_string());
    }
    request.send()
}

fn done(server: &Started, method: &str, path: &str, body: &Value, code: u16) -> Value {
    let answer = ask(server, method, path, body);
    assert_eq!(answer.code, code, "{method} {path}: {}", answer.text());
    answer.json()
}

fn get(server: &Started, path: &str) -> Value {
    done(server, "GET", path, &Value::Null, 200)
}

fn widget(name: &str, color: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"color": color}})
}

#[test]
fn a_row_is_all_that_a_kind_needs() {
    let server = start();

    // Discovery and OpenAPI.
    let groups = get(&server, "/apis");
    assert!(groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "example.com"));
    let resources = get(&server, "/apis/example.com/v1")["resources"].clone();
    let names: Vec<&Value> = resources.as_array().unwrap().iter().map(|resource| &resource["name"]).collect();
    assert_eq!(names, ["widgets", "widgets/status"]);
    assert_eq!(resources[0]["shortNames"], json!(["wg"]));
    let openapi = get(&server, "/openapi/v3/apis/example.com/v1");
    let item = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}";
    assert!(openapi["paths"][item]["patch"].is_object(), "{openapi}");
    let schema = &openapi["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(
        schema["x-kubernetes-group-version-kind"],
        json!([{"group": "example.com", "version": "v1", "kind": "Widget"}])
    );

    // Create: defaults, initial status, what depends on the request; validation.
    let made = done(&server, "POST", WIDGETS_PATH, &widget("a", ""), 201);
    assert_eq!(made["apiVersion"], "example.com/v1");
    let name = of(made.as_object().unwrap(), "spec", "owner").as_str().unwrap().to_owned();
    assert!(!name.is_empty());
    assert_eq!(made["spec"], json!({"color": "grey", "number": 1, "owner": name}));
    assert_eq!(made["status"], json!({"phase": "New"}));
    let refused = ask(&server, "POST", WIDGETS_PATH, &widget("b", "invisible"));
    let refused = refused.assert_status(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.color");
    done(&server, "POST", WIDGETS_PATH, &widget("b", "red"), 201);
    done(&server, "POST", WIDGETS_PATH, &widget("a", "red"), 409);

    // Get, list, selectors, table.
    assert_eq!(get(&server, &format!("{WIDGETS_PATH}/a")), made);
    assert_eq!(get(&server, ALL)["items"].as_array().unwrap().len(), 2);
    let red = get(&server, &format!("{ALL}?fieldSelector=spec.color%3Dred"));
    assert_eq!(red["items"][0]["metadata"]["name"], "b");
    let table = server.get(WIDGETS_PATH).by(&server.admin());
    let table = table.header("Accept: application/json;as=Table;g=meta.k8s.io;v=v1").send().json();
    assert_eq!(table["columnDefinitions"][1]["name"], "Color");
    assert_eq!(table["rows"][0]["cells"], json!(["a", "grey"]));

    // Update, patch, status: each changes its part.
    let mut changed = made.clone();
    changed["spec"]["color"] = json!("blue");
    changed["status"]["phase"] = json!("Broken");
    let changed = done(&server, "PUT", &format!("{WIDGETS_PATH}/a"), &changed, 200);
    assert_eq!((&changed["spec"]["color"], &changed["status"]["phase"]), (&json!("blue"), &json!("New")));
    let patch = json!({"spec": {"color": "green"}, "status": {"phase": "Ready"}});
    let status = done(&server, "PATCH", &format!("{WIDGETS_PATH}/a/status"), &patch, 200);
    assert_eq!((&status["spec"]["color"], &status["status"]["phase"]), (&json!("blue"), &json!("Ready")));
    let patched = done(&server, "PATCH", &format!("{WIDGETS_PATH}/a"), &patch, 200);
    assert_eq!(patched["spec"]["color"], "green");

    // Delete.
    done(&server, "DELETE", &format!("{WIDGETS_PATH}/a"), &Value::Null, 200);
    done(&server, "GET", &format!("{WIDGETS_PATH}/a"), &Value::Null, 404);

    // Watch: from the first event on.
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{WIDGETS_PATH}?watch=1&resourceVersion={version}&timeoutSeconds=1");
    let events = server.get(&path).by(&server.admin()).send().text().to_owned();
    let kinds: Vec<Value> =
        events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"], "{events}");
    done(&server, "DELETE", WIDGETS_PATH, &Value::Null, 200);
    assert_eq!(get(&server, ALL)["items"], json!([]));
}

#[test]
fn no_two_objects_get_the_same_of_what_they_share() {
    let server = start();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let server = &server;
            scope.spawn(move || done(server, "POST", WIDGETS_PATH, &widget(name, "red"), 201));
        }
    });
    let items = get(&server, ALL)["items"].clone();
    let mut numbers: Vec<i64> =
        items.as_array().unwrap().iter().map(|item| item["spec"]["number"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
    done(&server, "POST", WIDGETS_PATH, &widget("d", "red"), 500);
}

#[test]
fn a_namespace_that_goes_takes_the_objects_along() {
    let server = start();
    done(&server, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "n"}}), 201);
    let path = "/apis/example.com/v1/namespaces/n/widgets";
    done(&server, "POST", path, &widget("a", "red"), 201);
    done(&server, "DELETE", "/api/v1/namespaces/n", &Value::Null, 200);
    let began = std::time::Instant::now();
    while ask(&server, "GET", "/api/v1/namespaces/n", &Value::Null).code != 404 {
        assert!(began.elapsed().as_secs() < 60, "the namespace stays");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(get(&server, ALL)["items"], json!([]));
}

#[test]
fn without_the_row_the_kind_is_not_there() {
    let server = start_with(Setup { is_cluster: true, ..Setup::default() });
    assert_eq!(ask(&server, "GET", ALL, &Value::Null).code, 404);
}
