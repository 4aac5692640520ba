//! Labels and selectors of labels.

use crate::resources::pods::read::Field;
use crate::resources::pods::syntax;
use crate::resources::pods::validate::Errors;

/// A map of labels. Errors name the map, not the label.
pub(super) fn labels(labels: &Field<'_>, errors: &mut Errors) {
    for (key, value) in labels.entries() {
        let map = value.named(labels.path());
        errors.extend(
            syntax::qualified_name(key).into_iter().map(|fault| map.invalid(format!("{key:?} {fault}"))),
        );
        errors.extend(map.faults(syntax::label_value));
    }
}

/// A selector of labels, which may be missing. Old ones may keep values that no label can have.
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
        errors.extend(requirement.child("key").faults(syntax::qualified_name));
        if !keeps_values {
            for value in values.items() {
                errors.extend(value.faults(syntax::label_value));
            }
        }
    }
}
