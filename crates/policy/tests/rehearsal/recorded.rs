//! Requests that a kube-apiserver 1.36 answered: what it asked its authorization webhook about each, what its audit log told as
//! the decision, and the objects that it decided over.

use portcullis_policy::Mode;
use portcullis_policy::User;
use portcullis_policy::review::Review;
use portcullis_testkit::recorded;
use serde_json::{Value, json};

use crate::rehearsal::support::{always, counts, engine, rehearsal, rehearse, take};

/// A recorded request: its event, the review that Kubernetes sent about it, and the decision.
struct Request {
    event: Value,
    review: Value,
}

impl Request {
    fn was_allowed(&self) -> bool {
        self.event["annotations"]["authorization.k8s.io/decision"] == "allow"
    }
}

/// The recorded requests whose decision stood in the audit log, in the form of that log.
fn requests() -> Vec<Request> {
    let lines = recorded::lines("webhook-authorization/reviews.jsonl").into_iter().enumerate();
    let told = lines.filter(|(_, line)| {
        let cause = &line["cause"];
        // The question of an access review is asked about another request than that of the event.
        let group = &line["request"]["spec"]["resourceAttributes"]["group"];
        let is_review = cause["path"].as_str().is_some_and(|path| path.contains("/authorization.k8s.io/"));
        line["audited"] == true
            && cause["path"].is_string()
            && cause["impersonating"].is_null()
            && is_review == (group == "authorization.k8s.io")
    });
    let requests: Vec<Request> = told.map(|(number, line)| request(number, &line)).collect();
    assert!(requests.len() > 200, "{}", requests.len());
    requests
}

fn request(number: usize, line: &Value) -> Request {
    let spec = &line["request"]["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resource = &spec["resourceAttributes"];
    let verb =
        text(if resource.is_null() { &spec["nonResourceAttributes"]["verb"] } else { &resource["verb"] });
    let mut user = json!({"username": spec["user"], "groups": spec["groups"]});
    for (from, to) in [("uid", "uid"), ("extra", "extra")] {
        if !spec[from].is_null() {
            user[to] = spec[from].clone();
        }
    }
    let mut event = json!({
        "level": "Metadata", "auditID": format!("request-{number}"), "stage": "ResponseComplete",
        "requestURI": line["cause"]["path"], "verb": verb, "user": user,
        "requestReceivedTimestamp": "2026-11-01T10:00:00.000000Z",
        "annotations": {
            "authorization.k8s.io/decision": line["decision"], "authorization.k8s.io/reason": line["reason"],
        },
    });
    if !resource.is_null() {
        event["objectRef"] = json!({
            "resource": text(&resource["resource"]), "subresource": text(&resource["subresource"]),
            "apiGroup": text(&resource["group"]), "apiVersion": text(&resource["version"]),
            "namespace": text(&resource["namespace"]), "name": text(&resource["name"]),
        });
    }
    Request { event, review: line["request"].clone() }
}

fn objects() -> Vec<Value> {
    let list: Value = serde_json::from_str(&recorded::text("webhook-authorization/state.json")).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// All events in one list, as an API server sends them.
fn list(requests: &[Request]) -> Value {
    let items: Vec<&Value> = requests.iter().map(|request| &request.event).collect();
    json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": items})
}

#[test]
fn the_same_objects_and_modes_change_nothing_au_122() {
    let requests = requests();
    let allowed = requests.iter().filter(|request| request.was_allowed()).count();
    assert!(allowed > 50 && allowed + 50 < requests.len(), "{allowed}");
    let report = rehearse(&engine(&objects()), &[list(&requests)]);
    let all = requests.len() as u64;
    assert_eq!(counts(&report), [all, all, 0, 0, 0], "{report:#}");
    assert_eq!(report["summary"], "nothing-differs");
}

#[test]
fn an_event_leads_to_the_question_that_kubernetes_asked_au_120() {
    let (allow, deny) = (always(Mode::AlwaysAllow), always(Mode::AlwaysDeny));
    for request in requests() {
        // A mode that decides otherwise, so that the question is in the report.
        let engine = if request.was_allowed() { &deny } else { &allow };
        let examples =
            take(&mut rehearsal(), Some(engine.chain()), std::slice::from_ref(&request.event_alone()));
        let [example] = &*examples else { panic!("{:#}: {examples:#?}", request.event) };
        let mut expected = request.review["spec"].clone();
        expected.as_object_mut().unwrap().remove("extra");
        assert_eq!(example["review"]["spec"], expected, "{:#}", request.event);
        assert_eq!(example["review"]["status"]["allowed"].as_bool(), Some(!request.was_allowed()));
    }
}

impl Request {
    /// The event as a document.
    fn event_alone(&self) -> Value {
        let mut event = self.event.clone();
        event["kind"] = json!("Event");
        event["apiVersion"] = json!("audit.k8s.io/v1");
        event
    }
}

#[test]
fn a_binding_that_is_removed_refuses_exactly_what_reviews_say_au_124() {
    let (requests, objects) = (requests(), objects());
    let is_binding = |object: &Value| object["kind"].as_str().unwrap().ends_with("RoleBinding");
    let mut affected = 0;
    for removed in objects.iter().filter(|object| is_binding(object)) {
        let left: Vec<Value> = objects.iter().filter(|object| *object != removed).cloned().collect();
        let engine = engine(&left);
        // Each asked by a SubjectAccessReview, as Kubernetes sent it.
        let differ = requests.iter().filter(|request| {
            let Ok(Review::Access(review)) = Review::parse(request.review.to_string().as_bytes(), None)
            else {
                panic!("{}", request.review)
            };
            let nobody = User::default();
            let asked = review.attributes(&nobody).unwrap();
            engine.authorize(&asked.attributes()).is_allow() != request.was_allowed()
        });
        let differ = differ.count() as u64;
        affected += differ;
        let all = requests.len() as u64;
        let report = rehearse(&engine, &[list(&requests)]);
        assert_eq!(counts(&report), [all, all - differ, differ, 0, 0], "{removed}: {report:#}");
    }
    assert!(affected > 20, "{affected}");
}

#[test]
fn what_nodes_were_allowed_by_pods_that_are_gone_is_unknown_au_123() {
    let (requests, objects) = (requests(), objects());
    let on_nodes = ["Pod", "VolumeAttachment", "ResourceSlice"];
    let is_on_node = |object: &Value| on_nodes.iter().any(|kind| object["kind"] == *kind);
    let without: Vec<Value> = objects.iter().filter(|object| !is_on_node(object)).cloned().collect();
    let report = rehearse(&engine(&without), &[list(&requests)]);
    let [all, unchanged, refused, allowed, unknown] = counts(&report);
    assert_eq!((refused, allowed), (0, 0), "{report:#}");
    assert!(unknown > 0 && unchanged + unknown == all, "{report:#}");
    assert_eq!(report["unknown"][0]["reason"], "object-gone");
    assert_eq!(report["summary"], "unknown");

    // The same log before the pods were there.
    let refused: Vec<Request> = requests
        .into_iter()
        .filter(Request::was_allowed)
        .map(|mut request| {
            request.event["annotations"]["authorization.k8s.io/decision"] = json!("forbid");
            request
        })
        .collect();
    let report = rehearse(&engine(&objects), &[list(&refused)]);
    let [all, unchanged, refused, allowed, new] = counts(&report);
    assert_eq!((unchanged, refused, new, allowed), (0, 0, unknown, all - unknown), "{report:#}");
    assert_eq!(report["unknown"][0]["reason"], "object-new");
}
