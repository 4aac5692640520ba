//! Field and label selectors as authorizers see them: lists of requirements that all hold.
//!
//! A selector comes as text, in a URL or a review ([`parse_field_selector`], [`parse_label_selector`]), or as
//! structured requirements, in a review ([`SelectorRequirement`]). Nothing here matches objects: a selector only
//! says what a request limits itself to. A selector that cannot be read is an error for the caller to report; for
//! the decision it is as if the request had no selector, which can only be refused more often (AC-46).

mod field;
mod label;
pub mod syntax;

use serde::Serialize;

pub use field::parse_field_selector;
pub use label::parse_label_selector;

/// One term of a field selector, such as `spec.nodeName=n0` (AC-44). Prints as text that parses back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// The field path, as written.
    pub field: String,
    /// How the field is compared.
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
    /// How the label is compared.
    pub operator: LabelOperator,
    /// The values; empty for `Exists` and `DoesNotExist`. Sorted and each once when they come from text, as they
    /// were given when they come from a structured requirement.
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

/// A requirement as reviews carry it, before anybody looked at the operator (WH-13).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SelectorRequirement {
    /// The field path or label key.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, or a word that a newer client knows.
    pub operator: String,
    /// The values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Why a selector, or one requirement of it, could not be read.
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
    /// A backslash in a field value stands before something other than `\`, `,` and `=`, or at the end (AC-44).
    #[error("invalid field selector: invalid escape sequence: {0}")]
    InvalidEscape(String),
    /// A field value holds a bare `,` or `=` (AC-44).
    #[error("invalid field selector: unescaped character in value: {0}")]
    Unescaped(char),
    /// A label selector holds something where something else must stand (AC-45).
    #[error("unable to parse requirement: found '{found}', expected: {expected}")]
    Unexpected {
        /// What is there; empty at the end of the text.
        found: String,
        /// What must be there.
        expected: &'static str,
    },
    /// A label key that no label can have (AP-73).
    #[error("unable to parse requirement: key: Invalid value: {key:?}: {detail}")]
    InvalidKey {
        /// The key.
        key: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A value that no label can have, or that is not an integer where one is needed (AP-73).
    #[error("unable to parse requirement: values: Invalid value: {value:?}: {detail}")]
    InvalidValue {
        /// The value.
        value: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A structured requirement with the wrong number of values for its operator (WH-77).
    #[error("wrong number of values for operator {operator}: {count}")]
    ValueCount {
        /// The operator.
        operator: String,
        /// How many values there are.
        count: usize,
    },
    /// A structured field requirement with several values, which no field selector can express (WH-77).
    #[error("fieldSelectors do not yet support multiple values")]
    MultipleValues,
    /// A structured requirement with an operator that is not supported here (WH-77).
    #[error("{0:?} is not a supported selector operator")]
    UnsupportedOperator(String),
}

/// Reads structured requirements one by one; what cannot be converted is left out and reported (WH-77, NA-22).
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
