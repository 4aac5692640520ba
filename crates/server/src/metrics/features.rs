//! `kubernetes_feature_enabled`: the enabled feature gates (KA-75).

use portcullis_client::metrics::Family;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    name: &'static str,
    stage: &'static str,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct FeatureMetrics {
    enabled: Family<Labels, Gauge>,
}

impl FeatureMetrics {
    /// Creates the metrics for gates: name, stage, whether enabled.
    pub fn of_gates(gates: impl Iterator<Item = (&'static str, &'static str, bool)>) -> Self {
        let metrics = Self::default();
        metrics.tell(gates);
        metrics
    }

    /// Replaces the gates.
    pub fn tell(&self, gates: impl Iterator<Item = (&'static str, &'static str, bool)>) {
        for (name, stage, is_on) in gates {
            self.enabled.get_or_create(&Labels { name, stage }).set(i64::from(is_on));
        }
    }

    /// Registers the gauges.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "kubernetes_feature_enabled",
            "1 if a feature gate is enabled, 0 if it is disabled",
            self.enabled.clone(),
        );
    }
}
