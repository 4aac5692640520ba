//! The recorded reviews of kube-apiserver 1.36: the same writes are asked about here, and the reviews have the same form.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_testkit::recorded;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::webhook::WebhookService;
use serde_json::{Value, json};

use crate::admission::support::{Server, VALIDATING, allow, configure, requests, rule, webhook};

/// Fields that are not compared: their values differ in each run, or only one of the servers sets them.
const LEFT_OUT: &[&str] =
    &["managedFields", "extra", "uid", "resourceVersion", "creationTimestamp", "stubPKCS10Request"];

/// The user of a review, with a token. Service accounts have uids.
fn tokens(lines: &[Value]) -> BTreeMap<String, String> {
    let users = lines.iter().map(|line| &line["request"]["request"]["userInfo"]);
    let mut tokens = BTreeMap::new();
    for user in users {
        let groups = user["groups"].as_array().unwrap().iter().map(|group| group.as_str().unwrap());
        let groups: Vec<&str> = groups.filter(|group| *group != "system:authenticated").collect();
        let uid = user["uid"].as_str().unwrap_or_default();
        let line = format!("{},{uid},\"{}\"", user["username"].as_str().unwrap(), groups.join(","));
        let token = format!("token-{}", tokens.len());
        tokens.entry(line).or_insert(token);
    }
    tokens
}

fn token_line(user: &Value) -> String {
    let groups = user["groups"].as_array().unwrap().iter().map(|group| group.as_str().unwrap());
    let groups: Vec<&str> = groups.filter(|group| *group != "system:authenticated").collect();
    let uid = user["uid"].as_str().unwrap_or_default();
    format!("{},{uid},\"{}\"", user["username"].as_str().unwrap(), groups.join(","))
}

/// The request that a review is about: method, path and body.
fn request(review: &Value) -> (&'static str, String, Option<Value>) {
    let text = |pointer: &str| review.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = (text("/requestResource/group"), text("/requestResource/version"));
    let mut path =
        if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    if !text("/namespace").is_empty() {
        path = format!("{path}/namespaces/{}", text("/namespace"));
    }
    path = format!("{path}/{}", text("/requestResource/resource"));
    let (name, subresource) = (text("/name"), text("/requestSubResource"));
    let operation = text("/operation");
    if !name.is_empty() && (operation != "CREATE" || !subresource.is_empty()) {
        path = format!("{path}/{name}");
    }
    if !subresource.is_empty() {
        path = format!("{path}/{subresource}");
    }
    let mut object = review["object"].clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
    }
    let manager = review["options"]["fieldManager"].as_str();
    let query = manager.map_or_else(String::new, |manager| format!("&fieldManager={manager}"));
    match operation {
        "CREATE" => ("POST", format!("{path}?dryRun=All{query}"), Some(object)),
        "UPDATE" => ("PUT", format!("{path}?dryRun=All{query}"), Some(object)),
        "DELETE" => {
            let mut options = review["options"].clone();
            options.as_object_mut().unwrap().remove("preconditions");
            ("DELETE", path, Some(options))
        }
        "CONNECT" => {
            let path = format!("{path}{}", object["path"].as_str().unwrap_or_default());
            let method = if subresource == "proxy" { "GET" } else { "POST" };
            (method, format!("{path}?{}", options(&object)), None)
        }
        other => panic!("{other}"),
    }
}

/// The options of a connection as its query.
fn options(object: &Value) -> String {
    let mut pairs = Vec::new();
    let fields = object.as_object().unwrap().iter();
    for (name, value) in fields.filter(|(name, _)| !matches!(name.as_str(), "kind" | "apiVersion" | "path")) {
        let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        pairs.extend(values.iter().map(|value| match value.as_str() {
            Some(text) => format!("{name}={text}"),
            None => format!("{name}={value}"),
        }));
    }
    pairs.join("&")
}

/// A review in the form in which it is compared.
fn comparable(review: &Value) -> Value {
    let mut review = recorded::without(review, LEFT_OUT);
    if review["operation"] == "CONNECT" {
        return review;
    }
    for object in ["object", "oldObject"] {
        // Of objects their kind, name and namespace: what else is in them is compared elsewhere.
        let whole = &review[object];
        review[object] = match whole {
            Value::Null => Value::Null,
            whole => json!({
                "kind": whole["kind"], "apiVersion": whole["apiVersion"], "spec": whole["spec"],
                "name": whole["metadata"]["name"], "namespace": whole["metadata"]["namespace"],
            }),
        };
    }
    if let Some(options) = review["options"].as_object_mut() {
        options.remove("preconditions");
    }
    review
}

#[test]
fn reviews_have_the_form_of_those_of_kube_apiserver_bc_5() {
    let lines = recorded::lines("webhook-admission/reviews.jsonl");
    let scratch = Scratch::new();
    let service = WebhookService::start(scratch.path(), |asked, _| allow(asked));
    let state = recorded::unpacked(&scratch, "webhook-admission/state.json");
    let tokens = tokens(&lines);
    let text: String = tokens.iter().map(|(user, token)| format!("{token},{user}\n")).collect();
    let tokens_file = scratch.write("tokens.csv", text);
    let server = Server::start(
        &scratch,
        &[
            "--state",
            state.to_str().unwrap(),
            "--token-auth-file",
            tokens_file.to_str().unwrap(),
            "--authorization-mode",
            "AlwaysAllow",
            "--disable-admission-plugins",
            // The recorded server had no NodeRestriction, and let pods be resized on nodes of unknown systems.
            "NodeRestriction,PodResizeValidator",
            "--runtime-config",
            "certificates.k8s.io/v1beta1=true",
            "--controllers",
            recorded::CONTROLLERS,
        ],
    );
    // The state was written before the event was there.
    let events = lines.iter().map(|line| &line["request"]["request"]["oldObject"]);
    for event in events.filter(|object| object["kind"] == "Event") {
        let mut event = event.clone();
        event["metadata"]
            .as_object_mut()
            .unwrap()
            .retain(|name, _| matches!(name.as_str(), "name" | "namespace"));
        let path = format!("/api/v1/namespaces/{}/events", event["metadata"]["namespace"].as_str().unwrap());
        let code = server.admin().ask("POST", &path, Some(&event)).unwrap().code;
        assert!(matches!(code, 201 | 409), "{code}: {event}");
    }
    let fields = json!({"rules": [rule(&["*"], "*", "*", "*/*")]});
    configure(&mut server.admin(), VALIDATING, "all", &[webhook(&service, "all.example.com", &fields)]);
    let (mut differ, mut compared, mut refused) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (at, line) in lines.iter().enumerate() {
        let review = &line["request"]["request"];
        let (method, path, mut body) = request(review);
        if method == "PUT" {
            // Some kinds are only updated at a revision.
            let object = path
                .split('?')
                .next()
                .unwrap()
                .trim_end_matches(&format!("/{}", review["subResource"].as_str().unwrap_or("?")));
            let stored = server.admin().must(200, "GET", object, None);
            body.as_mut().unwrap()["metadata"]["resourceVersion"] =
                stored["metadata"]["resourceVersion"].clone();
        }
        let before = service.asked().len();
        let token = &tokens[&token_line(&review["userInfo"])];
        let answer = server.user(token).ask(method, &path, body.as_ref()).unwrap();
        if review["operation"] == "CONNECT" {
            // There is no kubelet: its node has no address, and its pod neither.
            assert_eq!(json!(answer.code), line["answered"], "{at} {method} {path}: {}", answer.text());
        }
        let asked = requests(&service);
        let Some(found) = asked.get(before) else {
            refused.push(format!("{at} {method} {path}: {}", answer.text()));
            continue;
        };
        let version = &service.asked()[before].review["apiVersion"];
        assert_eq!(*version, line["request"]["apiVersion"]);
        let (mut found, mut expected) = (comparable(found), comparable(review));
        if line["collection"] == json!(true) {
            // The selector of the request is not in the review: the first object may be another one.
            for review in [&mut found, &mut expected] {
                review["oldObject"]["name"] = Value::Null;
                review["oldObject"]["spec"] = Value::Null;
            }
        }
        if found != expected {
            differ.push(format!("{at} {method} {path}:\n  {found}\n  {expected}"));
        }
        compared.insert((method, path.split('?').next().unwrap().to_owned()));
    }
    assert!(differ.is_empty(), "{}: {}", differ.len(), differ.join("\n"));
    assert!(refused.is_empty(), "{}: {}", refused.len(), refused.join("\n"));
    assert!(compared.len() > 50, "{}", compared.len());
}
