//! The clients of a listener: their limits, what they make the server hold, and the metrics of their connections.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use portcullis_client::metrics::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::http::budget::Budget;
use crate::http::limits::Limits;

/// See the module.
pub struct Clients {
    /// The limits of one client.
    pub(crate) limits: Limits,
    /// What each caller makes the server hold.
    pub(crate) held: Arc<Budget>,
    pub(super) metrics: ConnectionMetrics,
}

impl Clients {
    /// Clients with these limits, which hold nothing.
    pub(crate) fn new(limits: Limits, metrics: &ConnectionMetrics) -> Self {
        Self { limits, held: Budget::new(limits.held_bytes), metrics: metrics.clone() }
    }
}

/// The metrics of connections. Clones share the metrics.
#[derive(Clone, Debug, Default)]
pub struct ConnectionMetrics {
    /// The number of open connections.
    pub open: Gauge,
    /// The number of failed handshakes.
    pub(super) handshake_failures: Counter,
    /// The number of connections that were closed because there were too many.
    pub(super) closed_for_others: Counter,
    /// When the certificate that is served expires, in seconds since 1970.
    certificate_expires: Gauge<f64, AtomicU64>,
}

impl ConnectionMetrics {
    /// Registers the metrics of a program, with this prefix, under `open` and the names that all programs have.
    pub(crate) fn register(&self, registry: &mut Registry, prefix: &str, open: &str) {
        registry.register(format!("{prefix}_{open}"), "Connections that are open", self.open.clone());
        registry.register(
            format!("{prefix}_tls_handshake_failures_total"),
            "Connections that ended in the TLS handshake",
            self.handshake_failures.clone(),
        );
        registry.register(
            format!("{prefix}_connections_closed_for_others_total"),
            "Connections that were closed because their client had most of too many",
            self.closed_for_others.clone(),
        );
        registry.register(
            format!("{prefix}_serving_certificate_expiration_timestamp_seconds"),
            "When the serving certificate expires, in seconds since 1970",
            self.certificate_expires.clone(),
        );
    }

    /// Records when the certificate that is served expires.
    pub(crate) fn certificate_expires(&self, time: SystemTime) {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.certificate_expires.set(since.as_secs_f64());
    }
}
