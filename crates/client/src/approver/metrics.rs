//! The metrics of the approver (NB-61, NB-76, NB-77).

use std::time::Duration;

use crate::metrics::{Counter, Family};
use portcullis_policy::approval::machine::{Limits, Verdict};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Seconds from the creation of a request to its decision: one second, doubled up to over an hour.
const DECISION_SECONDS: [f64; 13] =
    [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

/// The metrics of the approver. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct ApproverMetrics {
    decisions: Family<DecisionLabels, Counter>,
    retries: Family<ReasonLabels, Counter>,
    seconds: Histogram,
    current: Gauge,
    max: Gauge,
    identities: Gauge,
    contested: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabels {
    signer: String,
    outcome: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

impl Default for ApproverMetrics {
    fn default() -> Self {
        Self {
            decisions: Family::default(),
            retries: Family::default(),
            seconds: Histogram::new(DECISION_SECONDS),
            current: Gauge::default(),
            max: Gauge::default(),
            identities: Gauge::default(),
            contested: Gauge::default(),
        }
    }
}

impl ApproverMetrics {
    /// Registers the metrics under their public names.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "node_csr_decisions_total",
            "Evaluations of certificate requests, by signer, outcome and reason",
            self.decisions.clone(),
        );
        registry.register(
            "node_csr_retries_total",
            "Evaluations of certificate requests that are repeated, by reason",
            self.retries.clone(),
        );
        registry.register(
            "node_csr_decision_seconds",
            "Time from the creation of a certificate request to its decision",
            self.seconds.clone(),
        );
        registry.register(
            "mapi_current_pending_csr",
            "Recent certificate requests that wait for a decision",
            self.current.clone(),
        );
        registry.register(
            "mapi_max_pending_csr",
            "How many certificate requests may wait; while there are more, none is approved",
            self.max.clone(),
        );
        registry.register(
            "node_csr_pending_identities",
            "Different node names among the certificate requests that wait",
            self.identities.clone(),
        );
        let help = "Certificate requests that are held because another key is requested for the same name";
        registry.register("node_csr_contested", help, self.contested.clone());
    }

    /// Counts an evaluation. The signer is one of those that the approver handles.
    pub(super) fn decided(&self, signer: &str, verdict: &Verdict) {
        let (outcome, reason) = (verdict.outcome.as_str(), verdict.reason.as_str());
        let labels = DecisionLabels { signer: signer.to_owned(), outcome, reason };
        self.decisions.get_or_create(&labels).inc();
    }

    /// Records the time from the creation of a request to its decision.
    pub(super) fn took(&self, time: Duration) {
        self.seconds.observe(time.as_secs_f64());
    }

    /// Counts a retry.
    pub(super) fn retried(&self, verdict: &Verdict) {
        self.retries.get_or_create(&ReasonLabels { reason: verdict.reason.as_str() }).inc();
    }

    /// Records the number of contested requests (NB-75a).
    pub(super) fn contested(&self, count: usize) {
        self.contested.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Records the number of pending requests, and its limit.
    pub(super) fn waiting(&self, limits: &Limits) {
        let set = |gauge: &Gauge, count: usize| gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        set(&self.current, limits.recently_pending());
        set(&self.max, limits.max_pending());
        set(&self.identities, limits.pending_identities());
    }
}
