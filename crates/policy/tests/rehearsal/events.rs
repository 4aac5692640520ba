//! Which events count, and which cannot be judged.

use portcullis_policy::Mode;
use portcullis_policy::rehearsal::{DocumentError, each_event};
use serde_json::{Value, json};

use crate::rehearsal::support::{always, counts, rehearsal, rehearse, report, secret, take, with};

fn complete() -> Value {
    secret("a", "jane", "db", "allow")
}

#[test]
fn a_request_counts_once_whatever_its_stages_and_however_often_they_come_au_120() {
    let deny = always(Mode::AlwaysDeny);
    let stages = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|stage| with(&complete(), "/stage", json!(stage))).collect()
    };
    let watched = ["RequestReceived", "ResponseStarted", "ResponseComplete"];
    for (names, early, repeated) in [
        (&["ResponseComplete"][..], 0, 0),
        (&["Panic"], 0, 0),
        (&["ResponseStarted"], 0, 0),
        (&watched, 1, 1),
        (&["ResponseStarted", "Panic"], 0, 1),
        // Delivered again, in another order.
        (&["ResponseComplete", "ResponseStarted", "ResponseComplete", "RequestReceived"], 1, 2),
        (&["ResponseStarted", "ResponseStarted", "ResponseComplete", "ResponseStarted"], 0, 3),
    ] {
        let report = rehearse(&deny, &stages(names));
        assert_eq!(counts(&report), [1, 0, 1, 0, 0], "{names:?}: {report:#}");
        let none = &report["noDecisions"];
        assert_eq!((&none["early"], &none["repeated"]), (&json!(early), &json!(repeated)), "{names:?}");
    }
    let report = rehearse(&deny, &stages(&["RequestReceived"]));
    assert_eq!((counts(&report), &report["summary"]), ([0; 5], &json!("nothing-judged")));
}

#[test]
fn a_client_that_repeats_its_audit_id_hides_nothing() {
    let deny = always(Mode::AlwaysDeny);
    let one = complete();
    let others = [
        with(&one, "/requestReceivedTimestamp", json!("2026-11-01T10:00:00.000001Z")),
        with(&one, "/user/username", json!("john")),
        secret("a", "jane", "other", "allow"),
    ];
    let report = rehearse(&deny, &[&[one][..], &others].concat());
    assert_eq!(counts(&report), [4, 0, 4, 0, 0], "{report:#}");
}

#[test]
fn what_never_reached_the_authorizers_is_no_decision() {
    let deny = always(Mode::AlwaysDeny);
    let silent = with(&complete(), "/annotations", Value::Null);
    let of_code = |code: u16| with(&silent, "/responseStatus/code", json!(code));
    for (code, count) in [(401, "notAuthenticated"), (429, "notAsked"), (400, "notAsked"), (504, "notAsked")]
    {
        let report = rehearse(&deny, &[of_code(code)]);
        assert_eq!(counts(&report), [0; 5], "{code}");
        assert_eq!(report["noDecisions"][count], 1, "{code}: {report:#}");
    }
    // Admission and impersonation answer 403 as well, and a 200 may have lost its annotations.
    let failed = json!({"authorization.k8s.io/reason": "internal error"});
    for event in [
        of_code(200),
        of_code(403),
        of_code(404),
        with(&silent, "/responseStatus", Value::Null),
        with(&of_code(500), "/annotations", failed),
        with(&complete(), "/annotations/authorization.k8s.io~1decision", json!("maybe")),
    ] {
        let report = rehearse(&deny, std::slice::from_ref(&event));
        assert_eq!(counts(&report), [1, 0, 0, 0, 1], "{event}");
        assert_eq!(report["unknown"][0]["reason"], "no-decision", "{event}");
        assert_eq!(report["summary"], "unknown");
    }
}

#[test]
fn what_is_missing_or_contradictory_is_unknown_with_its_reason_au_123() {
    let allow = always(Mode::AlwaysAllow);
    let event = complete();
    let long = format!("/{}...TRUNCATED", "a".repeat(1024));
    for (event, reason) in [
        (with(&event, "/user", Value::Null), "incomplete"),
        (with(&event, "/requestURI", json!("")), "incomplete"),
        (with(&event, "/requestURI", json!("secrets")), "incomplete"),
        (with(&event, "/user/groups", Value::Null), "no-groups"),
        (with(&event, "/user/groups", json!([])), "no-groups"),
        (with(&event, "/requestURI", json!(long)), "truncated"),
        (with(&event, "/verb", json!("list")), "contradictory"),
        (with(&event, "/verb", json!("update ")), "contradictory"),
        (with(&event, "/objectRef/name", json!("other")), "contradictory"),
        (with(&event, "/objectRef/namespace", json!("other")), "contradictory"),
        (with(&event, "/objectRef/apiGroup", json!("apps")), "contradictory"),
        (with(&event, "/objectRef/subresource", json!("status")), "contradictory"),
        (with(&event, "/objectRef", Value::Null), "contradictory"),
        (with(&event, "/requestURI", json!("/version")), "contradictory"),
        (with(&event, "/requestURI", json!("/%zz")), "contradictory"),
        (with(&event, "/stage", json!("Later")), "undecodable"),
        (with(&event, "/stage", Value::Null), "undecodable"),
        (with(&event, "/verb", json!(1)), "undecodable"),
        (with(&event, "/user/groups", json!("a")), "undecodable"),
    ] {
        let report = rehearse(&allow, std::slice::from_ref(&event));
        assert_eq!(counts(&report), [1, 0, 0, 0, 1], "{event}: {report:#}");
        assert_eq!(report["unknown"][0]["reason"], reason, "{event}");
    }
    let mut rehearsal = rehearsal();
    take(&mut rehearsal, None, &[complete()]);
    assert_eq!(report(&rehearsal)["unknown"][0]["reason"], "cluster-not-known");
}

#[test]
fn the_name_of_the_body_is_not_what_was_authorized() {
    // A create has its name in the body: Kubernetes adds it to objectRef, and authorizers never saw it (AC-3).
    let created = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "auditID": "c", "stage": "ResponseComplete",
        "verb": "create", "requestURI": "/api/v1/namespaces/shop/configmaps?fieldManager=kubectl",
        "user": {"username": "jane", "groups": ["system:authenticated"]},
        "objectRef": {"resource": "configmaps", "namespace": "shop", "name": "settings", "apiVersion": "v1"},
        "annotations": {"authorization.k8s.io/decision": "allow"},
    });
    let examples = take(&mut rehearsal(), Some(always(Mode::AlwaysDeny).chain()), &[created]);
    let asked = &examples[0]["review"]["spec"]["resourceAttributes"];
    assert_eq!((&asked["verb"], &asked["namespace"]), (&json!("create"), &json!("shop")));
    assert!(asked.get("name").is_none(), "{asked}");
}

#[test]
fn paths_and_selectors_are_asked_as_the_request_had_them() {
    let event = |verb: &str, uri: &str| {
        let event = with(&complete(), "/verb", json!(verb));
        with(&with(&event, "/objectRef", Value::Null), "/requestURI", json!(uri))
    };
    let deny = always(Mode::AlwaysDeny);
    let ask =
        |event: Value| take(&mut rehearsal(), Some(deny.chain()), &[event])[0]["review"]["spec"].clone();
    let asked = ask(event("head", "/metrics/slis?token=secret"));
    assert_eq!(asked["nonResourceAttributes"], json!({"path": "/metrics/slis", "verb": "head"}));
    let pods = json!({"resource": "pods", "apiVersion": "v1"});
    let uri = "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1&labelSelector=app+in+(a,b),!c";
    let asked = ask(with(&event("watch", uri), "/objectRef", pods));
    assert_eq!(
        asked["resourceAttributes"],
        json!({
            "verb": "watch", "version": "v1", "resource": "pods",
            "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]},
            "labelSelector": {"requirements": [
                {"key": "app", "operator": "In", "values": ["a", "b"]},
                {"key": "c", "operator": "DoesNotExist"},
            ]},
        })
    );
}

#[test]
fn an_impersonated_user_is_asked_for_and_masters_are_allowed_everything() {
    let event = with(&complete(), "/user/groups", json!(["system:masters", "system:authenticated"]));
    assert_eq!(counts(&rehearse(&always(Mode::AlwaysDeny), std::slice::from_ref(&event))), [1, 1, 0, 0, 0]);
    let other = json!({"username": "john", "groups": ["system:authenticated"]});
    let report = rehearse(&always(Mode::AlwaysDeny), &[with(&event, "/impersonatedUser", other)]);
    assert_eq!(counts(&report), [1, 0, 1, 0, 0]);
    assert_eq!(report["changed"][0]["subject"], json!({"kind": "User", "name": "john"}));
}

#[test]
fn other_documents_are_refused() {
    let read = |document: &str| each_event(document.as_bytes(), &mut |_| {});
    for document in ["", "{", "[]", "null", "1", r#"{"kind":"Event","kind":"Event"}"#, "{} {}", "\u{0}"] {
        assert!(matches!(read(document), Err(DocumentError::NotJson(_))), "{document}");
    }
    assert!(matches!(each_event(b"\xff", &mut |_| {}), Err(DocumentError::NotJson(_))));
    for (kind, version) in [("Event", "v1"), ("Event", "audit.k8s.io/v1beta1"), ("Pod", "v1"), ("", "")] {
        let document = json!({"kind": kind, "apiVersion": version, "items": []}).to_string();
        assert!(matches!(read(&document), Err(DocumentError::WrongKind { .. })), "{document}");
    }
    for items in [json!(null), json!([])] {
        let document = json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": items});
        assert_eq!(read(&document.to_string()), Ok(()), "{document}");
    }
    // One item that cannot be read stops no other.
    let event = complete();
    let document = json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [1, event, {}]});
    let mut read = Vec::new();
    each_event(document.to_string().as_bytes(), &mut |event| read.push(event.is_ok())).unwrap();
    assert_eq!(read, [false, true, false]);
}
