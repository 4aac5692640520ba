//! The metrics of the audit log.

use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
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

/// Why lines of a log are lost.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lost {
    /// The queue had no space for a stranger.
    Stranger,
    /// The queue was full.
    Full,
    /// It could not be written.
    Unwritten,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LostLabels {
    reason: &'static str,
}

/// See the module documentation. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct AuditMetrics {
    levels: Family<LevelLabels, Counter>,
    /// Events.
    pub(super) events: Counter,
    /// Those of the log's queue.
    pub sink: SinkMetrics,
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
            sink: SinkMetrics::new(errors.get_or_create_owned(&PluginLabels { plugin: "log" })),
            rejected: Counter::default(),
        };
        metrics.sink.register(registry, "portcullis_audit");
        registry.register("apiserver_audit_level_total", "Audited requests, by level", levels);
        registry.register("apiserver_audit_event_total", "Events of the audit log", metrics.events.clone());
        registry.register(
            "apiserver_audit_error_total",
            "Events of the audit log that were dropped, and attempts to write one that failed",
            errors,
        );
        registry.register(
            "apiserver_audit_requests_rejected_total",
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

/// The metrics of the queue and the writer of one log. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct SinkMetrics {
    /// Lines that were dropped, and attempts to write a line that failed.
    pub(crate) errors: Counter,
    lost: Family<LostLabels, Counter>,
    lines: Gauge,
    bytes: Gauge,
    /// Requests that wait for a place in the queue.
    pub(super) waiting: Gauge,
}

impl SinkMetrics {
    /// Metrics with this counter of errors, which is registered by its own name.
    pub fn new(errors: Counter) -> Self {
        Self {
            errors,
            lost: Family::default(),
            lines: Gauge::default(),
            bytes: Gauge::default(),
            waiting: Gauge::default(),
        }
    }

    /// Registers all but the counter of errors, under names that begin with `prefix`.
    pub fn register(&self, registry: &mut Registry, prefix: &str) {
        let name = |rest: &str| format!("{prefix}_{rest}");
        let help = "Lines that could not be written, and requests whose lines were dropped, by reason";
        registry.register(name("lost_total"), help, self.lost.clone());
        registry.register(name("queued_lines"), "Lines in the queue of the log", self.lines.clone());
        registry.register(name("queued_bytes"), "Bytes in the queue of the log", self.bytes.clone());
        let help = "Requests that wait for space in the queue of the log";
        registry.register(name("waiting_requests"), help, self.waiting.clone());
    }

    pub(super) fn lost(&self, why: Lost) {
        let reason = match why {
            Lost::Stranger => "stranger",
            Lost::Full => "full",
            Lost::Unwritten => "unwritten",
        };
        self.lost.get_or_create(&LostLabels { reason }).inc();
    }

    pub(super) fn queued(&self, bytes: usize) {
        self.lines.inc();
        self.bytes.inc_by(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    pub(super) fn unqueued(&self, bytes: usize) {
        self.lines.dec();
        self.bytes.dec_by(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}
