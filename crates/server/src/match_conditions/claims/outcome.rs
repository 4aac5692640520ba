//! The values that an expression about a token can have.

/// The value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(String),
    /// A list of strings.
    Texts(Vec<String>),
    /// Anything else, which nothing of a user can be.
    Other,
}
