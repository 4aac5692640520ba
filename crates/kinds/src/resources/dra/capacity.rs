//! How much of a device's capacity a claim may ask for.

use portcullis_policy::field_error::FieldError;

use crate::Map;
use crate::resources::fields::{is_present, list, object};

/// Everything wrong with a capacity. Only a device that several claims can share may say how it is divided.
pub(super) fn validate_capacity(field: &str, capacity: &Map, is_shared: bool) -> Vec<FieldError> {
    if !is_present(capacity, "requestPolicy") {
        return Vec::new();
    }
    let field = format!("{field}.requestPolicy");
    if !is_shared {
        return vec![FieldError::forbidden(field, "allowMultipleAllocations must be true")];
    }
    let policy = object(capacity, "requestPolicy");
    let (has_values, has_range) = (!list(policy, "validValues").is_empty(), is_present(policy, "validRange"));
    if has_values && has_range {
        let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the \
            same time";
        return vec![FieldError::forbidden(field, detail)];
    }
    if (has_values || has_range) && !is_present(policy, "default") {
        let detail = "required when validValues or validRange is defined";
        return vec![FieldError::required(format!("{field}.default"), detail)];
    }
    Vec::new()
}
