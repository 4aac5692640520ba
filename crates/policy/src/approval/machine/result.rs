//! The results of checks: failures, the list of checks, and the decision.

use super::reason::{Outcome, Reason};

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason.
    pub reason: Reason,
    /// The rule that decided, such as `NB-88`.
    pub rule: &'static str,
    /// A description of the values compared, for people.
    pub detail: String,
    /// Whether the request is one that no legitimate kubelet sends.
    pub is_forged: bool,
}

/// Why a check failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The outcome, before the deny mode is applied.
    pub outcome: Outcome,
    /// The reason.
    pub reason: Reason,
    /// A description of the values compared, for people.
    pub detail: String,
}

impl Failure {
    /// Creates a failure with the outcome of its reason.
    pub(super) fn of(reason: Reason, detail: String) -> Self {
        Self { outcome: reason.outcome(), reason, detail }
    }

    /// Creates a permanent failure, whatever its reason.
    pub(super) fn hold(reason: Reason, detail: String) -> Self {
        Self { outcome: Outcome::Hold, reason, detail }
    }
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The check passed. Contains the finding, for people.
    Passed(String),
    /// The configuration does not require the check.
    NotRequired(&'static str),
    /// It does not hold.
    Failed(Failure),
    /// The check could not be evaluated because an earlier one failed.
    NotEvaluated(&'static str),
}

impl From<Failure> for CheckResult {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Result<String, Failure>> for CheckResult {
    fn from(result: Result<String, Failure>) -> Self {
        result.map_or_else(Self::Failed, Self::Passed)
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The rule, such as `NB-88`.
    pub rule: &'static str,
    /// A description of the requirement.
    pub what: &'static str,
    /// The result.
    pub result: CheckResult,
    /// Whether the check is one of several alternatives of which one suffices.
    pub is_alternative: bool,
}

/// All checks of a request in order, and the verdict. The first failure decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The checks.
    pub checks: Vec<Check>,
    /// The verdict.
    pub verdict: Verdict,
}
