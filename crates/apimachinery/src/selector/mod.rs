//! Field and label selectors as authorizers see them: lists of requirements that must all hold.
//!
//! A selector comes as text, in a URL or a review ([`parse_field_selector`], [`parse_label_selector`]), or as
//! structured requirements, in a review ([`SelectorRequirement`]). Nothing here matches objects: a selector only
//! describes how a request limits itself. If a selector cannot be parsed, the caller reports the error, and the
//! decision treats the request as one without a selector, which can only be stricter (AC-46). The same holds for one
//! without requirements (AC-47).

mod field;
mod label;

use serde::Serialize;

pub use field::parse_field_selector;
pub use label::parse_label_selector;

/// One term of a field selector, such as `spec.nodeName=n0` (AC-44). Prints as text that parses back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// The field path, as written.
    pub field: String,
    /// The operator of the comparison.
    pub operator: FieldOperator,
    /// The value, unescaped.
    pub value: String,
}

/// The operators of a field selector. `==` is read as `=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldOperator {
    /// `=` and `==`.
    Equals,
    /// `!=`.
    NotEquals,
}

/// One requirement of a label selector, such as `app in (a,b)` (AC-45). Prints as text that parses back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelRequirement {
    /// The label key.
    pub key: String,
    /// The operator of the comparison.
    pub operator: LabelOperator,
    /// The values; empty for `Exists` and `DoesNotExist`. Sorted and unique if parsed from text; verbatim if from a
    /// structured requirement.
    pub values: Vec<String>,
}

/// The operators of a label selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelOperator {
    /// `!key`.
    DoesNotExist,
    /// `key=value` and `key==value`.
    Equals,
    /// `key`.
    Exists,
    /// `key>value`, integers.
    GreaterThan,
    /// `key in (values)`.
    In,
    /// `key<value`, integers.
    LessThan,
    /// `key!=value`.
    NotEquals,
    /// `key notin (values)`.
    NotIn,
}

/// A requirement in a review, before validation of the operator (WH-13).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SelectorRequirement {
    /// The field path or label key.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, or an operator of a newer client.
    pub operator: String,
    /// The values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// An error in a selector or in one of its requirements.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// A field term has none of the three operators (AC-44).
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NoOperator {
        /// The whole selector.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash in a field value is not followed by `\`, `,` or `=` (AC-44).
    #[error("invalid field selector: invalid escape sequence: {0}")]
    InvalidEscape(String),
    /// A field value contains an unescaped `,` or `=` (AC-44).
    #[error("invalid field selector: unescaped character in value: {0}")]
    Unescaped(char),
    /// A syntax error in a label selector (AC-45).
    #[error("unable to parse requirement: found '{found}', expected: {expected}")]
    Unexpected {
        /// The token found; empty at the end of the text.
        found: String,
        /// The expected token.
        expected: &'static str,
    },
    /// An invalid label key (AP-73).
    #[error("unable to parse requirement: key: Invalid value: {key:?}: {detail}")]
    InvalidKey {
        /// The key.
        key: String,
        /// A description of the error.
        detail: String,
    },
    /// An invalid label value, or a value that must be an integer and is not (AP-73).
    #[error("unable to parse requirement: values: Invalid value: {value:?}: {detail}")]
    InvalidValue {
        /// The value.
        value: String,
        /// A description of the error.
        detail: String,
    },
    /// A structured requirement with the wrong number of values for its operator (WH-77).
    #[error("wrong number of values for operator {operator}: {count}")]
    ValueCount {
        /// The operator.
        operator: String,
        /// The number of values.
        count: usize,
    },
    /// A structured field requirement with several values, which no field selector can express (WH-77).
    #[error("fieldSelectors do not yet support multiple values")]
    MultipleValues,
    /// A structured requirement with an operator that is not supported here (WH-77).
    #[error("{0:?} is not a supported selector operator")]
    UnsupportedOperator(String),
}

/// Converts structured requirements one by one. Those that cannot be converted are left out and reported (WH-77,
/// NA-22).
pub fn convert_all<R>(
    requirements: &[SelectorRequirement],
    convert: impl Fn(&SelectorRequirement) -> Result<R, SelectorError>,
) -> (Vec<R>, Vec<SelectorError>) {
    let mut converted = Vec::with_capacity(requirements.len());
    let mut errors = Vec::new();
    for requirement in requirements {
        match convert(requirement) {
            Ok(requirement) => converted.push(requirement),
            Err(error) => errors.push(error),
        }
    }
    (converted, errors)
}
