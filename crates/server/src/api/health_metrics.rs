//! The metrics of health checks.

use std::fmt;

use portcullis_client::metrics::{Counter, Family, exposition};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::route::Probe;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CheckLabels {
    name: &'static str,
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    name: &'static str,
    r#type: &'static str,
    status: &'static str,
}

/// The metrics of health checks. They are not among those of `/metrics`, as in kube-apiserver.
pub(super) struct HealthMetrics {
    registry: Registry,
    last: Family<CheckLabels, Gauge>,
    total: Family<ResultLabels, Counter>,
}

impl Default for HealthMetrics {
    fn default() -> Self {
        let (mut registry, last, total) = (Registry::default(), Family::default(), Family::default());
        registry.register(
            "kubernetes_healthcheck",
            "1 if a health check succeeded the last time, 0 if it failed",
            Family::clone(&last),
        );
        registry.register(
            "kubernetes_healthchecks_total",
            "Runs of health checks, by result",
            Family::clone(&total),
        );
        Self { registry, last, total }
    }
}

impl HealthMetrics {
    /// Records the result of a check that was run for an endpoint. Kubernetes does not record checks that are asked for by
    /// their own path.
    pub(super) fn checked(&self, probe: Probe, name: &'static str, is_success: bool) {
        let r#type = probe.name();
        self.last.get_or_create(&CheckLabels { name, r#type }).set(i64::from(is_success));
        let status = if is_success { "success" } else { "error" };
        self.total.get_or_create(&ResultLabels { name, r#type, status }).inc();
    }

    /// Renders the metrics as text.
    ///
    /// # Errors
    /// A metric cannot be rendered.
    pub(super) fn render(&self) -> Result<String, fmt::Error> {
        exposition(&self.registry)
    }

    /// Forgets all results.
    pub(super) fn reset(&self) {
        self.last.clear();
        self.total.clear();
    }
}
