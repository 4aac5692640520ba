//! Metrics of authorization decisions (AC-121).

pub mod webhook;

use std::time::Duration;

use policy::Decision;
use policy::chain::Outcome;
use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::Registry;

use crate::metrics::{ACCESS_SECONDS, Durations, Timing};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

/// The metrics of one result.
pub(super) struct AuthorizationResult {
    pub(super) attempts: Counter,
    pub(super) time: Timing,
}

/// See the module.
pub struct AuthorizationMetrics {
    /// Allowed, error, denied, no opinion.
    pub(super) results: [AuthorizationResult; 4],
    /// The number of node requests that the Node authorizer did not allow.
    pub(super) node_denials: Counter,
}

impl AuthorizationMetrics {
    /// Metrics that this registry exposes.
    pub fn registered(registry: &mut Registry) -> Self {
        let attempts = Family::<ResultLabels, Counter>::default();
        let times: Durations<ResultLabels> = Durations::new_with_constructor(|| Timing::new(ACCESS_SECONDS));
        let node_denials = Counter::default();
        registry.register("authorization_attempts_total", "Authorized requests, by result", attempts.clone());
        registry.register("authorization_duration_seconds", "Time to decide, by result", times.clone());
        registry.register(
            "portcullis_node_denials_total",
            "Requests of nodes that the Node authorizer did not allow",
            node_denials.clone(),
        );
        let results = ["allowed", "error", "denied", "no-opinion"].map(|result| AuthorizationResult {
            attempts: attempts.get_or_create_owned(&ResultLabels { result }),
            time: times.get_or_create_owned(&ResultLabels { result }),
        });
        Self { results, node_denials }
    }

    /// Counts a decision (AC-121).
    pub(super) fn authorized(&self, outcome: &Outcome, elapsed: Duration) {
        let [allowed, error, denied, no_opinion] = &self.results;
        let result = match outcome {
            Outcome { decision: Decision::Allow(_), .. } => allowed,
            Outcome { error: Some(_), .. } => error,
            Outcome { decision: Decision::Deny(_), .. } => denied,
            Outcome { decision: Decision::NoOpinion(_), .. } => no_opinion,
        };
        result.attempts.inc();
        result.time.observe(elapsed);
    }
}
