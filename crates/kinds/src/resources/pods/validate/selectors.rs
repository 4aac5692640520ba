//! Validation of labels and label selectors.

use portcullis_apimachinery::names;

use crate::fields::{Errors, Field};

/// Validates a map of labels. Errors have the path of the map, not of the label.
pub(super) fn labels(labels: &Field<'_>, errors: &mut Errors) {
    for (key, value) in labels.entries() {
        let map = value.named(labels.path());
        errors.extend(
            names::label_key_errors(key).into_iter().map(|fault| map.invalid(format!("{key:?} {fault}"))),
        );
        errors.extend(map.faults(names::label_value_errors));
    }
}

/// Validates an optional label selector. Old selectors may keep invalid label values.
pub(super) fn selector(selector: &Field<'_>, keeps_values: bool, errors: &mut Errors) {
    labels(&selector.child("matchLabels"), errors);
    for requirement in selector.child("matchExpressions").items() {
        let values = requirement.child("values");
        match requirement.child("operator").text() {
            "In" | "NotIn" if values.is_empty() => {
                errors.push(values.required("must have values for In and NotIn"))
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                errors.push(values.forbidden("may not have values for Exists and DoesNotExist"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(requirement.child("operator").invalid("not a valid selector operator")),
        }
        errors.extend(requirement.child("key").faults(names::label_key_errors));
        if !keeps_values {
            for value in values.items() {
                errors.extend(value.faults(names::label_value_errors));
            }
        }
    }
}
