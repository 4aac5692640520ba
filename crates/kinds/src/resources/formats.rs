//! Syntax of values. Each function returns one error per broken rule, like the API server.

use std::borrow::Cow;

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::{self, Faults, MAX_LABEL};
use portcullis_apimachinery::quote::quoted;

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};

/// Validates a DNS label.
pub(super) fn dns_label(field: &str, value: &str) -> Errors {
    invalid(field, value, names::label_errors(value))
}

/// Validates a DNS subdomain, such as the names of most objects, including nodes.
pub(super) fn dns_subdomain(field: &str, value: &str) -> Errors {
    invalid(field, value, names::subdomain_errors(value))
}

/// Validates a name that must be a path segment (RB-70).
pub(super) fn path_segment(field: &str, value: &str) -> Errors {
    invalid(field, value, names::path_segment_errors(value))
}

/// Validates a qualified name, such as a label key.
pub(super) fn qualified_name(field: &str, value: &str) -> Errors {
    invalid(field, value, names::label_key_errors(value))
}

/// Validates a label value.
pub(super) fn label_value(field: &str, value: &str) -> Errors {
    invalid(field, value, names::label_value_errors(value))
}

/// Validates a key of a ConfigMap or a Secret (AP-132).
pub(super) fn data_key(field: &str, key: &str) -> Errors {
    invalid(field, key, names::config_map_key_errors(key))
}

fn invalid(field: &str, value: &str, details: Faults) -> Errors {
    details.into_iter().map(|detail| FieldError::invalid(field, quoted(value), detail)).collect()
}

/// Validates a domain name of at least two parts, which may end with a dot. Only the first error is reported.
pub(super) fn domain_name(field: &str, value: &str) -> Errors {
    if value.is_empty() {
        return Errors::from([FieldError::required(field, "")]);
    }
    let value = value.strip_suffix('.').unwrap_or(value);
    let detail = if let Some(detail) = names::subdomain_errors(value).into_iter().next() {
        detail
    } else if !value.contains('.') {
        Cow::Borrowed("should be a domain with at least two segments separated by dots")
    } else if let Some(detail) = value.split('.').flat_map(names::label_errors).next() {
        detail
    } else {
        return Errors::new();
    };
    Errors::from([FieldError::invalid(field, quoted(value), detail)])
}

/// Validates a driver name: a DNS subdomain of at most 63 bytes, ignoring case.
pub(super) fn driver_name(field: &str, value: &str) -> Errors {
    if value.is_empty() {
        return Errors::from([FieldError::required(field, "")]);
    }
    let mut errors = Errors::new();
    errors.push_if(value.len() > MAX_LABEL, || FieldError::too_long(field, MAX_LABEL));
    errors.extend(dns_subdomain(field, &value.to_lowercase()));
    errors
}

/// Returns an error if an immutable field has changed.
pub(super) fn immutable<T: PartialEq>(field: &str, new: T, old: T) -> Option<FieldError> {
    (new != old).then(|| FieldError::invalid(field, "", "field is immutable"))
}

/// Returns an error for each of these numbers that is negative.
pub(super) fn not_negative(field: &str, holder: &Map, names: &[&str]) -> Errors {
    let negative = names.iter().filter_map(|name| {
        let number = holder.number_if_set(name).filter(|number| *number < 0)?;
        Some((name, number))
    });
    let detail = "must be greater than or equal to 0";
    let error = |(name, number): (&&str, i64)| {
        FieldError::invalid(format!("{field}.{name}"), number.to_string(), detail)
    };
    negative.map(error).collect()
}

/// Returns an error if the value is not one of the supported ones.
pub(super) fn one_of(field: &str, value: &str, known: &[&str]) -> Option<FieldError> {
    (!known.contains(&value)).then(|| FieldError::not_supported(field, quoted(value), known))
}
