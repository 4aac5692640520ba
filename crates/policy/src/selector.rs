//! Field and label selectors as authorizers see them: lists of requirements that all hold.

/// One term of a field selector, such as `spec.nodeName=n0` (AC-44).
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

/// One requirement of a label selector, such as `app in (a,b)` (AC-45).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelRequirement {
    /// The label key.
    pub key: String,
    /// How the label is compared.
    pub operator: LabelOperator,
    /// The values, sorted; empty for `Exists` and `DoesNotExist`.
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
