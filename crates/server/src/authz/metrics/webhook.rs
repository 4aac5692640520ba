//! The metrics of webhooks, their conditions and their configuration (AC-122, AC-123, WH-60, WH-61).
//!
//! Names in labels come from the configuration, never from callers.

use std::time::Duration;

use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::metrics::ReloadMetrics;

/// The buckets of `apiserver_authorization_webhook_duration_seconds`.
const CALL_SECONDS: [f64; 13] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0];
/// AC-122
const CONDITION_SECONDS: [f64; 7] = [0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    name: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabels {
    r#type: &'static str,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    r#type: &'static str,
    name: String,
    decision: &'static str,
}

/// See the module documentation. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    calls: Family<CallLabels, Counter>,
    durations: Durations<CallLabels>,
    fail_open: Family<CallLabels, Counter>,
    decisions: Family<DecisionLabels, Counter>,
    condition_errors: Family<ConditionLabels, Counter>,
    exclusions: Family<ConditionLabels, Counter>,
    condition_seconds: Durations<ConditionLabels>,
    /// Of the configuration file.
    pub(crate) reload: ReloadMetrics,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(CALL_SECONDS)),
            fail_open: Family::default(),
            decisions: Family::default(),
            condition_errors: Family::default(),
            exclusions: Family::default(),
            condition_seconds: Family::new_with_constructor(|| Histogram::new(CONDITION_SECONDS)),
            reload: ReloadMetrics::default(),
        }
    }
}

impl WebhookMetrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_authorization_webhook_evaluations_total",
            "Calls of authorization webhooks, by result",
            self.calls.clone(),
        );
        registry.register(
            "apiserver_authorization_webhook_duration_seconds",
            "Time of calls of authorization webhooks, by result",
            self.durations.clone(),
        );
        registry.register(
            "apiserver_authorization_webhook_evaluations_fail_open_total",
            "Failures of authorization webhooks with failure policy NoOpinion",
            self.fail_open.clone(),
        );
        registry.register(
            "apiserver_authorization_decisions_total",
            "Decisions of configured authorizers where webhooks are among them",
            self.decisions.clone(),
        );
        registry.register(
            "apiserver_authorization_match_condition_evaluation_errors_total",
            "Requests for which a match condition could not be evaluated",
            self.condition_errors.clone(),
        );
        registry.register(
            "apiserver_authorization_match_condition_exclusions_total",
            "Webhook calls skipped because of match conditions",
            self.exclusions.clone(),
        );
        registry.register(
            "apiserver_authorization_match_condition_evaluation_seconds",
            "Time to evaluate the match conditions of a webhook",
            self.condition_seconds.clone(),
        );
        self.reload.register(registry, "authorization");
    }

    /// WH-60, WH-62, WH-63
    pub(crate) fn called(&self, name: &str, result: &'static str, elapsed: Duration) {
        let labels = CallLabels { name: name.to_owned(), result };
        self.durations.get_or_create(&labels).observe(elapsed.as_secs_f64());
        self.calls.get_or_create(&labels).inc();
    }

    /// WH-61
    pub(crate) fn failed_open(&self, name: &str, result: &'static str) {
        self.fail_open.get_or_create(&CallLabels { name: name.to_owned(), result }).inc();
    }

    /// The counter of the decisions of one authorizer (AC-120).
    pub(crate) fn decisions(&self, mode: &'static str, name: &str, decision: &'static str) -> Counter {
        let labels = DecisionLabels { r#type: mode, name: name.to_owned(), decision };
        self.decisions.get_or_create_owned(&labels)
    }

    /// AC-122
    pub(crate) fn conditions(&self, name: &str, failed: bool, excluded: bool, elapsed: Duration) {
        let labels = ConditionLabels { r#type: "Webhook", name: name.to_owned() };
        if failed {
            self.condition_errors.get_or_create(&labels).inc();
        }
        if excluded {
            self.exclusions.get_or_create(&labels).inc();
        }
        self.condition_seconds.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }
}
