//! The parameters of a create (AP-14 to AP-16).

use http::HeaderValue;

use crate::go::quoted;
use crate::query;
use crate::status::{Cause, Details, Status};

/// The longest `fieldManager`, in characters (AP-16).
const MAX_FIELD_MANAGER: usize = 128;

/// What becomes of unknown and repeated fields (AP-14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped without a word.
    Ignore,
    /// They are refused.
    Strict,
    /// They are dropped, with a warning.
    #[default]
    Warn,
}

/// Reads the parameters of a create. `dryRun=All` changes nothing here: reviews are never stored (WH-86).
///
/// # Errors
/// 422 on `CreateOptions`, with a cause for every parameter that is wrong.
pub(crate) fn read(query: &str) -> Result<FieldValidation, Status> {
    if query.is_empty() {
        return Ok(FieldValidation::default());
    }
    let mut causes = Vec::new();
    if query::values(query, "fieldManager").first().is_some_and(|m| m.chars().count() > MAX_FIELD_MANAGER) {
        causes.push(cause(
            "fieldManager",
            "FieldValueTooLong",
            format!("Too long: may not be more than {MAX_FIELD_MANAGER} characters"),
        ));
    }
    for value in query::values(query, "dryRun").iter().filter(|v| *v != "All") {
        causes.push(not_supported("dryRun", value, "\"All\""));
    }
    let validation = match query::values(query, "fieldValidation").first().map_or("", String::as_str) {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            causes.push(not_supported("fieldValidation", other, "\"\", \"Ignore\", \"Strict\", \"Warn\""));
            FieldValidation::Strict
        }
    };
    if causes.is_empty() {
        return Ok(validation);
    }
    let faults: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
    let faults = portcullis_policy::rules::aggregate(&faults).unwrap_or_default();
    let message = format!("CreateOptions.meta.k8s.io \"\" is invalid: {faults}");
    let details = Details {
        group: "meta.k8s.io".to_owned(),
        kind: "CreateOptions".to_owned(),
        causes,
        ..Details::default()
    };
    Err(Status::invalid(message, details))
}

fn not_supported(field: &str, value: &str, known: &str) -> Cause {
    let message = format!("Unsupported value: {}: supported values: {known}", quoted(value));
    cause(field, "FieldValueNotSupported", message)
}

fn cause(field: &str, reason: &'static str, message: String) -> Cause {
    Cause { reason, message, field: field.to_owned() }
}

/// A `Warning` header; nothing for a text that no header can hold.
pub(crate) fn warning(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("299 - {}", quoted(text))).ok()
}
