//! What a policy says about a write, and what that may cost.

/// What the expressions of a policy may go through for one binding: about the bytes of what they read. DIVERGES: Kubernetes
/// computes a cost instead, when a policy is written and while it is evaluated.
const BUDGET: u64 = 1 << 28;

/// What the expressions of a policy may still go through.
#[derive(Debug)]
pub struct Budget(pub(super) Option<u64>);

impl Default for Budget {
    fn default() -> Self {
        Self(Some(BUDGET))
    }
}

/// What a policy says about a write.
#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// A match condition is false: it says nothing.
    Unmatched,
    /// The match conditions failed.
    Failed(String),
    /// What becomes of each validation and each annotation.
    Judged(Vec<Checked>, Vec<Result<Option<String>, String>>),
}

/// What becomes of a validation.
#[derive(Debug, PartialEq, Eq)]
pub enum Checked {
    /// It is true.
    Holds,
    /// It is false. The message, if an expression makes it.
    Fails(Option<String>),
    /// It failed.
    Failed(String),
}
