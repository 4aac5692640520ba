//! What names, keys and label selectors may look like.

use portcullis_policy::field_error::FieldError;
use portcullis_policy::selector::syntax::{label_key_errors, label_value_errors};
use serde_json::Value;

use crate::Map;
use crate::names;
use crate::resources::fields::{list, object, objects, text, texts};

/// The finalizers that need no prefix.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// What is wrong with a text, under its path.
pub(super) type TextRule = fn(&str, &str) -> Vec<FieldError>;

/// What is wrong with a key of a ConfigMap or a Secret (AP-132), one message per rule that it breaks.
pub(super) fn data_key_errors(field: &str, key: &str) -> Vec<FieldError> {
    let mut details = Vec::new();
    if key.len() > names::MAX_SUBDOMAIN {
        details.push("must be no more than 253 bytes");
    }
    let is_known = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(is_known) {
        details.push("a valid key must consist of alphanumeric characters, '-', '_' or '.'");
    }
    match key {
        "." => details.push("must not be '.'"),
        ".." => details.push("must not be '..'"),
        key if key.starts_with("..") => details.push("must not start with '..'"),
        _ => {}
    }
    details.into_iter().map(|detail| FieldError::invalid(field, key, detail)).collect()
}

/// What is wrong with a finalizer: it is a qualified name, and one of Kubernetes' own if it has no prefix.
pub(super) fn finalizer_errors(field: &str, finalizer: &str) -> Vec<FieldError> {
    let mut errors = qualified_name_errors(field, finalizer);
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(field, finalizer, detail));
    }
    errors
}

/// What is wrong with a qualified name, such as a label key.
pub(super) fn qualified_name_errors(field: &str, name: &str) -> Vec<FieldError> {
    label_key_errors(name).into_iter().map(|detail| FieldError::invalid(field, name, detail)).collect()
}

/// What is wrong with a DNS subdomain, such as the name of most objects.
pub(super) fn subdomain_errors(field: &str, name: &str) -> Vec<FieldError> {
    let details = names::subdomain_errors(name).into_iter();
    details.map(|detail| FieldError::invalid(field, name, detail)).collect()
}

/// What is wrong with a DNS label, such as the name of a namespace.
pub(super) fn dns_label_errors(field: &str, name: &str) -> Vec<FieldError> {
    let details = names::label_errors(name).into_iter();
    details.map(|detail| FieldError::invalid(field, name, detail)).collect()
}

/// What is wrong with a map of labels, all under its path.
pub(super) fn labels_errors(field: &str, labels: &Map) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        errors.extend(qualified_name_errors(field, key));
        errors.extend(label_value_faults(field, value.as_str().unwrap_or_default()));
    }
    errors
}

/// What is wrong with a label value.
pub(super) fn label_value_faults(field: &str, value: &str) -> Vec<FieldError> {
    label_value_errors(value).into_iter().map(|detail| FieldError::invalid(field, value, detail)).collect()
}

/// What is wrong with a selector of labels (`matchLabels`, `matchExpressions`).
pub(super) fn label_selector_errors(field: &str, selector: &Map) -> Vec<FieldError> {
    let mut errors = labels_errors(&format!("{field}.matchLabels"), object(selector, "matchLabels"));
    for (i, requirement) in objects(selector, "matchExpressions").enumerate() {
        let field = format!("{field}.matchExpressions[{i}]");
        let count = list(requirement, "values").len();
        errors.extend(match text(requirement, "operator") {
            "In" | "NotIn" => needs_values(&field, count > 0),
            "Exists" | "DoesNotExist" => takes_no_values(&field, count),
            operator => Some(unknown_operator(&field, operator)),
        });
        errors.extend(qualified_name_errors(&format!("{field}.key"), text(requirement, "key")));
        errors.extend(values_errors(&field, requirement));
    }
    errors
}

/// What is wrong with a selector of nodes (`nodeSelectorTerms`).
pub(super) fn node_selector_errors(field: &str, selector: &Map) -> Vec<FieldError> {
    let field = format!("{field}.nodeSelectorTerms");
    if list(selector, "nodeSelectorTerms").is_empty() {
        return vec![FieldError::required(field, "must have at least one node selector term")];
    }
    let mut errors = Vec::new();
    for (i, term) in objects(selector, "nodeSelectorTerms").enumerate() {
        for (j, requirement) in objects(term, "matchExpressions").enumerate() {
            errors.extend(node_label_errors(&format!("{field}[{i}].matchExpressions[{j}]"), requirement));
        }
        for (j, requirement) in objects(term, "matchFields").enumerate() {
            errors.extend(node_field_errors(&format!("{field}[{i}].matchFields[{j}]"), requirement));
        }
    }
    errors
}

fn node_label_errors(field: &str, requirement: &Map) -> Vec<FieldError> {
    let count = list(requirement, "values").len();
    let mut errors: Vec<FieldError> = match text(requirement, "operator") {
        "In" | "NotIn" => needs_values(field, count > 0),
        "Exists" | "DoesNotExist" => takes_no_values(field, count),
        "Gt" | "Lt" => needs_values(field, count == 1),
        operator => Some(unknown_operator(field, operator)),
    }
    .into_iter()
    .collect();
    errors.extend(values_errors(field, requirement));
    errors.extend(qualified_name_errors(&format!("{field}.key"), text(requirement, "key")));
    errors
}

fn node_field_errors(field: &str, requirement: &Map) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = match text(requirement, "operator") {
        "In" | "NotIn" => needs_values(field, list(requirement, "values").len() == 1),
        operator => Some(unknown_operator(field, operator)),
    }
    .into_iter()
    .collect();
    match text(requirement, "key") {
        "metadata.name" => errors.extend(
            texts(requirement, "values")
                .enumerate()
                .flat_map(|(i, value)| subdomain_errors(&format!("{field}.values[{i}]"), value)),
        ),
        key => {
            errors.push(FieldError::invalid(format!("{field}.key"), key, "not a valid field selector key"));
        }
    }
    errors
}

fn needs_values(field: &str, has_them: bool) -> Option<FieldError> {
    (!has_them)
        .then(|| FieldError::required(format!("{field}.values"), "must be specified for this operator"))
}

fn takes_no_values(field: &str, count: usize) -> Option<FieldError> {
    (count > 0)
        .then(|| FieldError::forbidden(format!("{field}.values"), "may not be specified for this operator"))
}

fn unknown_operator(field: &str, operator: &str) -> FieldError {
    FieldError::invalid(format!("{field}.operator"), operator, "not a valid selector operator")
}

fn values_errors(field: &str, requirement: &Map) -> impl Iterator<Item = FieldError> {
    list(requirement, "values")
        .iter()
        .map(|value| Value::as_str(value).unwrap_or_default())
        .enumerate()
        .flat_map(move |(i, value)| label_value_faults(&format!("{field}.values[{i}]"), value))
}
