//! Validation errors as the API server reports them: one cause per error, with field path, reason and message.

use std::fmt::{self, Write as _};
use std::ops::Deref;

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

/// The most errors that are told of one object.
///
/// DIVERGES: Kubernetes reports every error of an object, also of a list with 100,000 invalid entries.
const MAX_ERRORS: usize = 1_000;

/// The errors of one object, in order. Errors after the first thousand are dropped at once, so a large object with an error
/// in each entry takes little memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors {
    /// At most one more than are told. It stands for all that were dropped, also when a list becomes a part of another.
    list: Vec<FieldError>,
}

impl FieldErrors {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// Adds an error, unless there are enough.
    pub fn push(&mut self, error: FieldError) {
        if self.list.len() <= MAX_ERRORS {
            self.list.push(error);
        }
    }

    /// The errors to tell, and whether there are more.
    pub fn told(&self) -> (&[FieldError], bool) {
        match self.list.get(..MAX_ERRORS) {
            Some(first) => (first, self.list.len() > MAX_ERRORS),
            None => (&self.list, false),
        }
    }

    /// The errors, to change their fields.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, FieldError> {
        self.list.iter_mut()
    }
}

impl Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.list
    }
}

impl<const N: usize> PartialEq<[FieldError; N]> for FieldErrors {
    fn eq(&self, other: &[FieldError; N]) -> bool {
        self.list == *other
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<T: IntoIterator<Item = FieldError>>(&mut self, errors: T) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<T: IntoIterator<Item = FieldError>>(errors: T) -> Self {
        let mut all = Self::new();
        all.extend(errors);
        all
    }
}

impl<const N: usize> From<[FieldError; N]> for FieldErrors {
    fn from(errors: [FieldError; N]) -> Self {
        errors.into_iter().collect()
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'e> IntoIterator for &'e FieldErrors {
    type Item = &'e FieldError;
    type IntoIter = std::slice::Iter<'e, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
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
    /// The value has another type or format.
    TypeInvalid,
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
            Self::TypeInvalid => "FieldValueTypeInvalid",
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

    /// Creates an error: the value has another type or format.
    pub fn type_invalid(
        field: impl Into<String>,
        bad_value: impl fmt::Display,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorReason::TypeInvalid, field, bad_value, detail)
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
            FieldErrorReason::Invalid | FieldErrorReason::TypeInvalid => {
                format!("Invalid value: {bad_value}")
            }
            FieldErrorReason::NotFound => format!("Not found: {bad_value}"),
            FieldErrorReason::NotSupported => format!("Unsupported value: {bad_value}"),
            FieldErrorReason::Required => "Required value".to_owned(),
            FieldErrorReason::TooLong => "Too long".to_owned(),
            FieldErrorReason::TooMany => format!("Too many: {bad_value}"),
        };
        match detail.as_str() {
            "" if !matches!(self.reason, FieldErrorReason::Invalid | FieldErrorReason::TypeInvalid) => what,
            detail => format!("{what}: {detail}"),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(range: std::ops::Range<usize>) -> FieldErrors {
        range.map(|at| FieldError::required(format!("list[{at}]"), "")).collect()
    }

    #[test]
    fn the_first_thousand_errors_are_told_and_whether_there_are_more() {
        for (count, told, has_more) in
            [(0, 0, false), (1, 1, false), (1_000, 1_000, false), (1_001, 1_000, true), (50_000, 1_000, true)]
        {
            let list = errors(0..count);
            let (first, more) = list.told();
            assert_eq!((first.len(), more), (told, has_more), "{count}");
            assert!(first.iter().enumerate().all(|(at, error)| error.field == format!("list[{at}]")));
            // As a part of another list, too.
            let mut outer = FieldErrors::new();
            outer.extend(list);
            assert_eq!((outer.told().0.len(), outer.told().1), (told, has_more), "{count}");
        }
        let mut outer = errors(0..600);
        outer.extend(errors(600..1_200));
        assert_eq!((outer.told().0.len(), outer.told().1), (1_000, true));
    }
}
