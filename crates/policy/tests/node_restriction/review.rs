//! A review without a question is never allowed.

use portcullis_policy::FeatureGates;
use portcullis_policy::restriction::review::{AdmissionReview, ReviewError};
use portcullis_policy::restriction::{NodeRestriction, ObjectCache};
use serde_json::{Value, json};

use crate::node_restriction::support::{Pkcs10, Silent};

fn question() -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
        "uid": "u", "operation": "DELETE", "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "p", "namespace": "ns",
        "userInfo": {"username": "system:node:n0", "groups": ["system:nodes"]}}})
}

#[test]
fn a_review_without_what_decides_is_an_error() {
    for part in ["operation", "resource", "userInfo"] {
        let mut review = question();
        review["request"].as_object_mut().unwrap().remove(part);
        let error = AdmissionReview::parse(&review.to_string()).unwrap_err();
        assert!(matches!(error, ReviewError::Missing(missing) if missing.ends_with(part)), "{part}: {error}");
    }
    for (path, value) in [
        ("/request", json!(null)),
        ("/request/operation", json!("PATCH")),
        ("/request/operation", json!(null)),
        ("/request/resource/resource", json!("")),
        ("/request/userInfo", json!(null)),
        ("/request/userInfo/groups", json!("system:nodes")),
        ("/request/namespace", json!(1)),
        ("/apiVersion", json!("admission.k8s.io/v1alpha1")),
        ("/kind", json!("TokenReview")),
    ] {
        let mut review = question();
        *review.pointer_mut(path).unwrap() = value;
        assert!(AdmissionReview::parse(&review.to_string()).is_err(), "{review}");
    }
    for text in ["", "{}", "null", "[]", "{\"kind\":", "\"AdmissionReview\""] {
        assert!(AdmissionReview::parse(text).is_err(), "{text}");
    }
}

#[test]
fn an_answer_carries_the_uid_and_goes_with_or_without_the_question() {
    let cache = ObjectCache::default();
    let plugin = NodeRestriction::new(&cache, FeatureGates::default()).with_certificate_requests(&Pkcs10);
    let text = question().to_string();
    let review = AdmissionReview::parse(&text).unwrap();
    let response = review.response(plugin.admit(&review.request(), &Silent));
    let completed: Value = serde_json::from_str(&review.completed(response).unwrap()).unwrap();
    assert_eq!(completed["request"], question()["request"]);
    assert_eq!(completed["response"]["uid"], "u");
    assert_eq!(completed["response"]["status"]["code"], 404);
    let reply: Value = serde_json::from_str(&review.reply(review.response(Ok(()))).unwrap()).unwrap();
    assert_eq!(
        reply,
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": {"uid": "u", "allowed": true}})
    );
}

#[test]
fn an_answer_is_in_the_version_of_its_question_bc_5() {
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let mut question = question();
        question["apiVersion"] = json!(version);
        let text = question.to_string();
        let review = AdmissionReview::parse(&text).unwrap();
        let reply: Value = serde_json::from_str(&review.reply(review.response(Ok(()))).unwrap()).unwrap();
        assert_eq!(reply["apiVersion"], version);
    }
}
