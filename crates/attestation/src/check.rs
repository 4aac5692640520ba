//! Checks and their results.

use crate::reason::Reason;

/// One check of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The number of the rule, such as `AT-119.7`.
    pub rule: &'static str,
    /// What must hold.
    pub what: &'static str,
    /// The result.
    pub result: CheckResult,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// It holds; what was found, which may be empty.
    Passed(String),
    /// It does not hold.
    Failed(Refusal),
    /// It could not be evaluated, because an earlier check failed.
    NotEvaluated,
    /// The configuration does not ask for it.
    NotRequired,
}

/// Why evidence is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// The number of the rule.
    pub rule: &'static str,
    /// What was found.
    pub detail: String,
}

/// All checks in order, and the outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<T> {
    /// The checks.
    pub checks: Vec<Check>,
    /// What was verified, or the first refusal.
    pub outcome: Result<T, Refusal>,
}
