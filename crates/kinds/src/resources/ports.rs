//! Syntax of ports.

use portcullis_apimachinery::field_error::FieldError;
use serde_json::Value;

use crate::fields::Errors;
use crate::schema::values;

/// The maximum length of a port name, in bytes.
const MAX_NAME: usize = 15;

/// Validates a port number.
pub(super) fn number_errors(field: &str, port: i64) -> Option<FieldError> {
    let detail = "must be between 1 and 65535, inclusive";
    (!(1..=65_535).contains(&port)).then(|| FieldError::invalid(field, port.to_string(), detail))
}

/// Validates the protocol of a port.
pub(super) fn protocol_errors(field: &str, protocol: &str) -> Option<FieldError> {
    match protocol {
        "" => Some(FieldError::required(field, "")),
        known if values::PROTOCOLS.contains(&known) => None,
        protocol => Some(FieldError::not_supported(field, protocol, values::PROTOCOLS)),
    }
}

/// Validates a port that is a number or the name of a container port.
pub(super) fn number_or_name_errors(field: &str, port: &Value) -> Errors {
    match port {
        Value::String(name) => name_errors(field, name),
        port => number_errors(field, port.as_i64().unwrap_or_default()).into_iter().collect(),
    }
}

fn name_errors(field: &str, name: &str) -> Errors {
    let is_known = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let faults = [
        (name.len() > MAX_NAME, "must be no more than 15 bytes"),
        (
            name.is_empty() || !name.bytes().all(is_known),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(|c| c.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    let found = faults.into_iter().filter(|(is_faulty, _)| *is_faulty);
    found.map(|(_, detail)| FieldError::invalid(field, name, detail)).collect()
}
