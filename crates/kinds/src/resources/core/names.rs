//! What keys of data and finalizers may look like. What several groups share is in `formats` and `scheduling`.

use portcullis_policy::field_error::FieldError;
use portcullis_policy::selector::syntax::MAX_SUBDOMAIN;

use crate::resources::formats::{qualified_name, quoted};

/// The finalizers that need no prefix.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// What is wrong with a text, under its path.
pub(super) type TextRule = fn(&str, &str) -> Vec<FieldError>;

/// What is wrong with a key of a ConfigMap or a Secret (AP-132), one message per rule that it breaks.
pub(super) fn data_key_errors(field: &str, key: &str) -> Vec<FieldError> {
    let mut details = Vec::new();
    if key.len() > MAX_SUBDOMAIN {
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
    details.into_iter().map(|detail| FieldError::invalid(field, quoted(key), detail)).collect()
}

/// What is wrong with a finalizer: it is a qualified name, and one of Kubernetes' own if it has no prefix.
pub(super) fn finalizer_errors(field: &str, finalizer: &str) -> Vec<FieldError> {
    let mut errors = qualified_name(field, finalizer);
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(field, quoted(finalizer), detail));
    }
    errors
}
