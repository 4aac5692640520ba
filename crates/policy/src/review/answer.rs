//! Completed reviews: the document with its status (WH-78, WH-79, WH-91, WH-92, WH-94).

use serde_json::{Map, Value, json};

use super::{
    AccessReview, NonResourceAttributes, ResourceAttributes, ReviewAttributes, ReviewKind, RulesReview,
    SelectorAttributes,
};
use crate::decision::Decision;
use crate::rules::RuleListing;

/// The answer to an access review (WH-78).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessStatus {
    /// The decision is Allow.
    pub allowed: bool,
    /// The decision is Deny; never together with `allowed`.
    pub denied: bool,
    /// The authorizer's reason, or empty.
    pub reason: String,
    /// What went wrong on the way, or empty. It changes no decision.
    pub evaluation_error: String,
}

impl AccessStatus {
    /// The answer that a decision gives. An authorizer's error does not make the review fail (WH-80).
    pub fn new(review: &ReviewAttributes<'_>, decision: &Decision, authorizer_error: Option<&str>) -> Self {
        Self {
            allowed: decision.is_allow(),
            denied: matches!(decision, Decision::Deny(_)),
            reason: decision.reason().render(&review.attributes()).to_string(),
            evaluation_error: review.evaluation_error(authorizer_error).unwrap_or_default(),
        }
    }

    /// The status as JSON: `allowed` always, the rest where it is not empty.
    pub fn to_value(&self) -> Value {
        let mut status = Map::new();
        status.insert("allowed".to_owned(), Value::Bool(self.allowed));
        if self.denied {
            status.insert("denied".to_owned(), Value::Bool(true));
        }
        put(&mut status, "reason", &self.reason);
        put(&mut status, "evaluationError", &self.evaluation_error);
        Value::Object(status)
    }
}

impl AccessReview {
    /// The review with its answer. The spec comes back as it was read: unknown and empty fields are gone, and so is
    /// whatever status was sent (WH-78).
    pub fn answered(&self, status: &AccessStatus) -> Value {
        let mut metadata = Map::new();
        if self.kind == ReviewKind::LocalSubjectAccessReview {
            put(&mut metadata, "namespace", &self.metadata.namespace);
        }
        json!({
            "apiVersion": self.version.api_version(),
            "kind": self.kind.as_str(),
            "metadata": metadata,
            "spec": self.spec(),
            "status": status.to_value(),
        })
    }

    fn spec(&self) -> Value {
        let mut spec = Map::new();
        if let Some(resource) = &self.resource {
            spec.insert("resourceAttributes".to_owned(), resource_attributes(resource));
        }
        if let Some(NonResourceAttributes { path, verb }) = &self.non_resource {
            let mut attributes = Map::new();
            put(&mut attributes, "path", path);
            put(&mut attributes, "verb", verb);
            spec.insert("nonResourceAttributes".to_owned(), Value::Object(attributes));
        }
        if self.kind.names_subject() {
            put(&mut spec, "user", &self.user.name);
            if !self.user.groups.is_empty() {
                spec.insert(self.version.groups_key().to_owned(), json!(self.user.groups));
            }
            if !self.user.extra.is_empty() {
                spec.insert("extra".to_owned(), json!(self.user.extra));
            }
            put(&mut spec, "uid", &self.user.uid);
        }
        Value::Object(spec)
    }
}

fn resource_attributes(resource: &ResourceAttributes) -> Value {
    let mut attributes = Map::new();
    put(&mut attributes, "namespace", &resource.namespace);
    put(&mut attributes, "verb", &resource.verb);
    put(&mut attributes, "group", &resource.group);
    put(&mut attributes, "version", &resource.version);
    put(&mut attributes, "resource", &resource.resource);
    put(&mut attributes, "subresource", &resource.subresource);
    put(&mut attributes, "name", &resource.name);
    for (key, selector) in
        [("fieldSelector", &resource.field_selector), ("labelSelector", &resource.label_selector)]
    {
        if let Some(selector) = selector {
            attributes.insert(key.to_owned(), selector_attributes(selector));
        }
    }
    Value::Object(attributes)
}

fn selector_attributes(selector: &SelectorAttributes) -> Value {
    let mut attributes = Map::new();
    put(&mut attributes, "rawSelector", &selector.raw);
    let requirements: Vec<Value> = selector
        .requirements
        .iter()
        .map(|requirement| {
            let mut object = Map::new();
            object.insert("key".to_owned(), json!(requirement.key));
            object.insert("operator".to_owned(), json!(requirement.operator));
            if !requirement.values.is_empty() {
                object.insert("values".to_owned(), json!(requirement.values));
            }
            Value::Object(object)
        })
        .collect();
    if !requirements.is_empty() {
        attributes.insert("requirements".to_owned(), Value::Array(requirements));
    }
    Value::Object(attributes)
}

fn put(object: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        object.insert(key.to_owned(), Value::String(text.to_owned()));
    }
}

/// The answer to a rules review: the status only, spec and metadata empty (WH-91, WH-94). Both lists are there even
/// when they are empty (WH-92).
pub fn rules_answer(review: &RulesReview, listing: &RuleListing) -> Value {
    let mut status = json!({
        "resourceRules": listing.resource_rules,
        "nonResourceRules": listing.non_resource_rules,
        "incomplete": listing.incomplete,
    });
    if let (Some(error), Some(status)) = (listing.evaluation_error(), status.as_object_mut()) {
        put(status, "evaluationError", &error);
    }
    json!({
        "apiVersion": review.version.api_version(),
        "kind": ReviewKind::SelfSubjectRulesReview.as_str(),
        "metadata": {},
        "spec": {},
        "status": status,
    })
}
