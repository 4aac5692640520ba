//! How many pods may be missing, or there beyond those wanted: a number or a share.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use crate::Map;
use crate::fields::{ErrorList, Errors};

/// Validates a number of pods or a percentage of them.
pub(super) fn amount_errors(field: &str, amount: &Value) -> Option<FieldError> {
    let detail = match amount {
        Value::String(text) if percent(text).is_none() => {
            "a valid percent string must be a numeric string followed by an ending '%'"
        }
        Value::Number(number) if number.as_i64().is_none_or(|number| number < 0) => {
            "must be greater than or equal to 0"
        }
        _ => return None,
    };
    Some(FieldError::invalid(field, amount.to_string(), detail))
}

/// Validates such an amount of the pods there are, of which it cannot be more than all.
pub(in crate::resources) fn share_errors(field: &str, amount: &Value) -> Option<FieldError> {
    let is_more = amount.as_str().and_then(percent).is_some_and(|percent| percent > 100);
    let detail = "must not be greater than 100%";
    amount_errors(field, amount)
        .or_else(|| is_more.then(|| FieldError::invalid(field, amount.to_string(), detail)))
}

/// Validates both amounts of a rolling update. They must not both be zero.
pub(super) fn rolling_errors(field: &str, rolling: &Map) -> Errors {
    let unset = Value::from(0);
    let amount = |name: &str| rolling.get(name).unwrap_or(&unset);
    let (missing, surplus) = (amount("maxUnavailable"), amount("maxSurge"));
    let field = |name: &str| format!("{field}.{name}");
    let mut errors: Errors = share_errors(&field("maxUnavailable"), missing).into_iter().collect();
    errors.extend(amount_errors(&field("maxSurge"), surplus));
    errors.push_if(is_zero(missing) && is_zero(surplus), || {
        let detail = "may not be 0 when `maxSurge` is 0";
        FieldError::invalid(field("maxUnavailable"), missing.to_string(), detail)
    });
    errors
}

fn is_zero(amount: &Value) -> bool {
    match amount {
        Value::String(text) => percent(text) == Some(0),
        amount => amount.as_i64() == Some(0),
    }
}

/// The number of a percentage: `25%`.
fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Any number with so many digits is more than everything.
    is_number.then(|| digits.parse().unwrap_or(i64::MAX))
}
