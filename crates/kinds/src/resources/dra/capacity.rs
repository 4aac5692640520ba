//! Validation of device capacity and the request policy of claims.

use std::collections::HashSet;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quantity::Quantity;
use portcullis_apimachinery::quote::quoted;

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};

/// The maximum number of valid values.
const MAX_VALUES: usize = 10;

/// Validates a capacity. Only a device that several claims can share may have a request policy.
pub(super) fn validate_capacity(field: &str, capacity: &Map, is_shared: bool) -> Errors {
    if !capacity.has("requestPolicy") {
        return Errors::new();
    }
    let field = format!("{field}.requestPolicy");
    if !is_shared {
        return Errors::from([FieldError::forbidden(field, "allowMultipleAllocations must be true")]);
    }
    let policy = capacity.object("requestPolicy");
    let (has_values, has_range) = (!policy.list("validValues").is_empty(), policy.has("validRange"));
    let all = quantity(capacity, "value").unwrap_or_default();
    match (has_values, has_range, quantity(policy, "default")) {
        (false, false, _) => Errors::new(),
        (true, true, _) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at \
                the same time";
            Errors::from([FieldError::forbidden(field, detail)])
        }
        (_, _, None) => {
            let detail = "required when validValues or validRange is defined";
            Errors::from([FieldError::required(format!("{field}.default"), detail)])
        }
        (true, false, Some(default)) => {
            let values: Vec<Quantity> =
                policy.texts("validValues").filter_map(|text| Quantity::parse(text).ok()).collect();
            validate_values(&format!("{field}.validValues"), &default, &all, &values)
        }
        (false, true, Some(default)) => {
            validate_range(&format!("{field}.validRange"), &default, &all, policy.object("validRange"))
        }
    }
}

fn quantity(map: &Map, name: &str) -> Option<Quantity> {
    Quantity::parse(map.text(name)).ok().filter(|_| map.has(name))
}

fn invalid(field: impl Into<String>, value: &Quantity, detail: &str) -> FieldError {
    FieldError::invalid(field, quoted(&value.to_string()), detail)
}

/// Validates a list of values: ascending, unique, at most the capacity, and including the default.
fn validate_values(field: &str, default: &Quantity, all: &Quantity, values: &[Quantity]) -> Errors {
    let mut errors = Errors::new();
    for ((i, value), next) in (1..).zip(values).zip(values.iter().skip(1)) {
        if value > next {
            errors.push(invalid(format!("{field}[{i}]"), next, "values must be sorted in ascending order"));
        }
    }
    if values.len() > MAX_VALUES {
        errors.push(FieldError::too_many(field, values.len(), MAX_VALUES));
    } else {
        let mut seen = HashSet::new();
        for (i, value) in values.iter().enumerate() {
            let field = format!("{field}[{i}]");
            errors.push_if(value > all, || invalid(&field, value, "option is larger than capacity value"));
            if !seen.insert(value.scaled(0)) {
                errors.push(FieldError::duplicate(field, quoted(&value.to_string())));
            }
        }
    }
    // The default is not searched in a list that is too long.
    if values.len() > MAX_VALUES || !values.contains(default) {
        errors.push(invalid(field, default, "default value is not valid according to the requestPolicy"));
    }
    errors
}

/// Validates a range: minimum to maximum, with a step that reaches the default and the maximum.
fn validate_range(field: &str, default: &Quantity, all: &Quantity, range: &Map) -> Errors {
    let (at_min, at_max, at_step) = (format!("{field}.min"), format!("{field}.max"), format!("{field}.step"));
    let Some(min) = quantity(range, "min") else {
        return Errors::from([FieldError::required(at_min, "required when validRange is defined")]);
    };
    let (max, step) = (quantity(range, "max"), quantity(range, "step"));
    let mut errors = Errors::new();
    errors.push_if(min > *all, || invalid(&at_min, &min, "min is larger than capacity value"));
    errors.push_if(*default < min, || invalid(&at_min, default, "default is less than min"));
    if let Some(max) = &max {
        errors.push_if(min > *max, || invalid(&at_max, &min, "min is larger than max"));
        errors.push_if(max > all, || invalid(&at_max, max, "max is larger than capacity value"));
        errors.push_if(default > max, || invalid(&at_max, default, "default is more than max"));
    }
    let Some(step) = step else { return errors };
    let (first, step) = (min.scaled(0), step.scaled(0));
    if first.saturating_add(step) > all.scaled(0) {
        errors.push(invalid(&at_step, &min, "one step is larger than capacity value"));
    }
    for value in std::iter::once(default).chain(&max) {
        // DIVERGES: a step of zero is an error. Kubernetes divides by it, and responds with 500.
        if value.scaled(0).saturating_sub(first).checked_rem(step) != Some(0) {
            errors.push(invalid(&at_step, value, "value is not a multiple of a given step"));
        }
    }
    errors
}
