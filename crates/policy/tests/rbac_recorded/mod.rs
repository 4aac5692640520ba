//! RBAC decisions, rule lists and escalation checks equal the recorded ones of Kubernetes 1.36.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test stops where its own set-up fails")]

use std::collections::BTreeSet;

use portcullis_policy::objects::rbac::PolicyRule;
use portcullis_policy::objects::{Kind, Object};
use portcullis_policy::rbac::{RbacIndex, covers};
use portcullis_policy::rules::RuleListing;
use portcullis_policy::{Attributes, Authorizer, ResourceRequest, User};
use portcullis_testkit::recorded;
use serde_json::Value;

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn user(value: &Value) -> User {
    let groups = value["groups"].as_array().into_iter().flatten();
    User::new(text(value, "user"), groups.map(|g| g.as_str().unwrap().to_owned()))
}

fn index(state: &str) -> RbacIndex {
    let state: Value = serde_json::from_str(&recorded::text(state)).unwrap();
    let mut index = RbacIndex::default();
    for item in state["items"].as_array().unwrap() {
        let Some(kind) = Kind::of(text(item, "apiVersion"), text(item, "kind")) else { continue };
        index.apply(Object::parse(kind, &item.to_string()).unwrap());
    }
    index
}

/// A reason of unspecified order as a set: the errors of RB-37, or the one sentence.
fn parts(reason: &str) -> BTreeSet<&str> {
    let errors = reason.strip_prefix("RBAC: [").and_then(|rest| rest.strip_suffix(']'));
    match errors {
        Some(errors) => errors.split(", ").collect(),
        None => BTreeSet::from([reason.trim_start_matches("RBAC: ")]),
    }
}

#[test]
fn every_recorded_review_is_answered_alike_with_the_same_reason() {
    for case in ["case1", "case2", "case3"] {
        let index = index(&format!("rbac/{case}/state.json"));
        let mut allowed = 0;
        for review in recorded::lines(&format!("rbac/{case}/reviews.jsonl")) {
            let (spec, status) = (&review["spec"], &review["status"]);
            let user = user(spec);
            let asked = &spec["resourceAttributes"];
            let path = &spec["nonResourceAttributes"];
            let resource = asked.is_object().then(|| ResourceRequest {
                namespace: text(asked, "namespace"),
                group: text(asked, "group"),
                version: text(asked, "version"),
                resource: text(asked, "resource"),
                subresource: text(asked, "subresource"),
                name: text(asked, "name"),
                ..ResourceRequest::default()
            });
            let verb = text(if resource.is_some() { asked } else { path }, "verb");
            let attributes = Attributes { user: &user, verb, path: text(path, "path"), resource };
            let decision = index.authorize(&attributes);
            assert_eq!(decision.is_allow(), status["allowed"] == true, "{case}: {review}");
            let reason = decision.reason().render(&attributes).to_string();
            let recorded = text(status, "reason");
            if decision.is_allow() {
                allowed += 1;
                // Which of several sufficient bindings is named is unspecified (RB-31).
                assert!(is_sufficient(&index, &attributes, recorded), "{case}: {review}");
                assert!(is_sufficient(&index, &attributes, &reason), "{case}: {reason}: {review}");
            } else {
                assert_eq!(parts(&reason), parts(recorded), "{case}: {review}");
            }
            assert_eq!(index.explain(&attributes).to_string().starts_with("allowed"), decision.is_allow());
        }
        assert!(allowed > 0, "{case} allows something");
    }
}

/// Whether a reason names a binding of the index that grants the request by itself, with its first subject.
fn is_sufficient(index: &RbacIndex, attributes: &Attributes<'_>, reason: &str) -> bool {
    index.bindings().any(|bound| {
        let in_force = bound.is_cluster_wide()
            || attributes
                .resource
                .is_some_and(|r| !r.namespace.is_empty() && r.namespace == bound.namespace());
        let Some(subject) = bound.first_subject(attributes.user).filter(|_| in_force) else { return false };
        let Some(role) = index.role_of(bound) else { return false };
        let binding = match bound.is_cluster_wide() {
            true => format!("ClusterRoleBinding {:?}", bound.name()),
            false => format!("RoleBinding {:?}", format!("{}/{}", bound.name(), bound.namespace())),
        };
        let name = match (subject.kind.as_str(), subject.namespace.as_str()) {
            ("ServiceAccount", "") => format!("{}/{}", subject.name, bound.namespace()),
            ("ServiceAccount", namespace) => format!("{}/{namespace}", subject.name),
            _ => subject.name.clone(),
        };
        let (kind, role_ref) = (&subject.kind, bound.role_ref());
        let grants = role.rules.iter().any(|rule| portcullis_policy::rbac::rule_allows(rule, attributes));
        grants
            && reason
                == format!(
                    "RBAC: allowed by {binding} of {} {:?} to {kind} {name:?}",
                    role_ref.kind, role_ref.name
                )
    })
}

#[test]
fn every_recorded_rule_listing_is_answered_alike_rb_40_to_rb_42() {
    let index = index("rbac/case1/state.json");
    for line in recorded::lines("rbac/case1/rules.jsonl") {
        let (query, status) = (&line["query"], &line["status"]);
        let mut ours = index.rules_for(&user(query), text(query, "namespace"));
        let mut theirs: RuleListing = serde_json::from_value(status.clone()).unwrap();
        ours.resource_rules.sort();
        ours.non_resource_rules.sort();
        theirs.resource_rules.sort();
        theirs.non_resource_rules.sort();
        let error = ours.evaluation_error().unwrap_or_default();
        ours.errors.clear();
        assert_eq!(ours, theirs, "{query}");
        let theirs = text(status, "evaluationError");
        let parts = |text: &str| -> BTreeSet<String> {
            text.trim_matches(['[', ']']).split(", ").map(str::to_owned).collect()
        };
        assert_eq!(parts(&error), parts(theirs), "{query}");
    }
}

#[test]
fn every_recorded_cover_is_computed_alike_in_the_same_order_rb_65() {
    for line in recorded::lines("rbac/covers.jsonl") {
        let rules = |field: &str| -> Vec<PolicyRule> { serde_json::from_value(line[field].clone()).unwrap() };
        let (covered, uncovered) = covers(&rules("owner"), &rules("servant"));
        assert_eq!(covered, line["covers"] == true, "{line}");
        assert_eq!(uncovered, rules("uncovered"), "{line}");
    }
}
