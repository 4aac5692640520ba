//! Tests of reading, validating and completing reviews.

use portcullis_testkit::recorded;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::chain::{Outcome, Reasons};
use crate::decision::{Decision, Reason};

const SAR: (ReviewKind, ReviewVersion) = (ReviewKind::SubjectAccessReview, ReviewVersion::V1);

fn access(document: &Value) -> AccessReview {
    match Review::read(document, None) {
        Ok(Review::Access(review)) => review,
        other => panic!("{document}: {other:?}"),
    }
}

fn sar(spec: Value) -> AccessReview {
    access(&json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec }))
}

/// The review with an empty status, as JSON.
fn answered(review: &AccessReview) -> Value {
    serde_json::to_value(review.answered(&AccessStatus::default())).unwrap()
}

/// Field and reason of every error.
fn faults(review: &AccessReview) -> Vec<(String, &'static str)> {
    review.validate().into_iter().map(|error| (error.field, error.reason.as_str())).collect()
}

/// The kind of review that a recorded exchange creates, and the namespace of its path.
fn created(case: &Value) -> Option<(ReviewKind, String)> {
    let path = case["path"].as_str().unwrap();
    let rest = path.strip_prefix("/apis/authorization.k8s.io/v1/")?;
    let (namespace, resource) = match rest.strip_prefix("namespaces/") {
        Some(rest) => rest.split_once('/')?,
        None => ("", rest),
    };
    let kind = match (namespace, resource) {
        ("", "subjectaccessreviews") => ReviewKind::SubjectAccessReview,
        ("", "selfsubjectaccessreviews") => ReviewKind::SelfSubjectAccessReview,
        ("", "selfsubjectrulesreviews") => ReviewKind::SelfSubjectRulesReview,
        (_, "localsubjectaccessreviews") if !namespace.is_empty() => ReviewKind::LocalSubjectAccessReview,
        _ => return None,
    };
    (case["method"] == "POST").then(|| (kind, namespace.to_owned()))
}

/// The recordings omit every key `uid`.
fn without_uid(mut document: Value) -> Value {
    document["spec"].as_object_mut().unwrap().remove("uid");
    document
}

#[test]
fn every_recorded_review_is_read_checked_and_answered_as_by_kubernetes() {
    let mut codes = [0, 0, 0];
    let cases = ["http/review-sar.jsonl", "http/review-self.jsonl"].into_iter().flat_map(recorded::lines);
    for case in cases {
        let Some((kind, namespace)) = created(&case) else { continue };
        let code = case["expect"]["code"].as_u64().unwrap();
        if !matches!(code, 201 | 400 | 422) {
            continue; // refused before the body was read
        }
        let body = case["body"].as_str().map_or_else(|| case["body"].to_string(), str::to_owned);
        let read = Review::parse(body.as_bytes(), Some((kind, ReviewVersion::V1)));
        let id = case["id"].as_str().unwrap();
        let expected = &case["expect"]["body"];
        match read {
            Err(error) => assert_eq!(code, 400, "{id}: {error}"),
            Ok(Review::Rules(review)) => assert_eq!(code == 400, review.namespace.is_empty(), "{id}"),
            Ok(Review::Access(mut review)) => {
                if let Err(error) = review.place(&namespace) {
                    assert_eq!(code, 400, "{id}: {error}");
                    codes[1] += 1;
                    continue;
                }
                let sender = User::default();
                match review.attributes(&sender) {
                    Err(errors) => {
                        let causes: Vec<Value> = errors
                            .iter()
                            .map(|e| json!({ "field": e.field, "reason": e.reason.as_str() }))
                            .collect();
                        assert_eq!(&Value::Array(causes), &expected["details"]["causes"], "{id}");
                    }
                    Ok(attributes) => {
                        assert_eq!(code, 201, "{id}");
                        let complaint = attributes.evaluation_error(None).unwrap_or_default();
                        let recorded = expected["status"]["evaluationError"].as_str().unwrap_or_default();
                        assert!(recorded.ends_with(&complaint), "{id}: {complaint:?} in {recorded:?}");
                        assert_eq!(recorded.contains("parse error"), !complaint.is_empty(), "{id}");

                        let mut answer = without_uid(answered(&review));
                        answer["status"] = expected["status"].clone();
                        assert_eq!(&answer, expected, "{id}");
                    }
                }
            }
        }
        codes[match code {
            201 => 0,
            400 => 1,
            _ => 2,
        }] += 1;
    }
    assert!(codes.iter().all(|&count| count > 5), "{codes:?}");
}

#[test]
fn wh_72_the_messages_of_a_refused_review() {
    let messages = |review: &AccessReview| -> Vec<String> {
        review.validate().iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        messages(&sar(json!({}))),
        [
            "spec.resourceAttributes: Invalid value: \"null\": exactly one of nonResourceAttributes or \
             resourceAttributes must be specified",
            "spec.user: Invalid value: \"\": at least one of user or group must be specified",
        ]
    );
    assert_eq!(
        invalid_message(&sar(json!({ "nonResourceAttributes": { "path": "/" } })).validate()),
        ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must \
         be specified"
    );
    let selectors = sar(json!({ "user": "u", "resourceAttributes": { "fieldSelector": {}, "labelSelector": {
        "rawSelector": "a", "requirements": [{ "key": "a b", "operator": "Exists", "values": ["c d"] }, {}]
    } } }));
    let path = "spec.resourceAttributes.labelSelector";
    assert_eq!(
        faults(&selectors),
        [
            ("spec.resourceAttributes.fieldSelector.requirements".to_owned(), "FieldValueRequired"),
            (format!("{path}.rawSelector"), "FieldValueInvalid"),
            (format!("{path}.requirements[0].values"), "FieldValueForbidden"),
            (format!("{path}.requirements[0].key"), "FieldValueInvalid"),
            (format!("{path}.requirements[0].values[0]"), "FieldValueInvalid"),
            // An empty label key has two errors; an unknown operator none.
            (format!("{path}.requirements[1].key"), "FieldValueInvalid"),
            (format!("{path}.requirements[1].key"), "FieldValueInvalid"),
        ]
    );
}

#[test]
fn wh_71_72_74_87_metadata_must_be_empty_apart_from_what_the_server_clears() {
    let with = |metadata: Value| {
        access(&json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": metadata,
            "spec": { "user": "u", "nonResourceAttributes": {} },
        }))
    };
    for metadata in [
        json!(null),
        json!({}),
        json!({ "creationTimestamp": null }),
        json!({ "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "x" }),
        json!({ "managedFields": [{}], "labels": {}, "annotations": null, "finalizers": [], "generation": 0 }),
    ] {
        assert!(with(metadata.clone()).validate().is_empty(), "{metadata}");
    }
    for metadata in [
        json!({ "name": "x" }),
        json!({ "generateName": "x" }),
        json!({ "namespace": "x" }),
        json!({ "labels": { "a": "" } }),
        json!({ "annotations": { "a": "b" } }),
        json!({ "resourceVersion": "1" }),
        json!({ "finalizers": ["a/b"] }),
        json!({ "ownerReferences": [{}] }),
    ] {
        assert_eq!(
            faults(&with(metadata.clone())),
            [("metadata".to_owned(), "FieldValueInvalid")],
            "{metadata}"
        );
    }
    // WH-85
    let mut placed = with(json!({ "namespace": "x" }));
    placed.place("").unwrap();
    assert!(placed.validate().is_empty());
}

#[test]
fn wh_73_a_local_review_stays_in_its_namespace() {
    let local = |namespace: &str, spec: Value| {
        access(&json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview",
            "metadata": { "namespace": namespace }, "spec": spec,
        }))
    };
    let namespace = "spec.resourceAttributes.namespace".to_owned();
    let ok = local("n", json!({ "user": "u", "resourceAttributes": { "namespace": "n" } }));
    assert!(ok.validate().is_empty());
    assert_eq!(answered(&ok)["metadata"], json!({ "namespace": "n" }));
    let empty = local("n", json!({ "user": "u", "resourceAttributes": {} }));
    assert_eq!(faults(&empty), [(namespace.clone(), "FieldValueInvalid")]);
    let path = local("n", json!({ "user": "u", "nonResourceAttributes": {} }));
    assert_eq!(faults(&path), [("spec.nonResourceAttributes".to_owned(), "FieldValueInvalid")]);
    assert_eq!(local("n", json!({})).place("m"), Err(ReviewError::WrongNamespace));
}

#[test]
fn wh_75_attributes_are_verbatim_and_an_empty_version_is_a_star() {
    let review = sar(json!({
        "user": "u", "groups": ["g"], "uid": "7", "extra": { "Scopes": ["a", "b"], "none": null },
        "resourceAttributes": { "verb": "GET", "group": "*", "resource": "Pods", "name": "p", "subresource": "s" },
    }));
    let sender = User::new("sender", ["system:masters"]);
    let read = review.attributes(&sender).unwrap();
    let attributes = read.attributes();
    let resource = attributes.resource.unwrap();
    assert_eq!((attributes.user.name.as_str(), attributes.user.uid.as_str()), ("u", "7"));
    assert_eq!(attributes.user.groups, ["g"]);
    assert_eq!(attributes.user.extra["Scopes"], ["a", "b"]);
    assert!(attributes.user.extra["none"].is_empty());
    assert_eq!((attributes.verb, attributes.path), ("GET", ""));
    assert_eq!((resource.group, resource.resource, resource.version), ("*", "Pods", "*"));
    assert_eq!((resource.name, resource.subresource, resource.namespace), ("p", "s", ""));
}

#[test]
fn a_self_review_is_about_its_sender_whatever_its_spec_says() {
    let review = access(&json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": { "user": "admin", "groups": ["system:masters"], "nonResourceAttributes": { "path": "/x", "verb": "get" } },
    }));
    let sender = User::new("jane", ["system:authenticated"]);
    let read = review.attributes(&sender).unwrap();
    assert_eq!(read.attributes().user, &sender);
    assert_eq!((read.attributes().path, read.attributes().verb), ("/x", "get"));
    assert!(read.attributes().resource.is_none());
    assert_eq!(answered(&review)["spec"].as_object().unwrap().len(), 1);
}

#[test]
fn wh_13_121_v1beta1_says_group_where_v1_says_groups() {
    let groups = |version: &str, key: &str| {
        let review = access(&json!({
            "apiVersion": format!("authorization.k8s.io/{version}"), "kind": "SubjectAccessReview",
            "spec": { "user": "u", key: ["g"], "nonResourceAttributes": {} },
        }));
        (review.user.groups.len(), answered(&review)["spec"].get(key).is_some())
    };
    assert_eq!(groups("v1", "groups"), (1, true));
    assert_eq!(groups("v1", "group"), (0, false));
    assert_eq!(groups("v1beta1", "group"), (1, true));
    assert_eq!(groups("v1beta1", "groups"), (0, false));
}

#[test]
fn wh_86_kind_and_version_may_be_missing_but_not_wrong() {
    let read = |document: Value| Review::read(&document, Some(SAR));
    assert!(read(json!({ "spec": {} })).is_ok());
    assert!(read(json!({ "kind": "SubjectAccessReview" })).is_ok());
    assert!(read(json!(null)).is_ok());
    for document in [
        json!({ "kind": "SelfSubjectAccessReview" }),
        json!({ "apiVersion": "authorization.k8s.io/v1beta1" }),
        json!({ "apiVersion": "v1", "kind": "Pod" }),
        json!([]),
        json!("x"),
    ] {
        assert!(read(document.clone()).is_err(), "{document}");
    }
    // Without an expected kind, the document must contain its kind and version.
    assert!(Review::read(&json!({ "kind": "SubjectAccessReview" }), None).is_err());
    assert!(Review::read(&json!(null), None).is_err());
}

#[test]
fn a_value_of_the_wrong_type_is_an_error_that_names_the_field() {
    for (spec, field) in [
        (json!({ "user": 5 }), "spec.user"),
        (json!({ "groups": "g" }), "spec.groups"),
        (json!({ "groups": ["g", {}] }), "spec.groups[1]"),
        (json!({ "extra": { "k": "v" } }), "spec.extra.k"),
        (json!({ "resourceAttributes": [] }), "spec.resourceAttributes"),
        (json!({ "resourceAttributes": { "verb": true } }), "spec.resourceAttributes.verb"),
        (
            json!({ "resourceAttributes": { "fieldSelector": { "requirements": [null, { "values": [1] }] } } }),
            "spec.resourceAttributes.fieldSelector.requirements[1].values[0]",
        ),
        (json!([]), "spec"),
    ] {
        let error = Review::read(&json!({ "spec": spec }), Some(SAR)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{field}: expected")), "{error}");
    }
    let nulls =
        json!({ "user": null, "groups": [null], "extra": null, "resourceAttributes": null, "unknown": 5 });
    let Ok(Review::Access(review)) = Review::read(&json!({ "spec": nulls }), Some(SAR)) else { panic!() };
    assert_eq!(review.user.groups, [""]);
    assert!(review.resource.is_none());
}

#[test]
fn wh_77_79_what_cannot_be_converted_is_dropped_and_reported() {
    let complaint = |field: Value, label: Value, authorizer: Option<&str>| {
        let review = sar(json!({
            "user": "u", "resourceAttributes": { "fieldSelector": field, "labelSelector": label },
        }));
        let sender = User::default();
        let read = review.attributes(&sender).unwrap();
        let resource = read.attributes().resource.unwrap();
        let left = (resource.field_selector.len(), resource.label_selector.len());
        (left, read.evaluation_error(authorizer))
    };
    let requirement =
        |operator: &str, values: &[&str]| json!({ "key": "k", "operator": operator, "values": values });
    let requirements = |list: Vec<Value>| json!({ "requirements": list });
    let ignored = |field: &str| format!("spec.resourceAttributes.{field} ignored due to parse error");
    let partially =
        |field: &str| format!("spec.resourceAttributes.{field} partially ignored due to parse error");

    assert_eq!(complaint(json!(null), json!(null), None), ((0, 0), None));
    assert_eq!(
        complaint(json!({ "rawSelector": "a=b" }), json!({ "rawSelector": "c" }), None),
        ((1, 1), None)
    );
    assert_eq!(
        complaint(json!({ "rawSelector": "a" }), json!({ "rawSelector": "c in" }), Some("oops")),
        ((0, 0), Some(format!("oops; {}; {}", ignored("fieldSelector"), ignored("labelSelector"))))
    );
    let both = requirements(vec![requirement("In", &["v"]), requirement("Gt", &["1"])]);
    assert_eq!(
        complaint(both.clone(), both, Some("")),
        ((1, 1), Some(format!("{}; {}", partially("fieldSelector"), partially("labelSelector"))))
    );
    let several = requirements(vec![requirement("NotIn", &["v", "w"])]);
    assert_eq!(complaint(several.clone(), several, None), ((0, 1), Some(ignored("fieldSelector"))));
    let exists = requirements(vec![requirement("Exists", &[])]);
    assert_eq!(complaint(exists.clone(), exists, None), ((0, 1), Some(ignored("fieldSelector"))));
}

#[test]
fn wh_78_the_status_follows_the_decision() {
    let review = sar(json!({ "user": "u", "nonResourceAttributes": { "path": "/", "verb": "get" } }));
    let sender = User::default();
    let read = review.attributes(&sender).unwrap();
    let status = |decision, error: Option<&str>| {
        let outcome = Outcome { decision, by: None, error: error.map(str::to_owned) };
        serde_json::to_value(AccessStatus::new(&read, &outcome)).unwrap()
    };
    assert_eq!(status(Decision::Allow(Reasons::new()), None), json!({ "allowed": true }));
    assert_eq!(
        status(Decision::Deny(Reasons::from_iter([Reason::Text("no")])), None),
        json!({ "allowed": false, "denied": true, "reason": "no" })
    );
    assert_eq!(
        status(Decision::NoOpinion(Reasons::new()), Some("broken")),
        json!({ "allowed": false, "evaluationError": "broken" })
    );
}

#[test]
fn wh_91_92_a_rules_answer_has_empty_spec_and_both_lists() {
    let document = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "metadata": { "name": "x" }, "spec": { "namespace": "n" }, "status": { "incomplete": true },
    });
    let Ok(Review::Rules(review)) = Review::read(&document, None) else { panic!() };
    assert_eq!(review.namespace, "n");
    let answer = rules_answer(&review, &crate::rules::RuleListing::default());
    assert_eq!(answer["spec"], json!({}));
    assert_eq!(answer["metadata"], json!({}));
    assert_eq!(answer["status"], json!({ "resourceRules": [], "nonResourceRules": [], "incomplete": false }));
}

proptest! {
    #[test]
    fn no_document_makes_the_reader_panic(bytes in prop::collection::vec(0_u8.., 0..64)) {
        let _ = Review::parse(&bytes, Some(SAR));
    }

    #[test]
    fn what_is_answered_reads_the_same(
        texts in prop::collection::vec("[a-z*/]{0,4}", 12),
        beta: bool,
        resource: bool,
    ) {
        let version = if beta { ReviewVersion::V1beta1 } else { ReviewVersion::V1 };
        let mut texts = texts.into_iter();
        let mut text = || texts.next().unwrap();
        let mut user = User::new(text(), [text(), text()]);
        user.uid = text();
        user.extra.insert(text(), vec![text()]);
        let attributes = ResourceAttributes {
            verb: text(),
            name: text(),
            field_selector: Some(SelectorAttributes { raw: text(), requirements: Vec::new() }),
            ..ResourceAttributes::default()
        };
        let review = AccessReview {
            version,
            kind: ReviewKind::SubjectAccessReview,
            metadata: ReviewMetadata::default(),
            user,
            resource: resource.then_some(attributes),
            non_resource: (!resource).then(|| NonResourceAttributes { path: text(), verb: text() }),
        };
        let document = answered(&review);
        prop_assert_eq!(Review::parse(document.to_string().as_bytes(), None), Ok(Review::Access(review)));
    }
}
