//! The recorded questions, which naive models answered (AU-160).

use std::collections::BTreeMap;

use portcullis_policy::audit::who_can::Listed;
use portcullis_policy::{Attributes, ResourceRequest, User};
use portcullis_testkit::recorded;
use serde_json::Value;

use crate::who_can::support::{State, node_rbac};

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Kind, namespace and name of each subject, with the sorted names of objects.
fn expected(list: &Value) -> BTreeMap<[String; 3], Vec<String>> {
    let subject = |one: &Value| {
        let names = one["resourceNames"].as_array().into_iter().flatten();
        let mut names: Vec<String> = names.map(|name| name.as_str().unwrap().to_owned()).collect();
        names.sort();
        (["kind", "namespace", "name"].map(|field| text(one, field).to_owned()), names)
    };
    list.as_array().into_iter().flatten().map(subject).collect()
}

fn answered(listed: &[Listed]) -> BTreeMap<[String; 3], Vec<String>> {
    let document = serde_json::to_value(listed).unwrap();
    assert_eq!(expected(&document).len(), listed.len(), "each is listed once: {document}");
    expected(&document)
}

#[test]
fn every_recorded_question_is_answered_alike_au_90_to_au_97() {
    let cases: Value = serde_json::from_str(&recorded::text("audit/who-can/cases.json")).unwrap();
    let mut count = 0;
    for case in cases.as_array().unwrap() {
        let state: Value = serde_json::from_str(&recorded::text(text(case, "state"))).unwrap();
        let state = State::new(node_rbac(), state["items"].as_array().unwrap());
        let who_can = state.who_can();
        for line in recorded::lines(text(case, "queries")) {
            let (user, request) = (User::default(), &line["request"]);
            let resource = request["path"].is_null().then(|| ResourceRequest {
                namespace: text(request, "namespace"),
                group: text(request, "group"),
                resource: text(request, "resource"),
                subresource: text(request, "subresource"),
                name: text(request, "name"),
                ..ResourceRequest::default()
            });
            let attributes = Attributes {
                user: &user,
                verb: text(request, "verb"),
                path: text(request, "path"),
                resource,
            };
            let lists = who_can.ask(&attributes, false).lists;
            let question = format!("{}: {}", text(case, "case"), line["args"]);
            assert_eq!(answered(&lists.subjects), expected(&line["subjects"]), "{question}");
            assert_eq!(answered(&lists.limited), expected(&line["limited"]), "{question}");
            assert!(lists.undecided.is_empty(), "{question}");
            count += 1;
        }
    }
    assert_eq!(count, 360);
}
