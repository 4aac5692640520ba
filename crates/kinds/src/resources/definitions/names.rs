//! The names in definitions.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::rfc1035_label_errors;
use portcullis_apimachinery::quote::quoted;

use crate::Map;
use crate::fields::{ErrorList, Errors, Members};

/// Adds what is wrong with the names at a path, which may be missing.
pub(super) fn check(names: &Map, path: &str, errors: &mut Errors) {
    let mut label = |field: String, name: &str, shown: &str, prefix: &str| {
        let faults = rfc1035_label_errors(name);
        errors.push_if(!name.is_empty() && !faults.is_empty(), || {
            FieldError::invalid(field, quoted(shown), format!("{prefix}{}", faults.join(",")))
        });
    };
    const MIXED: &str = "may have mixed case, but should otherwise match: ";
    for name in ["plural", "singular"] {
        label(format!("{path}.{name}"), names.text(name), names.text(name), "");
    }
    for name in ["kind", "listKind"] {
        label(format!("{path}.{name}"), &names.text(name).to_lowercase(), names.text(name), MIXED);
    }
    for (at, name) in names.texts("shortNames").enumerate() {
        label(format!("{path}.shortNames[{at}]"), name, name, "");
    }
    for (at, name) in names.texts("categories").enumerate() {
        label(format!("{path}.categories[{at}]"), name, name, "");
    }
    let (kind, list) = (names.text("kind"), names.text("listKind"));
    errors.push_if(!kind.is_empty() && kind == list, || {
        FieldError::invalid(format!("{path}.listKind"), quoted(list), "kind and listKind may not be the same")
    });
}
