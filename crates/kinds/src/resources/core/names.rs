//! What names and keys may look like.

use portcullis_policy::field_error::FieldError;
use portcullis_policy::selector::syntax::label_key_errors;

/// The length of a DNS subdomain at most.
const SUBDOMAIN_LENGTH: usize = 253;

/// What is wrong with a key of a ConfigMap or a Secret (AP-132), one message per rule that it breaks.
pub(super) fn data_key_errors(field: &str, key: &str) -> Vec<FieldError> {
    let mut details = Vec::new();
    if key.len() > SUBDOMAIN_LENGTH {
        details.push("must be no more than 253 bytes");
    }
    let is_known = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(is_known) {
        details.push("a valid key must consist of alphanumeric characters, '-', '_' or '.'");
    }
    match key {
        "." => details.push("must not be '.'"),
        ".." => details.push("must not be '..'"),
        key if key.starts_with("..") => details.push("must not start with '..'"),
        _ => {}
    }
    details.into_iter().map(|detail| FieldError::invalid(format!("{field}[{key}]"), key, detail)).collect()
}

/// The finalizers that need no prefix.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// What is wrong with a finalizer: it is a qualified name, and one of Kubernetes' own if it has no prefix.
pub(super) fn finalizer_errors(field: &str, finalizer: &str) -> Vec<FieldError> {
    let mut errors = qualified_name_errors(field, finalizer);
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(field, finalizer, detail));
    }
    errors
}

/// What is wrong with a qualified name, such as a label key.
pub(super) fn qualified_name_errors(field: &str, name: &str) -> Vec<FieldError> {
    label_key_errors(name).into_iter().map(|detail| FieldError::invalid(field, name, detail)).collect()
}
