//! The syntax of finalizers. Syntax that several groups share is in `formats` and `scheduling`.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::quote::quoted;

use crate::fields::Errors;
use crate::resources::formats::qualified_name;

/// The finalizers that need no prefix.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// A validation function: takes a field path and a string.
pub(super) type TextRule = fn(&str, &str) -> Errors;

/// Validates a finalizer: it must be a qualified name, and one of Kubernetes if it has no prefix.
pub(super) fn finalizer_errors(field: &str, finalizer: &str) -> Errors {
    let mut errors = qualified_name(field, finalizer);
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(field, quoted(finalizer), detail));
    }
    errors
}
