//! What values may look like: each function lists what is wrong with a value, one error per rule that it breaks, as the
//! API server counts them.

use portcullis_policy::field_error::FieldError;
use portcullis_policy::selector::syntax::{MAX_LABEL, MAX_SUBDOMAIN, label_key_errors, label_value_errors};

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character";

/// What is wrong with a DNS label.
pub(super) fn dns_label(field: &str, value: &str) -> Vec<FieldError> {
    of_shape(field, value, MAX_LABEL, is_dns_label(value), LABEL)
}

/// What is wrong with a DNS subdomain. The names of most objects are such, also those of nodes.
pub(super) fn dns_subdomain(field: &str, value: &str) -> Vec<FieldError> {
    of_shape(field, value, MAX_SUBDOMAIN, value.split('.').all(is_dns_label), SUBDOMAIN)
}

fn of_shape(field: &str, value: &str, limit: usize, has_shape: bool, shape: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if value.len() > limit {
        errors.push(FieldError::invalid(field, quoted(value), format!("must be no more than {limit} bytes")));
    }
    if !has_shape {
        errors.push(FieldError::invalid(field, quoted(value), shape));
    }
    errors
}

/// Letters, digits and hyphens of any number; the length is another rule.
fn is_dns_label(value: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    value.starts_with(is_plain) && value.ends_with(is_plain) && value.chars().all(|c| is_plain(c) || c == '-')
}

/// What is wrong with a domain name of at least two parts; it may end with a dot. Only the first fault is reported.
pub(super) fn domain_name(field: &str, value: &str) -> Vec<FieldError> {
    if value.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let value = value.strip_suffix('.').unwrap_or(value);
    let labels = || value.split('.');
    let detail = if !dns_subdomain(field, value).is_empty() {
        SUBDOMAIN
    } else if labels().count() < 2 {
        "should be a domain with at least two segments separated by dots"
    } else if labels().any(|label| label.len() > MAX_LABEL) {
        LABEL
    } else {
        return Vec::new();
    };
    vec![FieldError::invalid(field, quoted(value), detail)]
}

/// What is wrong with a qualified name, such as a label key.
pub(super) fn qualified_name(field: &str, value: &str) -> Vec<FieldError> {
    label_key_errors(value)
        .into_iter()
        .map(|detail| FieldError::invalid(field, quoted(value), detail))
        .collect()
}

/// What is wrong with the value of a label.
pub(super) fn label_value(field: &str, value: &str) -> Vec<FieldError> {
    label_value_errors(value)
        .into_iter()
        .map(|detail| FieldError::invalid(field, quoted(value), detail))
        .collect()
}

/// What is wrong with a name that is one segment of a path (RB-70).
pub(super) fn path_segment(field: &str, value: &str) -> Vec<FieldError> {
    let details = match value {
        "." => vec!["may not be '.'"],
        ".." => vec!["may not be '..'"],
        value => [('/', "may not contain '/'"), ('%', "may not contain '%'")]
            .into_iter()
            .filter(|(c, _)| value.contains(*c))
            .map(|(_, detail)| detail)
            .collect(),
    };
    details.into_iter().map(|detail| FieldError::invalid(field, quoted(value), detail)).collect()
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
