//! Resource lists: maps from resource names to quantities.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::Map;
use crate::fields::{Errors, Members};
use crate::resources::resource_names::is_counted;

/// The finest unit of amounts, thousandths. Finer values are rounded up.
const FINEST: i64 = -3;

/// Rounds the amounts of a map up to thousandths.
pub(super) fn round_amounts(map: &mut Map, name: &str) {
    for amount in map.object_mut(name).into_iter().flat_map(Map::values_mut) {
        let Some(Ok(mut quantity)) = amount.as_str().map(Quantity::parse) else { continue };
        quantity.round_up(FINEST);
        *amount = Value::from(quantity.to_string());
    }
}

/// Rounds the limits and requests of a container, a pod or a claim.
pub(super) fn round_requirements(holder: &mut Map) {
    if let Some(requirements) = holder.object_mut("resources") {
        round_amounts(requirements, "limits");
        round_amounts(requirements, "requests");
    }
}

/// The quantity of a member; `None` if not set.
pub(crate) fn quantity(map: &Map, name: &str) -> Option<Quantity> {
    map.get(name).and_then(Value::as_str).and_then(|text| Quantity::parse(text).ok())
}

/// Validates an amount of a resource: it must not be negative, and must be whole for counted resources.
pub(super) fn amount_errors(field: &str, resource: &str, amount: &Value) -> Errors {
    let text = amount.as_str().unwrap_or_default();
    let Ok(quantity) = Quantity::parse(text) else { return Errors::new() };
    let mut errors: Errors = negative_error(field, &quantity).into_iter().collect();
    if is_counted(resource) && !quantity.is_integer() {
        errors.push(FieldError::invalid(field, text, "must be an integer"));
    }
    errors
}

/// Returns an error if the amount is negative.
pub(super) fn negative_error(field: &str, amount: &Quantity) -> Option<FieldError> {
    let detail = "must be greater than or equal to 0";
    amount.is_negative().then(|| FieldError::invalid(field, amount.to_string(), detail))
}

/// Returns an error if the amount is not positive.
pub(super) fn positive_error(field: &str, amount: &Quantity) -> Option<FieldError> {
    let is_positive = !amount.is_negative() && !amount.is_zero();
    (!is_positive).then(|| FieldError::invalid(field, amount.to_string(), "must be greater than zero"))
}
