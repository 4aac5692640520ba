//! Validation errors as the API server reports them: one cause per fault, with field, reason and message.

use std::fmt;

/// How an empty field path is printed (MP-15 to MP-17).
pub const NO_FIELD: &str = "[]";

/// One fault of a document; a cause in the answer 422.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field, such as `spec.user`; [`NO_FIELD`] for an empty path.
    pub field: String,
    /// What kind of fault.
    pub reason: FieldErrorReason,
    /// What is there, ready to print. Only [`FieldErrorReason::Invalid`] shows it.
    pub bad_value: String,
    /// What is wrong with it.
    pub detail: String,
}

/// The kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorReason {
    /// The field must not be set here.
    Forbidden,
    /// The value is malformed or does not fit the rest.
    Invalid,
    /// The field must be set.
    Required,
}

impl FieldErrorReason {
    /// The machine-readable form, the `reason` of a status cause.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "FieldValueForbidden",
            Self::Invalid => "FieldValueInvalid",
            Self::Required => "FieldValueRequired",
        }
    }
}

impl FieldError {
    pub(crate) fn invalid(
        field: impl Into<String>,
        bad_value: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let reason = FieldErrorReason::Invalid;
        Self { field: field.into(), reason, bad_value: bad_value.into(), detail: detail.into() }
    }

    pub(crate) fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        let reason = FieldErrorReason::Required;
        Self { field: field.into(), reason, bad_value: String::new(), detail: detail.into() }
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        let reason = FieldErrorReason::Forbidden;
        Self { field: field.into(), reason, bad_value: String::new(), detail: detail.into() }
    }

    /// The message without the field: the `message` of a status cause.
    pub fn message(&self) -> String {
        let Self { bad_value, detail, .. } = self;
        match self.reason {
            FieldErrorReason::Forbidden => format!("Forbidden: {detail}"),
            FieldErrorReason::Invalid => format!("Invalid value: {bad_value}: {detail}"),
            FieldErrorReason::Required => format!("Required value: {detail}"),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}
