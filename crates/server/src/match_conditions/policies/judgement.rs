//! The result of a policy for a write, and the budget for computing it.

/// The budget of the expressions of a policy for one binding, in bytes that they read, approximately. DIVERGES: Kubernetes
/// computes a cost instead, when a policy is written and while it is evaluated.
const BUDGET: u64 = 1 << 28;

/// The remaining budget of the expressions of a policy.
#[derive(Debug)]
pub struct Budget(pub(super) Option<u64>);

impl Default for Budget {
    fn default() -> Self {
        Self(Some(BUDGET))
    }
}

/// The result of a policy for a write.
#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// A match condition is false: it says nothing.
    Unmatched,
    /// The match conditions failed.
    Failed(String),
    /// The results of the validations and of the audit annotations.
    Judged(Vec<Checked>, Vec<Result<Option<String>, String>>),
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
