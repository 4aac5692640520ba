//! Rules that several kinds share: node selectors, label selectors, tolerations.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;

use super::formats::{dns_subdomain, label_value, one_of, qualified_name};
use crate::Map;
use crate::fields::{ErrorList, Errors, Members};
use crate::schema::values;

/// Validates labels, or the labels of a selector.
pub(super) fn validate_labels(field: &str, labels: &Map) -> Errors {
    let value = |value: &serde_json::Value| label_value(field, value.as_str().unwrap_or_default());
    labels.iter().flat_map(|(key, v)| qualified_name(field, key).into_iter().chain(value(v))).collect()
}

/// Validates a label selector. Invalid label values can be tolerated.
pub(super) fn validate_label_selector(field: &str, selector: &Map, checks_values: bool) -> Errors {
    let mut errors = validate_labels(&format!("{field}.matchLabels"), selector.object("matchLabels"));
    for (i, requirement) in selector.objects("matchExpressions").enumerate() {
        let field = format!("{field}.matchExpressions[{i}]");
        match requirement.text("operator") {
            "In" | "NotIn" => errors.extend(needs_values(&field, requirement)),
            "Exists" | "DoesNotExist" => errors.extend(has_no_values(&field, requirement)),
            operator => errors.push(not_an_operator(&field, operator)),
        }
        validate_key_and_values(&field, requirement, checks_values, &mut errors);
    }
    errors
}

/// Validates a node selector.
pub(super) fn validate_node_selector(field: &str, selector: &Map) -> Errors {
    let field = format!("{field}.nodeSelectorTerms");
    if selector.list("nodeSelectorTerms").is_empty() {
        return Errors::from([FieldError::required(field, "must have at least one node selector term")]);
    }
    let mut errors = Errors::new();
    for (i, term) in selector.objects("nodeSelectorTerms").enumerate() {
        for (j, requirement) in term.objects("matchExpressions").enumerate() {
            validate_node_labels(&format!("{field}[{i}].matchExpressions[{j}]"), requirement, &mut errors);
        }
        for (j, requirement) in term.objects("matchFields").enumerate() {
            validate_node_field(&format!("{field}[{i}].matchFields[{j}]"), requirement, &mut errors);
        }
    }
    errors
}

fn validate_node_labels(field: &str, requirement: &Map, errors: &mut Errors) {
    match requirement.text("operator") {
        "In" | "NotIn" => errors.extend(needs_values(field, requirement)),
        "Exists" | "DoesNotExist" => errors.extend(has_no_values(field, requirement)),
        "Gt" | "Lt" => errors.extend(needs_one_value(field, requirement)),
        operator => errors.push(not_an_operator(field, operator)),
    }
    validate_key_and_values(field, requirement, true, errors);
}

fn validate_node_field(field: &str, requirement: &Map, errors: &mut Errors) {
    match requirement.text("operator") {
        "In" | "NotIn" => errors.extend(needs_one_value(field, requirement)),
        operator => errors.push(not_an_operator(field, operator)),
    }
    match requirement.text("key") {
        "metadata.name" => errors.extend(values(field, requirement, dns_subdomain)),
        key => {
            let detail = "not a valid field selector key";
            errors.push(FieldError::invalid(format!("{field}.key"), quoted(key), detail));
        }
    }
}

fn validate_key_and_values(field: &str, requirement: &Map, checks_values: bool, errors: &mut Errors) {
    errors.extend(qualified_name(&format!("{field}.key"), requirement.text("key")));
    if checks_values {
        errors.extend(values(field, requirement, label_value));
    }
}

fn values(field: &str, requirement: &Map, check: fn(&str, &str) -> Errors) -> Errors {
    let values = requirement.texts("values").enumerate();
    values.flat_map(|(i, value)| check(&format!("{field}.values[{i}]"), value)).collect()
}

fn needs_values(field: &str, requirement: &Map) -> Option<FieldError> {
    let detail = "must be specified when `operator` is 'In' or 'NotIn'";
    requirement.list("values").is_empty().then(|| FieldError::required(format!("{field}.values"), detail))
}

fn has_no_values(field: &str, requirement: &Map) -> Option<FieldError> {
    let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
    (!requirement.list("values").is_empty()).then(|| FieldError::forbidden(format!("{field}.values"), detail))
}

fn needs_one_value(field: &str, requirement: &Map) -> Option<FieldError> {
    let detail = "must be one value with this `operator`";
    (requirement.list("values").len() != 1).then(|| FieldError::required(format!("{field}.values"), detail))
}

fn not_an_operator(field: &str, operator: &str) -> FieldError {
    FieldError::invalid(format!("{field}.operator"), quoted(operator), "not a valid selector operator")
}

/// Validates tolerations of node taints.
pub(super) fn validate_tolerations(field: &str, owner: &Map) -> Errors {
    owner
        .objects("tolerations")
        .enumerate()
        .flat_map(|(i, toleration)| validate_toleration(&format!("{field}[{i}]"), toleration))
        .collect()
}

fn validate_toleration(field: &str, toleration: &Map) -> Errors {
    let (key, operator) = (toleration.text("key"), toleration.text("operator"));
    let (value, effect) = (toleration.text("value"), toleration.text("effect"));
    let at_operator = format!("{field}.operator");
    let mut errors = Errors::new();
    if !key.is_empty() {
        errors.extend(qualified_name(&format!("{field}.key"), key));
    }
    let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
    errors.push_if(key.is_empty() && operator != "Exists", || {
        FieldError::invalid(&at_operator, quoted(operator), detail)
    });
    if toleration.has("tolerationSeconds") && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(format!("{field}.effect"), quoted(effect), detail));
    }
    match operator {
        "" | "Equal" => {
            // All errors of the value are reported as one, with the path of the operator.
            let wrong = label_value(&at_operator, value).into_iter().next();
            errors.extend(wrong);
        }
        "Exists" if !value.is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(&at_operator, quoted(value), detail));
        }
        "Exists" => {}
        operator => {
            errors.push(FieldError::not_supported(&at_operator, quoted(operator), &["Equal", "Exists"]));
        }
    }
    if !effect.is_empty() {
        errors.extend(one_of(&format!("{field}.effect"), effect, values::TAINT_EFFECTS));
    }
    errors
}
