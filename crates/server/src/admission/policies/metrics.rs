//! The metrics of ValidatingAdmissionPolicies, under the names and with the labels of kube-apiserver.
//!
//! DIVERGES: names of policies and bindings are labels only as long as there are few of them. In kube-apiserver whoever may write
//! policies can make the metrics grow for ever.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::Registry;

use crate::match_conditions::policies::OUT_OF_BUDGET;
use crate::metrics::{Durations, Timing};

/// The buckets of `apiserver_validating_admission_policy_check_duration_seconds`.
const CHECK_SECONDS: &[f64] = &[0.000_000_5, 0.001, 0.01, 0.1, 1.0];
/// The most pairs of a policy and a binding with labels of their own.
const MOST_PAIRS: usize = 1_000;
/// The name of all others. No object can have it.
const OTHERS: &str = "<others>";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    policy: String,
    policy_binding: String,
    error_type: &'static str,
    enforcement_action: &'static str,
}

/// See the module. Clones share the metrics.
#[derive(Clone, Debug)]
pub(crate) struct PolicyMetrics {
    checks: Family<CheckLabels, Counter>,
    durations: Durations<CheckLabels>,
    /// The pairs that have labels of their own.
    pairs: Arc<RwLock<HashSet<(String, String)>>>,
}

/// Why a validation did not accept a write. kube-apiserver calls an expression that is false an invalid one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorType {
    /// It cannot be compiled.
    Uncompiled,
    /// It would take too long.
    OutOfBudget,
    /// It is false, or failed.
    Invalid,
}

impl ErrorType {
    /// The type of a failure that is told like this.
    pub(super) fn of(why: &str) -> Self {
        if why.ends_with(OUT_OF_BUDGET) { Self::OutOfBudget } else { Self::Invalid }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Uncompiled => "compile_error",
            Self::OutOfBudget => "out_of_budget",
            Self::Invalid => "invalid_error",
        }
    }
}

impl PolicyMetrics {
    /// Creates the metrics and registers them.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let metrics = Self {
            checks: Family::default(),
            durations: Durations::new_with_constructor(|| Timing::new(CHECK_SECONDS)),
            pairs: Arc::default(),
        };
        registry.register(
            "apiserver_validating_admission_policy_check_total",
            "Validations of admission policies that did not accept a write, by policy, binding and enforcement action",
            metrics.checks.clone(),
        );
        registry.register(
            "apiserver_validating_admission_policy_check_duration_seconds",
            "Time of the validations of admission policies that did not accept a write",
            metrics.durations.clone(),
        );
        metrics
    }

    /// Counts a validation that did not accept a write, with the enforcement action: `deny`, `warn`, `audit`, or `allow` if the failure is ignored. `elapsed` is the
    /// time of the validation.
    pub(super) fn checked(
        &self,
        (policy, binding): (&str, &str),
        error: ErrorType,
        enforcement_action: &'static str,
        elapsed: Duration,
    ) {
        let (policy, policy_binding) = self.named(policy, binding);
        let labels = CheckLabels { policy, policy_binding, error_type: error.as_str(), enforcement_action };
        self.checks.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(elapsed);
    }

    fn named(&self, policy: &str, binding: &str) -> (String, String) {
        let pair = (policy.to_owned(), binding.to_owned());
        if self.pairs.read().unwrap_or_else(PoisonError::into_inner).contains(&pair) {
            return pair;
        }
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        if pairs.len() >= MOST_PAIRS && !pairs.contains(&pair) {
            return (OTHERS.to_owned(), OTHERS.to_owned());
        }
        pairs.insert(pair.clone());
        pair
    }
}

#[cfg(test)]
mod tests {
    use portcullis_client::metrics::exposition;

    use super::*;

    #[test]
    fn names_of_policies_cannot_make_the_metrics_grow() {
        let mut registry = Registry::default();
        let metrics = PolicyMetrics::registered(&mut registry);
        for at in 0..10 * MOST_PAIRS {
            let (policy, binding) = (format!("p{at}"), "b");
            metrics.checked((&policy, binding), ErrorType::Invalid, "deny", Duration::ZERO);
            metrics.checked(("p1", binding), ErrorType::Invalid, "deny", Duration::ZERO);
        }
        let out = exposition(&registry).unwrap();
        let counted = "apiserver_validating_admission_policy_check_total{";
        assert_eq!(out.lines().filter(|line| line.starts_with(counted)).count(), MOST_PAIRS + 1);
        let labels = |policy: &str, binding: &str| {
            format!(
                "{counted}policy=\"{policy}\",policy_binding=\"{binding}\",error_type=\"invalid_error\",enforcement_action=\"deny\"}}"
            )
        };
        let others = format!("{} {}", labels(OTHERS, OTHERS), 9 * MOST_PAIRS);
        let kept = format!("{} {}", labels("p1", "b"), 10 * MOST_PAIRS + 1);
        assert!(
            out.lines().any(|line| line == others) && out.lines().any(|line| line == kept),
            "{others} {kept}"
        );
    }

    #[test]
    fn failures_have_the_types_of_kubernetes() {
        assert_eq!(
            ErrorType::of(&format!("expression 'x' resulted in error: {OUT_OF_BUDGET}")),
            ErrorType::OutOfBudget
        );
        assert_eq!(ErrorType::of("no such key: a"), ErrorType::Invalid);
        let types =
            [ErrorType::Uncompiled, ErrorType::OutOfBudget, ErrorType::Invalid].map(ErrorType::as_str);
        assert_eq!(types, ["compile_error", "out_of_budget", "invalid_error"]);
    }
}
