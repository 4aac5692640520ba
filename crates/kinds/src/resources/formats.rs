//! What values may look like: each function lists what is wrong with a value, one error per rule that it breaks, as the
//! API server counts them.

use std::borrow::Cow;

use portcullis_policy::field_error::FieldError;
use portcullis_policy::selector::syntax::{MAX_LABEL, label_key_errors, label_value_errors};

use crate::names;

/// What is wrong with a DNS label.
pub(super) fn dns_label(field: &str, value: &str) -> Vec<FieldError> {
    invalid(field, value, names::label_errors(value))
}

/// What is wrong with a DNS subdomain. The names of most objects are such, also those of nodes.
pub(super) fn dns_subdomain(field: &str, value: &str) -> Vec<FieldError> {
    invalid(field, value, names::subdomain_errors(value))
}

/// What is wrong with a name that is one segment of a path (RB-70).
pub(super) fn path_segment(field: &str, value: &str) -> Vec<FieldError> {
    invalid(field, value, names::path_segment_errors(value))
}

/// What is wrong with a qualified name, such as a label key.
pub(super) fn qualified_name(field: &str, value: &str) -> Vec<FieldError> {
    invalid(field, value, label_key_errors(value))
}

/// What is wrong with the value of a label.
pub(super) fn label_value(field: &str, value: &str) -> Vec<FieldError> {
    invalid(field, value, label_value_errors(value))
}

fn invalid(
    field: &str,
    value: &str,
    details: impl IntoIterator<Item = impl Into<String>>,
) -> Vec<FieldError> {
    details.into_iter().map(|detail| FieldError::invalid(field, quoted(value), detail)).collect()
}

/// What is wrong with a domain name of at least two parts; it may end with a dot. Only the first fault is reported.
pub(super) fn domain_name(field: &str, value: &str) -> Vec<FieldError> {
    if value.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let value = value.strip_suffix('.').unwrap_or(value);
    let detail = if let Some(detail) = names::subdomain_errors(value).into_iter().next() {
        detail
    } else if !value.contains('.') {
        Cow::Borrowed("should be a domain with at least two segments separated by dots")
    } else if let Some(detail) = value.split('.').flat_map(names::label_errors).next() {
        detail
    } else {
        return Vec::new();
    };
    vec![FieldError::invalid(field, quoted(value), detail)]
}

/// What is wrong with the name of a driver: one of at most 63 bytes that is a DNS subdomain in lower case.
pub(super) fn driver_name(field: &str, value: &str) -> Vec<FieldError> {
    if value.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let mut errors = Vec::new();
    if value.len() > MAX_LABEL {
        errors.push(FieldError::too_long(field, MAX_LABEL));
    }
    errors.extend(dns_subdomain(field, &value.to_lowercase()));
    errors
}

/// The error of a field that cannot change, when it has.
pub(super) fn immutable<T: PartialEq>(field: &str, new: T, old: T) -> Option<FieldError> {
    (new != old).then(|| FieldError::invalid(field, "", "field is immutable"))
}

/// The error of a value that is none of the known ones.
pub(super) fn one_of(field: &str, value: &str, known: &[&str]) -> Option<FieldError> {
    (!known.contains(&value)).then(|| FieldError::not_supported(field, quoted(value), known))
}

/// A text as errors show it.
pub(super) fn quoted(value: &str) -> String {
    format!("{value:?}")
}
