//! The result of a policy for a write, and the budget for computing it.

use std::time::Duration;

/// The budget of the expressions of a policy for one binding, in bytes that they read, approximately. DIVERGES: Kubernetes
/// computes a cost instead, when a policy is written and while it is evaluated.
const BUDGET: u64 = 1 << 28;

/// What is told when the budget is used up.
pub const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The remaining budget of the expressions of a policy.
#[derive(Debug)]
pub struct Budget(pub(super) Option<u64>);

impl Default for Budget {
    fn default() -> Self {
        Self(Some(BUDGET))
    }
}

/// A result, and the time that it took.
pub type Timed<T> = (T, Duration);

/// The result of a policy for a write.
#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// A match condition is false: it says nothing.
    Unmatched,
    /// The match conditions failed.
    Failed(String),
    /// The results of the validations and of the audit annotations, each with its time.
    Judged(Vec<Timed<Checked>>, Vec<Timed<Result<Option<String>, String>>>),
}

/// The result of a validation.
#[derive(Debug, PartialEq, Eq)]
pub enum Checked {
    /// It is true.
    Holds,
    /// It is false. The message, if an expression makes it.
    Fails(Option<String>),
    /// It failed.
    Failed(String),
}
