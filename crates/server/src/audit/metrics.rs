//! The metrics of the audit log.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::level::Level;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabels {
    level: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    plugin: &'static str,
}

/// See the module documentation. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct AuditMetrics {
    levels: Family<LevelLabels, Counter>,
    /// Events.
    pub(super) events: Counter,
    /// Events that were dropped or could not be written.
    pub errors: Counter,
    /// The number of requests that were refused because their first audit event could not be written.
    pub(super) rejected: Counter,
}

impl AuditMetrics {
    /// Metrics that this registry shows.
    pub fn registered(registry: &mut Registry) -> Self {
        let levels = Family::<LevelLabels, Counter>::default();
        let errors = Family::<PluginLabels, Counter>::default();
        let metrics = Self {
            levels: levels.clone(),
            events: Counter::default(),
            errors: errors.get_or_create_owned(&PluginLabels { plugin: "log" }),
            rejected: Counter::default(),
        };
        registry.register("apiserver_audit_level", "Audited requests, by level", levels);
        registry.register("apiserver_audit_event", "Events of the audit log", metrics.events.clone());
        registry.register(
            "apiserver_audit_error",
            "Events of the audit log that were dropped or could not be written",
            errors,
        );
        registry.register(
            "apiserver_audit_requests_rejected",
            "Requests refused because their first audit event could not be written",
            metrics.rejected.clone(),
        );
        metrics
    }

    /// Counts a request that was matched against the audit policy.
    pub(super) fn audited(&self, level: Level) {
        self.levels.get_or_create(&LevelLabels { level: level.name() }).inc();
    }
}
