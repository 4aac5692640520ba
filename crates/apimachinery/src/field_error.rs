//! Validation errors as the API server reports them: one cause per error, with field path, reason and message.

use std::fmt::{self, Write as _};

/// The text of an empty field path (MP-15 to MP-17).
pub const NO_FIELD: &str = "[]";

/// The maximum number of bytes of a value in an error; `…` stands for the rest.
///
/// DIVERGES: Kubernetes shows values of any length. A list with an error for each of its entries would be shown whole as
/// often as it has entries.
pub const MAX_VALUE: usize = 1_024;

/// A text that takes no more than [`MAX_VALUE`] bytes.
struct Shortened(String);

impl fmt::Write for Shortened {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = MAX_VALUE.saturating_sub(self.0.len());
        let end = text.floor_char_boundary(left);
        self.0.push_str(text.get(..end).unwrap_or_default());
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// One validation error; a cause in a 422 response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field path, such as `spec.user`; [`NO_FIELD`] for an empty path.
    pub field: String,
    /// The reason of the error.
    pub reason: FieldErrorReason,
    /// The invalid value as text, of at most [`MAX_VALUE`] bytes. Only reasons about a value show it.
    pub bad_value: String,
    /// A description of the error.
    pub detail: String,
}

/// The reasons of validation errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorReason {
    /// The value is a duplicate.
    Duplicate,
    /// The field must not be set here.
    Forbidden,
    /// The server could not check the value.
    Internal,
    /// The value is malformed or inconsistent with other fields.
    Invalid,
    /// The value refers to something that does not exist.
    NotFound,
    /// The value is not one of the supported values.
    NotSupported,
    /// The field must be set.
    Required,
    /// The value is too long.
    TooLong,
    /// The list has too many entries.
    TooMany,
}

impl FieldErrorReason {
    /// The machine-readable form, the `reason` of a status cause.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::Internal => "InternalError",
            Self::Invalid => "FieldValueInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Required => "FieldValueRequired",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }
}

impl FieldError {
    fn new(
        reason: FieldErrorReason,
        field: impl Into<String>,
        bad_value: impl fmt::Display,
        detail: impl Into<String>,
    ) -> Self {
        let mut shown = Shortened(String::new());
        // An error means that the value is too long: the rest of it is not even formatted.
        if write!(shown, "{bad_value}").is_err() {
            shown.0.push('…');
        }
        Self { field: field.into(), reason, bad_value: shown.0, detail: detail.into() }
    }

    /// Creates an error: the value is malformed or inconsistent with other fields.
    pub fn invalid(
        field: impl Into<String>,
        bad_value: impl fmt::Display,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorReason::Invalid, field, bad_value, detail)
    }

    /// Creates an error: the field must be set.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorReason::Required, field, "", detail)
    }

    /// Creates an error: the field must not be set here.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorReason::Forbidden, field, "", detail)
    }

    /// Creates an error: the server could not check the value.
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorReason::Internal, field, "", detail)
    }

    /// Creates an error: the value is a duplicate.
    pub fn duplicate(field: impl Into<String>, bad_value: impl fmt::Display) -> Self {
        Self::new(FieldErrorReason::Duplicate, field, bad_value, "")
    }

    /// Creates an error: the value refers to something that does not exist.
    pub fn not_found(field: impl Into<String>, bad_value: impl fmt::Display) -> Self {
        Self::new(FieldErrorReason::NotFound, field, bad_value, "")
    }

    /// Creates an error: the value is not one of the supported values.
    pub fn not_supported(field: impl Into<String>, bad_value: impl fmt::Display, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|value| format!("{value:?}")).collect();
        let detail = match known.as_slice() {
            [] => String::new(),
            known => format!("supported values: {}", known.join(", ")),
        };
        Self::new(FieldErrorReason::NotSupported, field, bad_value, detail)
    }

    /// Creates an error: the value has more than this many bytes.
    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self::new(FieldErrorReason::TooLong, field, "", format!("may not be more than {limit} bytes"))
    }

    /// Creates an error: the list has `count` entries, more than allowed.
    pub fn too_many(field: impl Into<String>, count: usize, limit: usize) -> Self {
        let detail = format!("must have at most {limit} items");
        Self::new(FieldErrorReason::TooMany, field, count.to_string(), detail)
    }

    /// The message without the field path: the `message` of a status cause.
    pub fn message(&self) -> String {
        let Self { bad_value, detail, .. } = self;
        let what = match self.reason {
            FieldErrorReason::Duplicate => format!("Duplicate value: {bad_value}"),
            FieldErrorReason::Forbidden => "Forbidden".to_owned(),
            FieldErrorReason::Internal => "Internal error".to_owned(),
            FieldErrorReason::Invalid => format!("Invalid value: {bad_value}"),
            FieldErrorReason::NotFound => format!("Not found: {bad_value}"),
            FieldErrorReason::NotSupported => format!("Unsupported value: {bad_value}"),
            FieldErrorReason::Required => "Required value".to_owned(),
            FieldErrorReason::TooLong => "Too long".to_owned(),
            FieldErrorReason::TooMany => format!("Too many: {bad_value}"),
        };
        match detail.as_str() {
            "" if self.reason != FieldErrorReason::Invalid => what,
            detail => format!("{what}: {detail}"),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}
