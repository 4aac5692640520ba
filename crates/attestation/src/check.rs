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

/// What a check found: details for people, or how it ended otherwise.
pub(crate) type Finding = Result<String, Ending>;

/// Why a check did not pass.
pub(crate) enum Ending {
    /// It does not hold.
    Failed(Reason, String),
    /// The configuration does not ask for it.
    NotRequired,
}

pub(crate) fn failed<T>(reason: Reason, detail: impl Into<String>) -> Result<T, Ending> {
    Err(Ending::Failed(reason, detail.into()))
}

pub(crate) fn require(holds: bool, reason: Reason, detail: &str) -> Result<(), Ending> {
    if holds { Ok(()) } else { failed(reason, detail) }
}

/// The checks so far.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) checks: Vec<Check>,
}

impl Run {
    /// Carries out a check, if what it needs is there.
    pub(crate) fn step<T>(
        &mut self,
        rule: &'static str,
        what: &'static str,
        with: Option<&T>,
        check: impl FnOnce(&T) -> Finding,
    ) {
        let result = match with.map(check) {
            None => CheckResult::NotEvaluated,
            Some(Ok(detail)) => CheckResult::Passed(detail),
            Some(Err(Ending::NotRequired)) => CheckResult::NotRequired,
            Some(Err(Ending::Failed(reason, detail))) => {
                CheckResult::Failed(Refusal { reason, rule, detail })
            }
        };
        self.checks.push(Check { rule, what, result });
    }

    /// The report: what is verified, if every check passed.
    pub(crate) fn report<T>(self, verified: impl FnOnce() -> Option<T>) -> Report<T> {
        let refusal = self.checks.iter().find_map(|check| match &check.result {
            CheckResult::Failed(refusal) => Some(refusal.clone()),
            _ => None,
        });
        let is_evaluated = !self.checks.iter().any(|check| check.result == CheckResult::NotEvaluated);
        let outcome = match refusal {
            Some(refusal) => Err(refusal),
            None => verified().filter(|_| is_evaluated).ok_or_else(|| Refusal {
                reason: Reason::NotEvaluated,
                rule: "AT-70",
                detail: "a check could not be evaluated".to_owned(),
            }),
        };
        Report { checks: self.checks, outcome }
    }
}
