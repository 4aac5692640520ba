//! The metrics of a webhook (BC-25). Label values come from closed sets, never from a caller.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use policy::chain::Outcome;
use policy::{Decision, Reason};
use portcullis_client::feed::{Standing, resource_of};
use portcullis_client::metrics::{Counter, Family, exposition};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::shadow_metrics::Counts;
use crate::authz::secret_alarm::AlarmMetrics;
use crate::http::listener::ConnectionMetrics;
use crate::metrics::{Durations, FeatureMetrics, ProcessMetrics, ReloadMetrics, Timing};

/// Seconds until the answer: from fifty microseconds to ten seconds.
const SECONDS: &[f64] =
    &[0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 10.0];

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Admit,
    Audit,
    Authorize,
    Configz,
    Healthz,
    Livez,
    Metrics,
    Readyz,
    Shadow,
}

impl Endpoint {
    /// All endpoints.
    const ALL: [Self; 9] = [
        Self::Admit,
        Self::Audit,
        Self::Authorize,
        Self::Configz,
        Self::Healthz,
        Self::Livez,
        Self::Metrics,
        Self::Readyz,
        Self::Shadow,
    ];

    /// Returns the endpoint of a path.
    pub(super) fn of(path: &str) -> Option<Self> {
        let name = path.strip_prefix('/')?;
        Self::ALL.into_iter().find(|endpoint| endpoint.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Audit => "audit",
            Self::Authorize => "authorize",
            Self::Configz => "configz",
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Metrics => "metrics",
            Self::Readyz => "readyz",
            Self::Shadow => "shadow",
        }
    }

    /// Whether a document is posted.
    pub(super) fn is_posted(self) -> bool {
        matches!(self, Self::Admit | Self::Audit | Self::Authorize)
    }
}

/// How a node that was about to be refused waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The decision has changed.
    Changed,
    /// Everything is known, and the decision is the same.
    Confirmed,
    /// Waiting is turned off.
    Off,
    /// The time was up.
    TimedOut,
    /// Too many requests of the node wait already.
    TooMany,
}

impl Wait {
    fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Confirmed => "confirmed",
            Self::Off => "off",
            Self::TimedOut => "timed-out",
            Self::TooMany => "too-many",
        }
    }
}

/// The answer to an admission review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// A node may write this.
    Allowed,
    /// Not a node: not looked at.
    Passed,
    /// A node may not write this.
    Refused,
    /// A node is refused because its objects are not known.
    Unknown,
}

impl Admitted {
    fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Passed => "passed",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    endpoint: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabels {
    endpoint: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    mode: &'static str,
    decision: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AdmissionLabels {
    decision: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    outcome: &'static str,
}

/// The metrics of a webhook. Clones share the metrics.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Durations<EndpointLabels>,
    decisions: Family<DecisionLabels, Counter>,
    admissions: Family<AdmissionLabels, Counter>,
    waits: Family<WaitLabels, Counter>,
    unreadable: Family<EndpointLabels, Counter>,
    unknown: Counter,
    /// The number of callers without valid credentials.
    pub(super) refused_callers: Counter,
    /// The metrics of connections.
    pub connections: ConnectionMetrics,
    features: FeatureMetrics,
    /// Of the file of deny rules.
    pub deny_rules: ReloadMetrics,
    /// Of the alarm on the secrets that nodes ask for.
    pub secret_alarm: AlarmMetrics,
}

impl WebhookMetrics {
    /// Metrics of a webhook with these feature gates.
    pub fn new(features: FeatureMetrics) -> Self {
        let unreadable = Family::<EndpointLabels, Counter>::default();
        // From zero, so that `increase()` sees the first one.
        for endpoint in [Endpoint::Admit, Endpoint::Authorize] {
            drop(unreadable.get_or_create(&EndpointLabels { endpoint: endpoint.name() }));
        }
        Self {
            requests: Family::default(),
            seconds: Durations::new_with_constructor(|| Timing::new(SECONDS)),
            decisions: Family::default(),
            admissions: Family::default(),
            waits: Family::default(),
            unreadable,
            unknown: Counter::default(),
            refused_callers: Counter::default(),
            connections: ConnectionMetrics::default(),
            features,
            deny_rules: ReloadMetrics::default(),
            secret_alarm: AlarmMetrics::default(),
        }
    }

    pub(super) fn answered(&self, endpoint: Option<Endpoint>, status: StatusCode, time: Duration) {
        let endpoint = endpoint.map_or("other", Endpoint::name);
        self.requests.get_or_create(&RequestLabels { endpoint, code: status.as_u16() }).inc();
        self.seconds.get_or_create(&EndpointLabels { endpoint }).observe(time);
    }

    pub(super) fn authorized(&self, outcome: &Outcome, wait: Option<Wait>) {
        let decision = match &outcome.decision {
            Decision::Allow(_) => "allow",
            Decision::Deny(_) => "deny",
            Decision::NoOpinion(_) => "no-opinion",
        };
        let reason = outcome.decision.reason().iter().find_map(|reason| match reason {
            Reason::NodeUnrelated => Some("node-unrelated"),
            Reason::NotOfNode => Some("not-of-node"),
            Reason::NamespaceUnknown(_) => Some("namespace-unknown"),
            _ => None,
        });
        let reason = reason.unwrap_or_default();
        let mode = outcome.by.map_or("", |mode| mode.name());
        self.decisions.get_or_create(&DecisionLabels { mode, decision, reason }).inc();
        self.waited(wait);
    }

    pub(super) fn admitted(&self, admitted: Admitted, wait: Option<Wait>) {
        self.admissions.get_or_create(&AdmissionLabels { decision: admitted.name() }).inc();
        self.waited(wait);
    }

    fn waited(&self, wait: Option<Wait>) {
        if let Some(wait) = wait {
            self.waits.get_or_create(&WaitLabels { outcome: wait.name() }).inc();
        }
    }

    pub(super) fn unreadable(&self, endpoint: Endpoint) {
        self.unreadable.get_or_create(&EndpointLabels { endpoint: endpoint.name() }).inc();
    }

    pub(super) fn unknown(&self) {
        self.unknown.inc();
    }

    /// Writes all metrics, with what is known of each kind, and the counts of the rehearsal.
    pub(super) fn render(&self, known: Vec<Standing>, shadow: Counts) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        self.register(&mut registry);
        registry.register_collector(Box::new(Standings(known)));
        registry.register_collector(Box::new(shadow));
        exposition(&registry)
    }

    fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(ProcessMetrics));
        self.features.register(registry);
        self.deny_rules.register_deny_rules(registry);
        self.secret_alarm.register(registry);
        registry.register(
            "portcullis_webhook_requests_total",
            "Requests, by endpoint and code of the answer",
            self.requests.clone(),
        );
        registry.register(
            "portcullis_webhook_request_duration_seconds",
            "Time until the answer, by endpoint",
            self.seconds.clone(),
        );
        registry.register(
            "portcullis_webhook_decisions_total",
            "Decisions about access reviews, by the mode that decided and its reason",
            self.decisions.clone(),
        );
        registry.register(
            "portcullis_webhook_admissions_total",
            "Decisions about admission reviews; passed: not a write of a node",
            self.admissions.clone(),
        );
        registry.register(
            "portcullis_webhook_waits_total",
            "Requests of nodes that waited for objects that might not have arrived yet, by outcome",
            self.waits.clone(),
        );
        registry.register(
            "portcullis_webhook_unreadable_reviews_total",
            "Reviews that cannot be read, by endpoint",
            self.unreadable.clone(),
        );
        registry.register(
            "portcullis_webhook_reviews_without_cluster_total",
            "Access reviews that were answered without a mode whose objects are not known",
            self.unknown.clone(),
        );
        registry.register(
            "portcullis_webhook_refused_callers_total",
            "Requests without valid credentials",
            self.refused_callers.clone(),
        );
        self.connections.register(registry, "portcullis_webhook", "connections");
    }
}

/// What is known of each kind.
#[derive(Debug)]
struct Standings(Vec<Standing>);

impl Collector for Standings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut write = |name: &str, help: &str, is_counter: bool, value: fn(&Standing) -> Option<f64>| {
            let kind = if is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for standing in &self.0 {
                let Some(value) = value(standing) else { continue };
                let labels = [("resource", resource_of(standing.kind).1)];
                let metric = family.encode_family(&labels)?;
                // Of a counter as well: its encoder would add a suffix to the name.
                ConstGauge::new(value).encode(metric)?;
            }
            Ok(())
        };
        write(
            "portcullis_webhook_graph_age_seconds",
            "Seconds since the last event, bookmark or list of a resource; missing before the first list",
            false,
            |standing| standing.age.map(|age| age.as_secs_f64()),
        )?;
        write("portcullis_webhook_objects", "Objects that are known, by resource", false, |standing| {
            Some(number(standing.objects))
        })?;
        write(
            "portcullis_webhook_unusable_objects",
            "Objects that cannot be decoded and grant nothing",
            false,
            |standing| Some(number(standing.unusable)),
        )?;
        write(
            "portcullis_webhook_watch_failures_total",
            "Failed requests for a list or a watch",
            true,
            |standing| Some(number(standing.failures)),
        )
    }
}

fn number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
