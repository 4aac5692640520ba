//! The metrics of impersonation (AN-162).

use std::time::Duration;

use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::Registry;

use crate::metrics::{ACCESS_SECONDS, Durations, Timing};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeLabels {
    mode: &'static str,
    decision: &'static str,
}

/// See the module.
pub struct ImpersonationMetrics {
    attempts: Counts,
    checks: Counts,
}

/// How often, and for how long.
struct Counts {
    total: Family<ModeLabels, Counter>,
    seconds: Durations<ModeLabels>,
}

impl Counts {
    fn registered(registry: &mut Registry, name: &str, what: &str) -> Self {
        let total = Family::<ModeLabels, Counter>::default();
        let seconds: Durations<ModeLabels> = Durations::new_with_constructor(|| Timing::new(ACCESS_SECONDS));
        registry.register(
            format!("apiserver_impersonation_{name}_total"),
            format!("Count of {what}, by mode and decision"),
            total.clone(),
        );
        registry.register(
            format!("apiserver_impersonation_{name}_duration_seconds"),
            format!("Time of {what}, by mode and decision"),
            seconds.clone(),
        );
        Self { total, seconds }
    }

    fn add(&self, mode: &'static str, is_allowed: bool, elapsed: Duration) {
        let labels = ModeLabels { mode, decision: if is_allowed { "allowed" } else { "denied" } };
        self.total.get_or_create(&labels).inc();
        self.seconds.get_or_create(&labels).observe(elapsed);
    }
}

impl ImpersonationMetrics {
    /// Metrics that this registry shows.
    pub fn registered(registry: &mut Registry) -> Self {
        Self {
            attempts: Counts::registered(registry, "attempts", "requests in the name of somebody else"),
            checks: Counts::registered(
                registry,
                "authorization_attempts",
                "authorization checks for requests in the name of somebody else",
            ),
        }
    }

    /// Counts a request with impersonation: the mode that allowed it, or none.
    pub(super) fn attempted(&self, mode: Option<&'static str>, elapsed: Duration) {
        self.attempts.add(mode.unwrap_or_default(), mode.is_some(), elapsed);
    }

    /// Counts one question to the authorizers.
    pub(super) fn checked(&self, mode: &'static str, is_allowed: bool, elapsed: Duration) {
        self.checks.add(mode, is_allowed, elapsed);
    }
}
