//! The metrics of a guard. Label values (endpoints, outcomes, codes) come from closed sets, never from a caller
//! (NC-11).

use std::time::Duration;

use http::StatusCode;
use policy::kubelet_api::Endpoint;
use portcullis_client::metrics::{Counter, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::audit::SinkMetrics;
use crate::http::listener::ConnectionMetrics;
use crate::metrics::{Durations, Timing};

/// Seconds until the response headers: from a tenth of a millisecond to ten seconds.
const SECONDS: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0];

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// The kubelet responded.
    Allowed,
    /// The request is allowed, but kubelets could interpret it differently.
    Ambiguous,
    /// Nobody allows it.
    Denied,
    /// The authorization check failed.
    Failed,
    /// The user exceeds the rate limit.
    Limited,
    /// The kubelet has no such endpoint.
    NotFound,
    /// The kubelet would redirect the client.
    Redirected,
    /// The request is not authenticated.
    Unauthenticated,
    /// The kubelet does not respond, or responds incorrectly.
    Unreachable,
    /// The request is malformed.
    Unreadable,
}

impl Outcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Ambiguous => "ambiguous",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Limited => "limited",
            Self::NotFound => "not-found",
            Self::Redirected => "redirected",
            Self::Unauthenticated => "unauthenticated",
            Self::Unreachable => "unreachable",
            Self::Unreadable => "unreadable",
        }
    }

    /// Returns the rule that led to the outcome; empty if it has no number.
    pub(crate) fn rule(self) -> &'static str {
        match self {
            Self::Allowed | Self::Denied | Self::Failed => "KA-54",
            Self::Ambiguous | Self::NotFound => "KA-7",
            Self::Redirected => "KA-8",
            Self::Unauthenticated => "KA-48",
            Self::Limited | Self::Unreachable | Self::Unreadable => "",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    endpoint: &'static str,
    decision: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    endpoint: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// The metrics of the guard. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct GuardMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Durations<EndpointLabels>,
    /// The metrics of connections.
    pub connections: ConnectionMetrics,
    /// The number of open upgraded streams.
    pub(crate) streams: Gauge,
    /// The number of upgraded streams that the guard has closed.
    closed_streams: Family<ReasonLabels, Counter>,
    /// Those of the access log.
    pub log: SinkMetrics,
}

impl Default for GuardMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            seconds: Durations::new_with_constructor(|| Timing::new(SECONDS)),
            connections: ConnectionMetrics::default(),
            streams: Gauge::default(),
            closed_streams: Family::default(),
            log: SinkMetrics::new(Counter::default()),
        }
    }
}

impl GuardMetrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "portcullis_guard_requests_total",
            "Requests to the kubelet, by endpoint, decision and code of the answer",
            self.requests.clone(),
        );
        registry.register(
            "portcullis_guard_request_duration_seconds",
            "Time until the head of the answer, by endpoint",
            self.seconds.clone(),
        );
        self.connections.register(registry, "portcullis_guard", "connections");
        registry.register(
            "portcullis_guard_streams",
            "Streams of exec, attach and port-forward that are open",
            self.streams.clone(),
        );
        registry.register(
            "portcullis_guard_streams_closed_total",
            "Streams that the guard has closed: idle for too long, or the right to them has ended",
            self.closed_streams.clone(),
        );
        registry.register(
            "portcullis_guard_access_log_errors_total",
            "Lines of the access log that were dropped, and attempts to write one that failed",
            self.log.errors.clone(),
        );
        self.log.register(registry, "portcullis_guard_access_log");
    }

    /// Counts a stream that the guard has closed.
    pub(super) fn closed_stream(&self, reason: &'static str) {
        self.closed_streams.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub(super) fn answered(
        &self,
        endpoint: Option<&'static Endpoint>,
        outcome: Outcome,
        status: StatusCode,
        time: Duration,
    ) {
        let endpoint = endpoint.map_or("other", Endpoint::bucket);
        let labels = RequestLabels { endpoint, decision: outcome.name(), code: status.as_u16() };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&EndpointLabels { endpoint }).observe(time);
    }
}
