//! Replays recorded admission reviews (NR-114).

use portcullis_policy::FeatureGates;
use portcullis_policy::restriction::NodeRestriction;
use portcullis_policy::restriction::review::AdmissionReview;
use portcullis_testkit::recorded;
use serde_json::Value;

use crate::node_restriction::support::{Pkcs10, Silent, cache};

/// What is compared: everything but the words.
fn essence(review: &Value) -> Value {
    let mut response = review["response"].clone();
    if let Some(status) = response["status"].as_object_mut() {
        let message = status.remove("message").unwrap();
        assert!(!message.as_str().unwrap().is_empty());
    }
    response
}

#[test]
fn every_recorded_review_is_answered_as_kubernetes_did_nr_114() {
    let mut checked = 0;
    let mut differences = Vec::new();
    for case in 1..=5 {
        let folder = format!("node-restriction/case{case}");
        let state: Value = serde_json::from_str(&recorded::text(&format!("{folder}/state.json"))).unwrap();
        let cache = cache(state["items"].as_array().unwrap());
        let plugin = NodeRestriction::new(&cache, FeatureGates::default()).with_certificate_requests(&Pkcs10);
        for line in recorded::text(&format!("{folder}/admission.jsonl")).lines() {
            let recorded: Value = serde_json::from_str(line).unwrap();
            let mut question = recorded.clone();
            question.as_object_mut().unwrap().remove("response");
            let question = question.to_string();
            let review = AdmissionReview::parse(&question).unwrap();
            let response = review.response(plugin.admit(&review.request(), &Silent));
            let completed: Value = serde_json::from_str(&review.completed(response).unwrap()).unwrap();
            assert_eq!(completed["request"], recorded["request"]);
            checked += 1;
            if essence(&completed) != essence(&recorded) {
                differences.push(format!("{folder}: {}\n  here {}", line, completed["response"]));
            }
        }
    }
    assert_eq!(checked, 10_000);
    assert!(
        differences.is_empty(),
        "{} of {checked} differ:\n{}",
        differences.len(),
        differences.iter().take(10).cloned().collect::<Vec<_>>().join("\n")
    );
}
