//! Opaque device configuration.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use crate::Map;
use crate::fields::{Errors, Members};
use crate::resources::formats::driver_name;

/// The maximum number of configuration entries.
pub(super) const MAX_CONFIG: usize = 32;
/// The maximum size of driver parameters, in bytes.
const MAX_PARAMETERS: usize = 10 * 1024;

/// Validates one configuration entry. Stored parameters may be longer.
pub(super) fn validate_settings(field: &str, settings: &Map, is_stored: bool) -> Errors {
    let at_opaque = format!("{field}.opaque");
    if !settings.has("opaque") {
        return Errors::from([FieldError::required(at_opaque, "")]);
    }
    let opaque = settings.object("opaque");
    let mut errors = driver_name(&format!("{at_opaque}.driver"), opaque.text("driver"));
    let limit = if is_stored { usize::MAX } else { MAX_PARAMETERS };
    errors.extend(validate_raw(&format!("{at_opaque}.parameters"), opaque.get("parameters"), limit));
    errors
}

/// Validates a value that must be an object of any kind.
pub(super) fn validate_raw(field: &str, value: Option<&Value>, limit: usize) -> Option<FieldError> {
    let value = value.filter(|value| !value.is_null());
    let Some(value) = value else { return Some(FieldError::required(field, "")) };
    if value.to_string().len() > limit {
        return Some(FieldError::too_long(field, limit));
    }
    let detail = "must be a valid JSON object";
    (!value.is_object()).then(|| FieldError::invalid(field, "<value omitted>", detail))
}
