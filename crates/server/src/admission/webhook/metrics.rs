//! The metrics of admission webhooks, under the names of kube-apiserver.
//!
//! Names in labels come from configurations, never from callers.

use std::time::Duration;

use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::Registry;

use super::phase::Phase;
use crate::metrics::{Durations, Timing};

/// The buckets of `apiserver_admission_webhook_admission_duration_seconds`.
const CALL_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    code: u16,
    rejected: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    error_type: &'static str,
    rejection_code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OpenLabels {
    name: String,
    r#type: &'static str,
}

/// See the module. Clones share the metrics.
#[derive(Clone, Debug)]
pub(crate) struct AdmissionWebhookMetrics {
    durations: Durations<CallLabels>,
    requests: Family<RequestLabels, Counter>,
    rejections: Family<RejectionLabels, Counter>,
    fail_open: Family<OpenLabels, Counter>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The webhook allows.
    Allowed,
    /// The webhook refuses, with this code.
    Refused(u16),
    /// The webhook failed.
    Failed,
}

impl AdmissionWebhookMetrics {
    /// Creates the metrics and registers them.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let metrics = Self {
            durations: Durations::new_with_constructor(|| Timing::new(CALL_SECONDS)),
            requests: Family::default(),
            rejections: Family::default(),
            fail_open: Family::default(),
        };
        registry.register(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Time of calls of admission webhooks",
            metrics.durations.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_request_total",
            "Calls of admission webhooks, by the code of the answer",
            metrics.requests.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_rejection_count",
            "Writes that admission webhooks have refused, or that were refused because one failed",
            metrics.rejections.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_fail_open_count",
            "Writes that went on although an admission webhook failed",
            metrics.fail_open.clone(),
        );
        metrics
    }

    /// Counts a call.
    pub(super) fn called(
        &self,
        (name, phase, operation): (&str, Phase, &'static str),
        ended: Ended,
        elapsed: Duration,
    ) {
        let (name, r#type) = (name.to_owned(), phase.as_str());
        let (rejected, code) = match ended {
            Ended::Allowed => ("false", 200),
            // As Kubernetes counts them: all higher codes are one.
            Ended::Refused(code) => ("true", code.min(600)),
            Ended::Failed => ("true", 500),
        };
        let labels = CallLabels { name: name.clone(), r#type, operation, rejected };
        self.durations.get_or_create(&labels).observe(elapsed);
        self.requests.get_or_create(&RequestLabels { name, r#type, operation, code, rejected }).inc();
    }

    /// Counts a write that is refused.
    pub(super) fn refused(&self, (name, phase, operation): (&str, Phase, &'static str), ended: Ended) {
        let (error_type, rejection_code) = match ended {
            Ended::Allowed => return,
            Ended::Refused(code) => ("no_error", code.min(600)),
            Ended::Failed => ("calling_webhook_error", 0),
        };
        let (name, r#type) = (name.to_owned(), phase.as_str());
        let labels = RejectionLabels { name, r#type, operation, error_type, rejection_code };
        self.rejections.get_or_create(&labels).inc();
    }

    /// Counts a write that goes on although the webhook failed.
    pub(super) fn failed_open(&self, name: &str, phase: Phase) {
        let labels = OpenLabels { name: name.to_owned(), r#type: phase.as_str() };
        self.fail_open.get_or_create(&labels).inc();
    }
}
