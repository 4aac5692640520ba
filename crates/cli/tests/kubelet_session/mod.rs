//! A recorded session of a kubelet 1.36, from its bootstrap to the end of a pod, sent again to `portcullis serve`: each
//! request gets the status code that the kubelet got, and the watches that it opened stay open and tell what happened. As
//! a kubelet does, it sends and asks for protobuf.
//!
//! What the server makes up (names and unique ids of objects, revisions) is put in place of what was recorded.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::net::SocketAddr;
use std::path::Path;

use portcullis_testkit::https::{Client, Events, Identity};
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use portcullis_testkit::{program, protobuf, recorded};
use serde_json::{Value, json};

const SESSION: &str = "data/kubelet-1.36-session";
const POD: &str = "/api/v1/namespaces/default/pods/app";

/// The server, and what has been made up so far.
struct Replay {
    address: SocketAddr,
    admin: Identity,
    /// The request that the kubelet watches until it is signed: recorded, and here.
    signing_request: Option<(String, String)>,
    /// Each with the path that opened it.
    watches: Vec<(String, Events)>,
}

impl Replay {
    fn admin(&self) -> Client {
        Client::new(self.address, &self.admin)
    }

    /// A client that speaks for whoever sent the recorded request.
    fn sender(&self, request: &Value) -> Client {
        let mut client = self.admin().header(&format!("Impersonate-User: {}", text(&request["user"])));
        for group in request["groups"].as_array().unwrap() {
            client = client.header(&format!("Impersonate-Group: {}", text(group)));
        }
        match text(&request["verb"]) {
            "patch" => client.in_protobuf().header("Content-Type: application/strategic-merge-patch+json"),
            _ => client.in_protobuf(),
        }
    }

    fn member(&self, path: &str, member: &str) -> Option<String> {
        let object = self.admin().must(200, "GET", path, None);
        object["metadata"][member].as_str().map(str::to_owned)
    }

    fn uid(&self, path: &str) -> Value {
        self.member(path, "uid").map_or(Value::Null, Value::String)
    }

    /// The path with the revision and the names of here.
    fn path(&self, request: &Value) -> String {
        let mut path = text(&request["requestURI"]).to_owned();
        if let Some((recorded, here)) = &self.signing_request {
            path = path.replace(recorded, here);
        }
        let Some((before, after)) = path.split_once("resourceVersion=") else { return path };
        let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
        let newest = self.member("/api/v1/namespaces", "resourceVersion").unwrap();
        format!("{before}resourceVersion={newest}{after}")
    }

    /// The body with the unique ids and revisions of here.
    fn body(&self, request: &Value, path: &str) -> Option<Value> {
        let mut body = request.get("requestObject")?.clone();
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let object = path.trim_end_matches("/status");
        if body["kind"] == "DeleteOptions" {
            // The log shows the form inside the server.
            body["apiVersion"] = json!("v1");
        }
        if request["objectRef"]["name"].is_string() {
            for member in ["uid", "resourceVersion"] {
                if body["metadata"][member].is_string() {
                    body["metadata"][member] = json!(self.member(object, member));
                }
            }
        }
        for owner in body["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten() {
            assert_eq!(owner["kind"], "Node");
            owner["uid"] = self.uid("/api/v1/nodes/node1");
        }
        for reference in ["/spec/boundObjectRef/uid", "/preconditions/uid"] {
            if let Some(uid) = body.pointer_mut(reference) {
                *uid = self.uid(POD);
            }
        }
        Some(body)
    }

    /// Sends a request as it was recorded, and checks the status code.
    fn send(&mut self, number: usize, request: &Value) {
        let (verb, path) = (text(&request["verb"]), self.path(request));
        let context = format!("request {number}, {verb} {path}");
        if verb == "watch" {
            assert_eq!(request["code"], 200, "{context}");
            let events = self.sender(request).watch(&path).unwrap_or_else(|e| panic!("{context}: {e}"));
            self.watches.push((path, events));
            return;
        }
        let method = match verb {
            "get" | "list" => "GET",
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            other => panic!("{other} is no verb of a kubelet"),
        };
        let body = self.body(request, &path);
        let answer = self.sender(request).ask(method, &path, body.as_ref()).unwrap();
        assert_eq!(request["code"], answer.code, "{context}: {}", String::from_utf8_lossy(&answer.body));
        assert_eq!(answer.media_type, protobuf::MEDIA_TYPE, "{context}");
        let answer = answer.json();
        if verb == "create" && path.ends_with("/certificatesigningrequests") {
            // The next request that the kubelet sends asks for it by its name.
            self.signing_request = Some((String::new(), text(&answer["metadata"]["name"]).to_owned()));
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// The name in the field selector of a path.
fn selected_name(path: &str) -> Option<&str> {
    let (_, name) = path.split_once("metadata.name%3D")?;
    name.split('&').next()
}

fn apply(data: &Path, manifest: &str) {
    let mut kubectl = tool::command("kubectl");
    kubectl.args(["apply", "-f", "-", "--kubeconfig"]).arg(data.join("admin.kubeconfig")).env("HOME", data);
    Finished::with_input(&mut kubectl, manifest.as_bytes()).ok();
}

#[test]
fn a_kubelet_is_answered_as_it_was_by_kubernetes() {
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let served = program!().serve(&data);
    let address = served.address();
    apply(&data, &recorded::text(&format!("{SESSION}/setup.yaml")));
    let admin = Identity::admin(&data);
    let mut replay = Replay { address, admin, signing_request: None, watches: Vec::new() };

    let requests = recorded::lines(&format!("{SESSION}/requests.jsonl"));
    let of_pod = |request: &Value| {
        let (path, _) =
            text(&request["requestURI"]).split_once('?').unwrap_or((text(&request["requestURI"]), ""));
        path == POD || path.starts_with(&format!("{POD}/"))
    };
    let first_of_pod = requests.iter().position(of_pod).unwrap();
    // An administrator deleted it before the kubelet told that it has ended.
    let ended = requests.iter().rposition(|r| of_pod(r) && r["verb"] == "patch").unwrap();
    for (number, request) in requests.iter().enumerate() {
        if number == first_of_pod {
            apply(&data, &recorded::text(&format!("{SESSION}/pod.yaml")));
        }
        if number == ended {
            let deleted = replay.admin().must(200, "DELETE", POD, None);
            assert!(deleted["metadata"]["deletionTimestamp"].is_string(), "the kubelet still has to end it");
        }
        if let (Some((recorded, _)), Some(name)) =
            (&mut replay.signing_request, selected_name(text(&request["requestURI"])))
            && name.starts_with("csr-")
        {
            name.clone_into(recorded);
        }
        replay.send(number, request);
    }
    assert_eq!(replay.admin().ask("GET", POD, None).unwrap().code, 404);

    // The watch of its pods, opened long before, has told of all of it.
    let (_, pods) = replay.watches.iter_mut().find(|(path, _)| path.starts_with("/api/v1/pods?")).unwrap();
    let mut told = Vec::new();
    for event in pods {
        let event = event.unwrap();
        if event["object"]["metadata"]["name"] == "app" {
            told.push(text(&event["type"]).to_owned());
            if event["type"] == "DELETED" {
                break;
            }
        }
    }
    assert_eq!(told.first().map(String::as_str), Some("ADDED"));
    assert!(told.iter().filter(|kind| *kind == "MODIFIED").count() >= 3, "{told:?}");
    let (_, secrets) = replay.watches.iter_mut().find(|(path, _)| path.contains("/secrets?")).unwrap();
    let first = secrets.next().unwrap().unwrap();
    assert_eq!(
        (&first["type"], &first["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("db-password"))
    );
    served.kill();
}
